"""How clients see the artifact's tensors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitune.errors import UsageError
from aitune.records import DType
from aitune.triton.schema import parse_config
from aitune.triton.tensor_views import TensorView, tensor_views


def view(dims: tuple, reshape: tuple | None = None, batched: bool = True) -> TensorView:
    """Short for a view of a float tensor."""
    return TensorView(name="x", dtype=DType.FLOAT32, dims=dims, reshape=reshape, batched=batched)


@pytest.mark.parametrize(
    ("seen", "artifact", "client"),
    [
        (view((4,)), (3, 4), (3, 4)),
        (view((-1, 4)), (3, 7, 4), (3, 7, 4)),
        (view((1,), ()), (3,), (3, 1)),
        (view((1,), (), batched=False), (), (1,)),
        (view((1,), None, batched=False), (), (1,)),
        (view((-1, 2), (2, -1)), (3, 2, 5), (3, 5, 2)),
        (view((-1,), None, batched=False), (6,), (6,)),
    ],
)
def test_shapes_go_to_the_client_and_back(seen: TensorView, artifact: tuple, client: tuple) -> None:
    """Batch, reshape and scalars; both directions."""
    assert seen.to_client(artifact) == client
    assert seen.to_artifact(client, len(artifact)) == artifact


@pytest.mark.parametrize("shape", [(3, 5), (3,), (), (3, 4, 1)])
def test_a_shape_the_config_does_not_allow_is_refused(shape: tuple) -> None:
    """The message gives both."""
    with pytest.raises(UsageError, match=r"the config says \[-1, 4\]"):
        view((4,)).to_client(shape)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.data())
def test_every_allowed_shape_survives_the_round_trip(sizes: list[int], data: st.DataObject) -> None:
    """Whatever is free and whatever is fixed."""
    dims = tuple(data.draw(st.sampled_from([size, -1])) for size in sizes)
    seen = view(dims)
    assert seen.to_artifact(seen.to_client((2, *sizes)), len(sizes) + 1) == (2, *sizes)


def test_views_come_from_a_config() -> None:
    """Types, dims, reshape and the batch."""
    config = parse_config(
        'max_batch_size: 4 input { name: "a" data_type: TYPE_BF16 dims: [-1] } '
        'output { name: "b" data_type: TYPE_STRING dims: [1] reshape { shape: [] } }'
    )
    assert tensor_views(config, "input")["a"].client_dims == (-1, -1)
    found = tensor_views(config, "output")["b"]
    assert (found.dtype, found.artifact_dims) == (DType.STRING, (-1,))
