"""Models that tempt a frontend to serve them wrong: coupled rows, random numbers, padding, images of any size."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn
from zoo.entry import Animal, ids, pixels, values

__all__ = ["HARDER_MODELS"]

_SMALL = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}


def clip() -> tuple[nn.Module, Any]:
    """Both towers of CLIP: every image is compared with every text, so rows of the answer are pairs."""
    text = {**_SMALL, "bos_token_id": 0, "eos_token_id": 2}
    vision = {**_SMALL, "image_size": 32, "patch_size": 8}
    for key in ("vocab_size", "max_position_embeddings"):
        vision.pop(key)
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    sample = {"input_ids": ids(57, 2, 7) + 3, "pixel_values": pixels(2, 3, 32, 32)}
    return transformers.CLIPModel(config), sample


def padded_bert() -> tuple[nn.Module, Any]:
    """BERT with rows of different lengths in one batch."""
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    samples = [
        {"input_ids": ids(57, 2, 5) + 3, "attention_mask": mask},
        {"input_ids": ids(57, 1, 9) + 3, "attention_mask": torch.ones(1, 9, dtype=torch.long)},
    ]
    return transformers.BertForSequenceClassification(transformers.BertConfig(**_SMALL)), samples


def t5() -> tuple[nn.Module, Any]:
    """T5 with both halves: two lengths that are independent of each other."""
    config = transformers.T5Config(
        vocab_size=60, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, use_cache=False, decoder_start_token_id=0
    )
    samples = [
        {"input_ids": ids(57, r, n) + 3, "decoder_input_ids": ids(57, r, m) + 3} for r, n, m in ((1, 7, 3), (2, 9, 5))
    ]
    return transformers.T5ForConditionalGeneration(config), samples


def swin_any_size() -> tuple[nn.Module, Any]:
    """Swin on images of several sizes: windows are padded and cut by the size."""
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=4
    )
    return transformers.SwinModel(config), [
        {"pixel_values": pixels(r, 3, n, m)} for r, n, m in ((1, 32, 32), (2, 64, 96))
    ]


def vit_mae() -> tuple[nn.Module, Any]:
    """An autoencoder that masks patches at random, in eval mode too."""
    config = transformers.ViTMAEConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=37,
        image_size=32,
        patch_size=8,
        decoder_hidden_size=16,
        decoder_num_hidden_layers=1,
        decoder_num_attention_heads=4,
        decoder_intermediate_size=20,
    )
    return transformers.ViTMAEModel(config), {"pixel_values": pixels(2, 3, 32, 32)}


def mixture(way: str = "batched_mm") -> tuple[nn.Module, Any]:
    """Mixtral: every token is sent to two of four experts."""
    config = transformers.MixtralConfig(
        **{**_SMALL, "intermediate_size": 48},
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        use_cache=False,
    )
    model = transformers.MixtralForCausalLM(config)
    model.set_experts_implementation(way)
    return model, [{"input_ids": ids(60, r, n)} for r, n in ((1, 5), (2, 8))]


def mamba() -> tuple[nn.Module, Any]:
    """A state space model: its scan is a loop over steps."""
    config = transformers.MambaConfig(
        vocab_size=60, hidden_size=16, state_size=4, num_hidden_layers=1, use_cache=False, time_step_rank=4
    )
    return transformers.MambaModel(config), {"input_ids": ids(60, 2, 6)}


def patch_tst() -> tuple[nn.Module, Any]:
    """A forecaster that scales every series by its own mean."""
    config = transformers.PatchTSTConfig(
        num_input_channels=3,
        context_length=24,
        patch_length=4,
        patch_stride=4,
        prediction_length=6,
        d_model=16,
        num_attention_heads=2,
        num_hidden_layers=1,
        ffn_dim=20,
    )
    return transformers.PatchTSTForPrediction(config), {"past_values": values(2, 24, 3)}


class PackedLengths(nn.Module):
    """A GRU over rows of different lengths, packed."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.GRU(6, 8, batch_first=True)

    def forward(self, steps: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The state after the last real step of each row."""
        packed = nn.utils.rnn.pack_padded_sequence(steps, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return self.memory(packed)[1][0]


class BagOfOffsets(nn.Module):
    """Bags of words of any size, as one long list with offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(50, 8, mode="sum")

    def forward(self, words: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """One row per bag."""
        return self.words(words, offsets)


class InstanceNormInTraining(nn.Module):
    """A batch norm that always uses the statistics of its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        return self.norm(x)


class TopOfBatch(nn.Module):
    """The two best rows of all."""

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Their numbers."""
        return scores.sum(1).topk(2).indices


class Ragged(nn.Module):
    """Padding is dropped: as many rows as there are real tokens."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens above zero."""
        return tokens[tokens > 0]


HARDER_MODELS = (
    Animal(name="clip", make=clip, verdict="unbatched", because="shape (5, 5) for batch 5"),
    Animal(name="padded_bert", make=padded_bert),
    Animal(name="t5", make=t5),
    Animal(
        name="swin_any_size",
        make=swin_any_size,
        verdict="refused",
        because="the exported file fails at batch 4, height 48, width 64, where the module does not",
    ),
    Animal(name="vit_mae", make=vit_mae, verdict="refused", because="draws random numbers in eval mode"),
    Animal(name="mixture", make=mixture),
    Animal(
        name="mixture_by_expert",
        make=lambda: mixture("eager"),
        verdict="refused",
        because="forward branches on the values of its inputs",
    ),
    Animal(name="mamba", make=mamba),
    Animal(name="patch_tst", make=patch_tst),
    Animal(
        name="packed_lengths",
        make=lambda: (PackedLengths(), {"steps": values(3, 5, 6), "lengths": torch.tensor([2, 5, 3])}),
        verdict="refused",
        because="the module cannot be exported as asked",
    ),
    Animal(
        name="bag_of_offsets",
        make=lambda: (BagOfOffsets(), {"words": ids(50, 9), "offsets": torch.tensor([0, 3, 5])}),
        verdict="unbatched",
        because="'words' has a fixed first axis",
    ),
    Animal(
        name="norm_of_batch",
        make=lambda: (InstanceNormInTraining(), values(4, 4)),
        verdict="unbatched",
        because="depends on the other rows",
    ),
    Animal(
        name="top_of_batch", make=lambda: (TopOfBatch(), values(5, 3)), verdict="unbatched", because="fixed first axis"
    ),
    Animal(name="ragged", make=lambda: (Ragged(), ids(5, 3, 4)), verdict="unbatched", because="rows for batch"),
)
