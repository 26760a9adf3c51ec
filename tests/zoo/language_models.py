"""Models of text, as transformers makes them, with a few small layers."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn
from zoo.entry import Animal, ids

__all__ = ["LANGUAGE_MODELS"]

_SMALL = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}
_SIZES = ((1, 7), (3, 12))


def _tokens(*, mask: bool = True) -> list[dict[str, torch.Tensor]]:
    samples = []
    for rows, length in _SIZES:
        sample = {"input_ids": ids(57, rows, length) + 3}
        if mask:
            sample["attention_mask"] = torch.ones(rows, length, dtype=torch.long)
        samples.append(sample)
    return samples


def bert() -> tuple[nn.Module, Any]:
    """A BERT encoder."""
    return transformers.BertModel(transformers.BertConfig(**_SMALL)), _tokens()


def distilbert() -> tuple[nn.Module, Any]:
    """A DistilBERT classifier."""
    config = transformers.DistilBertConfig(vocab_size=60, dim=32, n_layers=2, n_heads=4, hidden_dim=37)
    return transformers.DistilBertForSequenceClassification(config), _tokens()


def roberta() -> tuple[nn.Module, Any]:
    """A RoBERTa encoder, whose positions count what is not padding."""
    return transformers.RobertaModel(transformers.RobertaConfig(**_SMALL, pad_token_id=1)), _tokens()


def deberta() -> tuple[nn.Module, Any]:
    """A DeBERTa encoder with relative positions."""
    config = transformers.DebertaV2Config(
        **_SMALL,
        relative_attention=True,
        position_buckets=8,
        pos_att_type=["p2c", "c2p"],
        norm_rel_ebd="layer_norm",
        share_att_key=True,
    )
    return transformers.DebertaV2Model(config), _tokens()


def albert() -> tuple[nn.Module, Any]:
    """An ALBERT token classifier, whose layers share their weights."""
    config = transformers.AlbertConfig(**_SMALL, embedding_size=16)
    return transformers.AlbertForTokenClassification(config), _tokens()


def t5_encoder() -> tuple[nn.Module, Any]:
    """The encoder of T5."""
    config = transformers.T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4)
    return transformers.T5EncoderModel(config), _tokens()


def gpt2() -> tuple[nn.Module, Any]:
    """GPT-2 that keeps no cache."""
    config = transformers.GPT2Config(
        vocab_size=60, n_positions=64, n_embd=32, n_layer=2, n_head=4, use_cache=False, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config), _tokens()


def llama() -> tuple[nn.Module, Any]:
    """A decoder in the manner of Llama: rotary positions, grouped heads, no cache."""
    config = transformers.LlamaConfig(**_SMALL, num_key_value_heads=2, use_cache=False)
    return transformers.LlamaForCausalLM(config), _tokens()


def gpt2_with_cache() -> tuple[nn.Module, Any]:
    """GPT-2 that returns its cache: keys and values become outputs."""
    config = transformers.GPT2Config(
        vocab_size=60, n_positions=64, n_embd=32, n_layer=1, n_head=4, use_cache=True, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config), _tokens()


def clip_text() -> tuple[nn.Module, Any]:
    """The text tower of CLIP: the pooled row is found by the largest token."""
    config = transformers.CLIPTextConfig(**_SMALL, projection_dim=16, bos_token_id=0, eos_token_id=2)
    return transformers.CLIPTextModelWithProjection(config), _tokens()


LANGUAGE_MODELS = (
    Animal(name="bert", make=bert, quick=True),
    Animal(name="distilbert", make=distilbert),
    Animal(name="roberta", make=roberta),
    Animal(name="deberta", make=deberta),
    Animal(name="albert", make=albert),
    Animal(name="t5_encoder", make=t5_encoder),
    Animal(name="gpt2", make=gpt2),
    Animal(name="gpt2_with_cache", make=gpt2_with_cache),
    Animal(name="llama", make=llama),
    Animal(name="clip_text", make=clip_text),
)
