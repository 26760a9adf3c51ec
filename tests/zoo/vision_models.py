"""Models of images, as transformers makes them, with a few small layers."""

from __future__ import annotations

from typing import Any

import transformers
from torch import nn
from zoo.entry import Animal, pixels

__all__ = ["VISION_MODELS"]

_ONE_SIZE = [{"pixel_values": pixels(rows, 3, 32, 32)} for rows in (1, 3)]
_SIZES = [{"pixel_values": pixels(1, 3, 32, 32)}, {"pixel_values": pixels(2, 3, 64, 96)}]


def vit() -> tuple[nn.Module, Any]:
    """A vision transformer, images of one size."""
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, image_size=32, patch_size=8
    )
    return transformers.ViTForImageClassification(config), _ONE_SIZE


def swin() -> tuple[nn.Module, Any]:
    """A Swin transformer, whose windows are shifted."""
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=4
    )
    return transformers.SwinForImageClassification(config), _ONE_SIZE


def convnext() -> tuple[nn.Module, Any]:
    """A ConvNeXt classifier."""
    config = transformers.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], image_size=32)
    return transformers.ConvNextForImageClassification(config), _SIZES


def resnet() -> tuple[nn.Module, Any]:
    """A ResNet classifier."""
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    return transformers.ResNetForImageClassification(config), _SIZES


def mobilenet() -> tuple[nn.Module, Any]:
    """A MobileNet, whose padding depends on the size of the image."""
    model = transformers.MobileNetV2Model(transformers.MobileNetV2Config(depth_multiplier=0.25, image_size=32))
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None  # so that one batch is all it remembers, and numbers do not fade from layer to layer
    model.train()(pixels(8, 3, 64, 64))
    return model, _ONE_SIZE


def segformer() -> tuple[nn.Module, Any]:
    """A SegFormer that labels every pixel."""
    config = transformers.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[4, 2],
        hidden_sizes=[8, 16],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
    )
    return transformers.SegformerForSemanticSegmentation(config), _SIZES


def clip_vision() -> tuple[nn.Module, Any]:
    """The image tower of CLIP."""
    config = transformers.CLIPVisionConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=37,
        image_size=32,
        patch_size=8,
        projection_dim=16,
    )
    return transformers.CLIPVisionModelWithProjection(config), _ONE_SIZE


def detr() -> tuple[nn.Module, Any]:
    """DETR: a backbone, an encoder and queries that become boxes."""
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=37,
        decoder_ffn_dim=37,
        num_queries=5,
    )
    return transformers.DetrForObjectDetection(config), [{"pixel_values": pixels(rows, 3, 64, 64)} for rows in (1, 2)]


VISION_MODELS = (
    Animal(name="vit", make=vit),
    Animal(name="swin", make=swin, quick=True),
    Animal(name="convnext", make=convnext),
    Animal(name="resnet", make=resnet),
    Animal(name="mobilenet", make=mobilenet),
    Animal(name="segformer", make=segformer),
    Animal(name="clip_vision", make=clip_vision),
    Animal(name="detr", make=detr),
)
