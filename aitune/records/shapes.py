"""Tensor contracts: what a tensor is called, what it holds, and the shapes it was tuned for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aitune.errors import RecordError
from aitune.records.dtypes import DType

__all__ = ["Dim", "TensorSpec", "TunedTensorSpec"]

Dim = int | str | None
"""One declared size: an int is fixed, a string is a symbol, None is dynamic without a name."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, element type and declared shape of one tensor.

    Attributes:
        name: Name the artifact gives the tensor; not blank.
        dtype: Element type.
        shape: Declared sizes, batch axis included: ``("batch", 3, 224, 224)``. Integers are fixed and at least 1,
            strings are symbols, None is an unnamed dynamic dimension; ``()`` is a scalar.

    Raises:
        RecordError: If the name is blank or the shape is not a tuple of such entries.
        TypeError: If ``dtype`` is not a DType.

    >>> TensorSpec("x", DType.FLOAT32, ("batch", 3))
    TensorSpec(name='x', dtype=<DType.FLOAT32: 'float32'>, shape=('batch', 3))
    """

    name: str
    dtype: DType
    shape: tuple[Dim, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise RecordError(f"name of a tensor must be a string that is not blank, got {self.name!r}")
        if not isinstance(self.dtype, DType):
            raise TypeError(f"dtype of tensor {self.name!r} must be a DType, got {self.dtype!r}")
        if not isinstance(self.shape, tuple):
            raise RecordError(f"shape of tensor {self.name!r} must be a tuple, got {self.shape!r}")
        for axis, dim in enumerate(self.shape):
            _check_dim(self.name, axis, dim)

    @property
    def rank(self) -> int:
        """Number of axes; 0 for a scalar."""
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class TunedTensorSpec(TensorSpec):
    """A tensor contract with the smallest and the largest shape it was tuned for.

    Attributes:
        min_shape: Smallest size per axis, each at least 1; equal to the declared size where that is fixed.
        max_shape: Largest size per axis, at least ``min_shape``.
        batch_axis: Axis along which independent rows lie, None when rows were not proved independent.

    Raises:
        RecordError: If a bound is missing, out of order or contradicts the declared shape, if one symbol has two
            ranges, or if the batch axis is not one of the axes.
        TypeError: If ``dtype`` is not a DType.

    >>> ids = TunedTensorSpec("ids", DType.INT64, ("batch", "sequence"), (1, 8), (8, 512), batch_axis=0)
    >>> ids.min_batch_size, ids.max_batch_size
    (1, 8)
    """

    min_shape: tuple[int, ...]
    max_shape: tuple[int, ...]
    batch_axis: int | None = None

    def __post_init__(self) -> None:
        TensorSpec.__post_init__(self)  # zero-argument super() fails here: slots make a second class
        object.__setattr__(self, "min_shape", _bounds(self, "min_shape", self.min_shape))
        object.__setattr__(self, "max_shape", _bounds(self, "max_shape", self.max_shape))
        for axis, dim in enumerate(self.shape):
            _check_range(self.name, axis, dim, self.min_shape[axis], self.max_shape[axis])
        _check_symbols(self)
        _check_batch_axis(self)

    @classmethod
    def from_spec(
        cls,
        spec: TensorSpec,
        min_shape: Sequence[int],
        max_shape: Sequence[int],
        batch_axis: int | None = None,
    ) -> TunedTensorSpec:
        """The same tensor with bounds; a bound the spec already had is replaced.

        Args:
            spec: Where name, dtype and declared shape come from.
            min_shape: Smallest size per axis.
            max_shape: Largest size per axis.
            batch_axis: Axis of the rows, None for none.
        """
        return cls(spec.name, spec.dtype, spec.shape, tuple(min_shape), tuple(max_shape), batch_axis)

    @property
    def min_batch_size(self) -> int | None:
        """Smallest size on the batch axis; None without one."""
        return None if self.batch_axis is None else self.min_shape[self.batch_axis]

    @property
    def max_batch_size(self) -> int | None:
        """Largest size on the batch axis; None without one."""
        return None if self.batch_axis is None else self.max_shape[self.batch_axis]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_dim(name: str, axis: int, dim: object) -> None:
    """Refuse a declared size that is neither a positive int, a symbol nor None."""
    fixed = _is_int(dim) and isinstance(dim, int) and dim > 0
    symbol = isinstance(dim, str) and bool(dim.strip())
    if not (fixed or symbol or dim is None):
        raise RecordError(f"axis {axis} of tensor {name!r} must be an int >= 1, a symbol or None, got {dim!r}")


def _bounds(spec: TunedTensorSpec, field: str, value: object) -> tuple[int, ...]:
    """The bound as a tuple of the spec's rank; lists are converted so that the record stays hashable."""
    if not isinstance(value, list | tuple):
        raise RecordError(f"{field} of tensor {spec.name!r} must be a tuple of sizes, got {value!r}")
    if len(value) != len(spec.shape):
        raise RecordError(
            f"{field} of tensor {spec.name!r} needs {len(spec.shape)} sizes for {spec.shape}, got {value!r}"
        )
    for axis, size in enumerate(value):
        if not _is_int(size) or size < 1:
            raise RecordError(f"{field} of tensor {spec.name!r} must be an int >= 1 on axis {axis}, got {size!r}")
    return tuple(value)


def _check_range(name: str, axis: int, dim: Dim, low: int, high: int) -> None:
    """Refuse an empty range, and one that contradicts a fixed size."""
    if low > high:
        raise RecordError(f"axis {axis} of tensor {name!r} needs min <= max, got min={low}, max={high}")
    if isinstance(dim, int) and not low == high == dim:
        raise RecordError(f"axis {axis} of tensor {name!r} is fixed to {dim}, got min={low}, max={high}")


def _check_symbols(spec: TunedTensorSpec) -> None:
    """Within one tensor, equal symbols are equal sizes."""
    seen: dict[str, tuple[int, int]] = {}
    for dim, low, high in zip(spec.shape, spec.min_shape, spec.max_shape, strict=True):
        if isinstance(dim, str) and seen.setdefault(dim, (low, high)) != (low, high):
            first = "{}..{}".format(*seen[dim])
            raise RecordError(f"symbol {dim!r} of tensor {spec.name!r} has two ranges, {first} and {low}..{high}")


def _check_batch_axis(spec: TunedTensorSpec) -> None:
    """Refuse a batch axis that is not one of the axes."""
    axis = spec.batch_axis
    if axis is not None and not (_is_int(axis) and 0 <= axis < len(spec.shape)):
        raise RecordError(
            f"batch_axis of tensor {spec.name!r} must be None or one of its {len(spec.shape)} axes, got {axis!r}"
        )
