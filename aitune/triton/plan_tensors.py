"""Element types and sizes of inputs and outputs, the way a config says them (rules §3.2, §5.3, §6.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aitune.errors import RecordError
from aitune.records.dtypes import DType
from aitune.records.shapes import TensorSpec, TunedTensorSpec
from aitune.triton.releases import BEHAVIOURS, Release

__all__ = ["PlannedTensor", "check_dtypes", "client_shape", "plan_tensor"]

_ALWAYS = "0.0"
# First release whose TensorRT backend takes the type; what is not listed it never takes.
_TENSORRT_TYPES = {
    DType.BOOL: _ALWAYS,
    DType.INT8: _ALWAYS,
    DType.INT32: _ALWAYS,
    DType.FLOAT16: _ALWAYS,
    DType.FLOAT32: _ALWAYS,
    DType.UINT8: BEHAVIOURS["tensorrt_uint8"],
    DType.INT64: BEHAVIOURS["tensorrt_int64"],
    DType.BFLOAT16: BEHAVIOURS["tensorrt_bf16"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTensor:
    """One input or output of a config.

    Attributes:
        name: Name in the artifact, which is its name on the server.
        dtype: Element type.
        dims: What a client sends or gets, without the batch; -1 exactly where the size is free.
        reshape: What the backend sees, without the batch; None when it is the same.
        comment: Where the sizes come from.
        free_axes: Symbols (or ``"axis 1"``) of the axes that are free, without the batch.
        shape_tensor: Whether its values decide shapes inside a TensorRT plan.
        non_linear: Whether a TensorRT plan takes it in a vectorised layout.
    """

    name: str
    dtype: DType
    dims: tuple[int, ...]
    reshape: tuple[int, ...] | None
    comment: str
    free_axes: tuple[str, ...] = ()
    shape_tensor: bool = False
    non_linear: bool = False


def plan_tensor(spec: TunedTensorSpec, *, batched: bool) -> PlannedTensor:
    """The config's view of a tensor.

    Args:
        spec: The contract.
        batched: Whether the config has a batch, which then is axis 0 and is left out of ``dims``.
    """
    axes = list(range(1 if batched else 0, spec.rank))
    dims = tuple(_dim(spec.shape[axis]) for axis in axes)
    reshape = None
    if not dims:
        # There is no rank 0 in a config (R84). One value a row: the backend gets rid of the 1 again (R89). A scalar
        # without a batch: the backend compares nothing but ones (R224), and core refuses the reshape (R85).
        dims, reshape = (1,), () if batched else None
    return PlannedTensor(
        name=spec.name,
        dtype=spec.dtype,
        dims=dims,
        reshape=reshape,
        comment=_comment(spec),
        free_axes=tuple(_symbol(spec, axis) for axis in axes if not isinstance(spec.shape[axis], int)),
    )


def client_shape(shape: tuple[int, ...], *, batched: bool) -> tuple[int, ...]:
    """A full shape of the artifact as a client sends it, without the batch."""
    return (shape[1:] if batched else shape) or (1,)


def check_dtypes(specs: Iterable[TensorSpec], *, backend: str, release: Release) -> None:
    """Refuse what keeps a model from ever loading: types that the backend of a release does not take (§5.2, §6.2).

    And a name with a NUL, at which the server, written in C, cuts it.

    Raises:
        RecordError: If there is one; the hint names the release that takes it.
    """
    for spec in specs:
        if "\0" in spec.name:
            raise RecordError(f"tensor {spec.name!r} has a NUL in its name, which no server can load", hint="rename it")
        since = _first_release(spec.dtype, backend)
        if since is None:
            raise RecordError(
                f"tensor {spec.name!r} is {spec.dtype.value}, which Triton's {backend} backend does not take",
                hint="make the model with another type at its boundary",
            )
        if not release.at_least(since):
            raise RecordError(
                f"tensor {spec.name!r} is {spec.dtype.value}, which Triton's {backend} backend takes from {since} on, "
                f"not in {release.name}",
                hint=f"publish for a newer server (--triton {since}), or make the model with another type there",
            )


def _first_release(dtype: DType, backend: str) -> str | None:
    if backend == "tensorrt":
        return _TENSORRT_TYPES.get(dtype)
    return BEHAVIOURS["onnx_bf16"] if dtype is DType.BFLOAT16 else _ALWAYS


def _dim(size: int | str | None) -> int:
    return size if isinstance(size, int) else -1


def _symbol(spec: TunedTensorSpec, axis: int) -> str:
    size = spec.shape[axis]
    return size if isinstance(size, str) else f"axis {axis}"


def _comment(spec: TunedTensorSpec) -> str:
    if not spec.shape:
        return "A scalar in the model; a config says [1]."
    shape = ", ".join("?" if size is None else str(size) for size in spec.shape)
    text = f"Full shape ({shape})"
    if spec.min_shape != spec.max_shape:
        text += f", tuned from {_times(spec.min_shape)} to {_times(spec.max_shape)}"
    if spec.batch_axis is not None:
        text += f"; rows on axis {spec.batch_axis}"
    return text + "."


def _times(shape: tuple[int, ...]) -> str:
    return "x".join(str(size) for size in shape)
