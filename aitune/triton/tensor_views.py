"""How a tensor of the artifact looks to a client: Triton's dims, reshape and batch axis, and the way back.

A batching model has the batch in front of ``dims``. With ``reshape`` the artifact sees ``reshape.shape`` where the
client sees ``dims``; free sizes correspond from left to right. A scalar of the artifact is ``[1]`` to a client. The
number of elements is the same on both sides, so a tensor only ever needs another shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aitune.errors import UsageError
from aitune.records import DType
from aitune.triton.datatypes import dtype_of_config

__all__ = ["TensorView", "tensor_views"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorView:
    """One tensor of a config.

    Attributes:
        name: Its name.
        dtype: Element type of the config.
        dims: What the config calls dims: sizes that clients see, without the batch; -1 where free.
        reshape: What the artifact sees in their place, None when that is the same.
        batched: Whether a batch axis comes before them.
    """

    name: str
    dtype: DType
    dims: tuple[int, ...]
    reshape: tuple[int, ...] | None = None
    batched: bool = False

    @property
    def client_dims(self) -> tuple[int, ...]:
        """Sizes that clients see, batch included; what the metadata endpoint reports."""
        return (-1, *self.dims) if self.batched else self.dims

    @property
    def artifact_dims(self) -> tuple[int, ...]:
        """Sizes that the artifact sees, batch included."""
        inner = self.dims if self.reshape is None else self.reshape
        return (-1, *inner) if self.batched else inner

    def to_client(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that a client sends or gets for a tensor that has ``shape`` in the artifact.

        Raises:
            UsageError: If the artifact cannot have such a shape under this config.
        """
        if not shape and all(size == 1 for size in self.artifact_dims):
            return self.client_dims  # a scalar is [1] to a client
        return self._filled(self.client_dims, self.artifact_dims, shape)

    def to_artifact(self, shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
        """The shape in the artifact of a tensor that a client sends or gets with ``shape``.

        Args:
            shape: Shape at the client.
            rank: Number of axes in the artifact; tells a scalar from ``[1]``.

        Raises:
            UsageError: If a client cannot have such a shape under this config.
        """
        if rank == 0 and all(size == 1 for size in shape):
            return ()
        return self._filled(self.artifact_dims, self.client_dims, shape)

    def _filled(self, wanted: tuple[int, ...], pattern: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
        """``wanted`` with its free sizes taken from ``shape``, which must fit ``pattern``."""
        fits = len(shape) == len(pattern) and all(want in (-1, got) for want, got in zip(pattern, shape, strict=True))
        if not fits:
            raise UsageError(f"tensor {self.name!r} has shape {list(shape)}, the config says {list(pattern)}")
        free = iter([got for want, got in zip(pattern, shape, strict=True) if want == -1])
        return tuple(next(free) if size == -1 else size for size in wanted)


def tensor_views(config: Any, field: str) -> Mapping[str, TensorView]:
    """The tensors of a ``ModelConfig`` message by name.

    Args:
        config: The message.
        field: ``"input"`` or ``"output"``.
    """
    found = {}
    for tensor in getattr(config, field):
        kind = tensor.DESCRIPTOR.fields_by_name["data_type"].enum_type.values_by_number[tensor.data_type].name
        found[tensor.name] = TensorView(
            name=tensor.name,
            dtype=dtype_of_config(kind),
            dims=tuple(tensor.dims),
            reshape=tuple(tensor.reshape.shape) if tensor.HasField("reshape") else None,
            batched=config.max_batch_size > 0,
        )
    return found
