"""From what a file declares to what a contract can hold."""

from __future__ import annotations

from collections.abc import Sequence

from aitune.errors import SourceError
from aitune.records import TensorSpec
from aitune.records.interface import Port

__all__ = ["tensor_specs"]


def tensor_specs(ports: Sequence[Port], side: str) -> tuple[TensorSpec, ...]:
    """The ports as tensor specs, in the same order.

    Args:
        ports: Inputs or outputs of an interface.
        side: ``"input"`` or ``"output"``, for messages.

    Raises:
        SourceError: If a port is not a tensor, has an element type or a rank that no contract can hold, or an axis of
            size 0.
    """
    return tuple(_spec(port, side) for port in ports)


def _spec(port: Port, side: str) -> TensorSpec:
    what = f"{side} {port.name!r}"
    if port.kind != "tensor":
        raise SourceError(f"{what} is a {port.kind.replace('_', ' ')}, and a server takes tensors only")
    if port.dtype is None:
        raise SourceError(f"{what} holds {port.element_type or 'an unknown element type'}, which no contract can hold")
    if port.shape is None:
        raise SourceError(
            f"{what} does not declare how many axes it has, so a server would take it for a scalar",
            hint="export the model again with its shapes, or write the inferred shapes into the file",
        )
    if 0 in port.shape:
        raise SourceError(f"{what} declares the shape {port.shape}, which holds no values")
    dims = tuple(dim if isinstance(dim, int) or _names(dim) else None for dim in port.shape)
    return TensorSpec(port.name, port.dtype, dims)


def _names(dim: str | None) -> bool:
    """Whether it is a symbol; some exporters write ``"?"`` for every size they do not know."""
    return bool(dim and dim.strip(" ?"))
