"""Element types and sizes of inputs and outputs, the way a config says them (rules §3.2, §5.3, §6.2)."""

from __future__ import annotations

from dataclasses import dataclass

from aitune.errors import RecordError
from aitune.records.dtypes import DType
from aitune.records.shapes import TunedTensorSpec
from aitune.triton.releases import Release

__all__ = ["PlannedTensor", "check_dtypes", "client_shape", "plan_tensor"]

# First release whose backend takes the type; a type that is not in the table of a backend is never taken.
_TENSORRT_TYPES = {
    DType.BOOL: "0.0",
    DType.INT8: "0.0",
    DType.INT32: "0.0",
    DType.FLOAT16: "0.0",
    DType.FLOAT32: "0.0",
    DType.UINT8: "22.09",
    DType.INT64: "24.05",
    DType.BFLOAT16: "24.06",
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
    """

    name: str
    dtype: DType
    dims: tuple[int, ...]
    reshape: tuple[int, ...] | None
    comment: str
    free_axes: tuple[str, ...] = ()


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


def check_dtypes(specs: tuple[TunedTensorSpec, ...], *, backend: str, release: Release) -> tuple[str, ...]:
    """Refuse element types that the backend never takes; warn about those that only other builds of it take.

    Returns:
        Warnings.

    Raises:
        RecordError: If no server of this release could take a type.
    """
    warnings = []
    for spec in specs:
        if spec.dtype is DType.BFLOAT16 and not release.knows_field("DataType.TYPE_BF16"):
            raise RecordError(f"tensor {spec.name!r} is bfloat16, which Triton {release.name} cannot name")
        if backend == "tensorrt":
            since = _TENSORRT_TYPES.get(spec.dtype)
            if since is None or not release.at_least(since):
                when = f"before {since}" if since else "at all"
                raise RecordError(
                    f"tensor {spec.name!r} is {spec.dtype.value}, which Triton's TensorRT backend does not take {when}",
                    hint="build the plan with another type at its boundary",
                )
        elif spec.dtype is DType.BFLOAT16 and not release.has("onnx_bf16"):
            warnings.append(
                f"tensor {spec.name!r} is bfloat16: NVIDIA's ONNX Runtime backend takes it from 26.03 on, "
                f"not in {release.name}; aitune's own backend does"
            )
    return tuple(warnings)


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
