"""What Hugging Face models take and return is walked and resized like anything else."""

from __future__ import annotations

import pytest
import torch
from transformers import BatchEncoding, DynamicCache, GPT2Config, StaticCache
from transformers.modeling_outputs import BaseModelOutput

from aitune.torch.module.sample_metadata import SampleMetadata, batch_tensor


def outputs(batch: int) -> BaseModelOutput:
    """Outputs with a tensor, a tuple of tensors, and a field that is not there."""
    return BaseModelOutput(last_hidden_state=torch.zeros(batch, 3, 4), hidden_states=(torch.zeros(batch, 2),))


def test_model_outputs_keep_their_type_and_attributes() -> None:
    """An output that was resized is read by key and by attribute alike."""
    learned = SampleMetadata.from_outputs(outputs(1), batch_size=1)
    learned.update_shapes_seen(SampleMetadata.from_outputs(outputs(2), batch_size=2))
    made = learned.make_batch(outputs(2), 5)
    assert type(made) is BaseModelOutput
    assert made.last_hidden_state is made["last_hidden_state"]
    assert (made.last_hidden_state.shape, made.hidden_states[0].shape) == ((5, 3, 4), (5, 2))
    assert made.attentions is None


def test_what_a_tokenizer_returns_is_a_mapping() -> None:
    """A BatchEncoding is resized and stays one."""
    one, two = (BatchEncoding({"ids": torch.zeros(n, 3)}) for n in (1, 2))
    learned = SampleMetadata.from_inputs(one, batch_size=1)
    learned.update_shapes_seen(SampleMetadata.from_inputs(two, batch_size=2))
    made = learned.make_batch(two, 4)
    assert (type(made), made["ids"].shape, two["ids"].shape) == (BatchEncoding, (4, 3), (2, 3))


def test_static_caches_are_walked_and_dynamic_ones_left_out() -> None:
    """Of a static cache the tensors count, and nothing else; a copy of it shares no memory."""
    config = GPT2Config(n_layer=1, n_head=2, n_embd=8)
    cache = StaticCache(config=config, max_cache_len=4)
    cache.early_initialization(1, 2, 4, torch.float32, torch.device("cpu"))
    inputs = {"cache": cache, "grows": DynamicCache(config=config)}
    seen = SampleMetadata.from_inputs(inputs, strict=True, batch_size=1)
    assert {"cache.layers[0].keys", "cache.layers[0].values"} <= {str(place) for place, _ in seen.tensor_data}
    assert seen.other_data == ()
    seen.make_batch({"cache": cache}, 1)["cache"].layers[0].keys.fill_(1)
    assert cache.layers[0].keys.sum() == 0


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "tensor",
    [torch.zeros(2, 3).to_sparse(), torch.zeros(2, 3, device="meta"), torch.zeros(2, 3, dtype=torch.float8_e4m3fn)],
    ids=["sparse", "meta", "float8"],
)
def test_tensors_of_every_kind_change_size(tensor: torch.Tensor, size: int) -> None:
    """Sparse tensors, tensors without data and narrow dtypes are resized, viewed and learned."""
    learned = SampleMetadata.from_inputs(
        {"x": tensor[:1] if not tensor.is_sparse else tensor.narrow_copy(0, 0, 1)}, batch_size=1
    )
    learned.update_shapes_seen(SampleMetadata.from_inputs({"x": tensor}, batch_size=2))
    made = learned.make_batch({"x": tensor}, size)["x"]
    assert (made.shape, made.dtype, made.layout, made.device) == ((size, 3), tensor.dtype, tensor.layout, tensor.device)
    assert batch_tensor(tensor, learned.tensor_specs[0], size).shape == (size, 3)
    learned.update_max_batch_size({"x": tensor}, 9)
    assert learned.tensor_specs[0].max_shape == [9, 3]
