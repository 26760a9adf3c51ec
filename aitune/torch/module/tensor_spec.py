"""What samples taught about one tensor: which axes move, which of them with the batch, and between which sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from aitune.torch.module.batch_axes import (
    NAN,
    BatchAxisCandidate,
    Entry,
    batch_size_of,
    candidates,
    implied_batch_sizes,
    is_batch,
    is_dim,
    is_whole,
    join_labels,
    label_without_ratio,
)
from aitune.torch.module.errors import SampleValueError, StructureError
from aitune.torch.module.info_level import InfoLevel, check_level

__all__ = ["InfoLevel", "TensorSpec", "spec_maker"]


_EVIDENCE = ("_batch_sizes", "_dtypes")


class _Evidence:
    """Slots beside the fields; None where what they say follows from the fields."""

    __slots__ = _EVIDENCE

    _batch_sizes: frozenset[int] | None
    _dtypes: frozenset[torch.dtype] | None


@dataclass(slots=True, eq=False, repr=False)
class TensorSpec(_Evidence):
    """A tensor as the samples so far showed it.

    Equality and hash look at the rank alone, so learning never changes them. Merging (``update_shapes_seen``) does not
    depend on order or repetition, except that ``dtype`` stays that of the first sample; ``dtypes`` has all.

    Attributes:
        shape: Per axis the only size seen, ``batch<axis>``, or ``dim<axis>``.
        min_shape: Smallest size per axis.
        max_shape: Largest size per axis.
        dtype: Dtype of the first tensor.
        _bs_multipliers: Per axis the ratio of size to batch size that every sample had, NaN where there is none.

    >>> spec = TensorSpec.from_tensor(torch.zeros(1, 3), 1)
    >>> spec.update_shapes_seen(TensorSpec.from_tensor(torch.zeros(2, 3), 2))
    >>> print(spec)
    shape=[batch0, 3]
    """

    shape: list[Entry]
    min_shape: list[int]
    max_shape: list[int]
    dtype: torch.dtype | None
    _bs_multipliers: list[float]

    def __post_init__(self) -> None:
        self._batch_sizes = None
        self._dtypes = None

    @staticmethod
    def from_tensor(tensor: torch.Tensor, batch_size: float | None) -> TensorSpec:
        """The spec of one sample.

        Args:
            tensor: The sample; of a nested tensor the axes whose sizes vary are dynamic from the start.
            batch_size: Batch size it belongs to; None or NaN where it is unknown.

        Raises:
            SampleValueError: If the batch size is not a positive int.
        """
        return spec_maker(batch_size_of(batch_size))(tensor)

    def __eq__(self, other: object) -> bool:
        return len(self.shape) == len(other.shape) if isinstance(other, TensorSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash(len(self.shape))

    def __str__(self) -> str:
        return self.describe(InfoLevel.SHORT)

    def __repr__(self) -> str:
        return self.describe(InfoLevel.MEDIUM)

    def describe(self, level: InfoLevel = InfoLevel.FULL) -> str:
        """One line of text.

        Raises:
            UnknownLevelError: If ``level`` is no InfoLevel.
        """
        check_level(level)
        text = f"shape=[{', '.join(str(entry) for entry in self.shape)}]"
        if level is InfoLevel.FULL:
            text += f" min_shape={self.min_shape} max_shape={self.max_shape}"
        return text if level is InfoLevel.SHORT else f"{text} dtype={self.dtype}"

    @property
    def batch_sizes(self) -> frozenset[int]:
        """The distinct batch sizes that samples came with."""
        return (
            implied_batch_sizes(self.min_shape, self.max_shape, self._bs_multipliers)
            if self._batch_sizes is None
            else self._batch_sizes
        )

    @property
    def dtypes(self) -> frozenset[torch.dtype]:
        """Every dtype seen."""
        if self._dtypes is not None:
            return self._dtypes
        return frozenset() if self.dtype is None else frozenset({self.dtype})

    def update_shapes_seen(self, other: TensorSpec) -> None:
        """Learns everything that another spec has learned.

        Raises:
            StructureError: If the ranks differ.
        """
        shape, low, high, ratios = self.shape, self.min_shape, self.max_shape, self._bs_multipliers
        if len(shape) != len(other.shape):
            raise StructureError(f"specs to merge must have one rank, found {shape} and {other.shape}")
        sizes, more = self._batch_sizes, other._batch_sizes
        if sizes is None or more is None or not more <= sizes:
            self._batch_sizes = self.batch_sizes | other.batch_sizes  # before the bounds, from which it may follow
        if other.dtype is not self.dtype or other._dtypes is not None:
            self._dtypes = self.dtypes | other.dtypes
        their_low, their_high, their_ratios = other.min_shape, other.max_shape, other._bs_multipliers
        for axis, theirs in enumerate(other.shape):
            if their_low[axis] < low[axis]:
                low[axis] = their_low[axis]
            if their_high[axis] > high[axis]:
                high[axis] = their_high[axis]
            mine = shape[axis]
            if their_ratios[axis] != ratios[axis]:
                if mine != theirs or type(mine) is str:
                    shape[axis] = label_without_ratio(axis, mine, theirs, their_ratios[axis], ratios[axis])
                ratios[axis] = NAN
            elif mine != theirs and (type(mine) is int or type(theirs) is str):
                shape[axis] = join_labels(axis, mine, theirs, ratios[axis])
                if not is_batch(shape[axis]):
                    ratios[axis] = NAN

    def get_batch_axis_multipliers(self) -> dict[int, int]:
        """Size per unit of batch of each batch axis.

        Raises:
            SampleValueError: If a batch axis, named so by hand, has no whole multiplier.
        """
        found: dict[int, int] = {}
        for axis, entry in enumerate(self.shape):
            if is_batch(entry):
                ratio = self._bs_multipliers[axis]
                if not is_whole(ratio):
                    raise SampleValueError(f"batch axis {axis} must have a whole multiplier, found {ratio!r}")
                found[axis] = int(ratio)
        return found

    def get_max_batch_size(self, normalized: bool = False) -> int:
        """Largest size over the batch axes, 1 without any.

        Args:
            normalized: Divide each size by its multiplier, which gives the batch size itself.
        """
        return max([1, *self._batch_bounds(self.max_shape, normalized)])

    def get_min_batch_size(self, normalized: bool = False) -> int | None:
        """Smallest size over the batch axes, None without any; ``normalized`` as in :meth:`get_max_batch_size`."""
        return min(self._batch_bounds(self.min_shape, normalized), default=None)

    def _batch_bounds(self, bounds: list[int], normalized: bool) -> list[int]:
        if normalized:
            return [bounds[axis] // multiplier for axis, multiplier in self.get_batch_axis_multipliers().items()]
        return [bound for bound, entry in zip(bounds, self.shape, strict=True) if is_batch(entry)]

    def batch_candidates(self) -> tuple[BatchAxisCandidate, ...]:
        """The axes that may be the batch axis, with multiplier and evidence; more than one means it is ambiguous."""
        return candidates(self.shape, self._bs_multipliers, self.batch_sizes)

    def has_batch_axis(self) -> bool:
        """Whether some axis moves with the batch."""
        return any(is_batch(entry) for entry in self.shape)

    def has_dynamic_axis(self) -> bool:
        """Whether some axis moves, and not with the batch."""
        return any(is_dim(entry) for entry in self.shape)

    def has_one_dtype(self) -> bool:
        """Whether every sample had the same dtype."""
        return len(self.dtypes) <= 1

    def matches(self, other: TensorSpec) -> bool:
        """Whether the ranks are equal and no axis has one size here and another one there."""
        return len(self.shape) == len(other.shape) and all(
            mine == theirs or isinstance(mine, str) or isinstance(theirs, str)
            for mine, theirs in zip(self.shape, other.shape, strict=True)
        )

    def drop_evidence(self) -> None:
        """Forgets the batch sizes, for a spec whose sizes were made up rather than seen."""
        self._batch_sizes = _NO_SIZES

    def copy(self) -> TensorSpec:
        """A spec that learns on its own from here."""
        return TensorSpec.from_dict(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The fields, with a torch dtype; evidence only where it does not follow from them."""
        state: dict[str, Any] = {
            "type": "TensorSpec",
            "shape": list(self.shape),
            "min_shape": list(self.min_shape),
            "max_shape": list(self.max_shape),
            "dtype": self.dtype,
            "_bs_multipliers": list(self._bs_multipliers),
        }
        if self.batch_sizes != implied_batch_sizes(self.min_shape, self.max_shape, self._bs_multipliers):
            state["_batch_sizes"] = sorted(self.batch_sizes)
        if not self.has_one_dtype():
            state["_dtypes"] = sorted(self.dtypes, key=str)
        return state

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> TensorSpec:
        """The spec that :meth:`to_dict` described; the mapping given stays as it is.

        Raises:
            SampleValueError: If it does not say that it is a TensorSpec.
            TypeError: If a field is missing or unknown.
        """
        if state.get("type") != "TensorSpec":
            raise SampleValueError(f"a stored TensorSpec must have the type 'TensorSpec', found {state.get('type')!r}")
        spec = TensorSpec(**{name: value for name, value in state.items() if name not in ("type", *_EVIDENCE)})
        spec.shape, spec.min_shape, spec.max_shape = list(spec.shape), list(spec.min_shape), list(spec.max_shape)
        spec._bs_multipliers = [NAN if ratio is None or ratio != ratio else ratio for ratio in spec._bs_multipliers]
        for name in _EVIDENCE:
            if name in state:
                setattr(spec, name, frozenset(state[name]))
        return spec

    @staticmethod
    def is_int(value: float) -> bool:
        """Whether a number is finite and equal to its integer part."""
        return float(value).is_integer()


_NO_SIZES: frozenset[int] = frozenset()
_new_spec = TensorSpec.__new__


def spec_maker(batch_size: float) -> Callable[[torch.Tensor], TensorSpec]:
    """A function that gives the spec of one tensor of a sample.

    It runs once for each tensor of each call, so what the tensors of a sample share is made once.

    Args:
        batch_size: Batch size of the sample as :func:`.batch_axes.batch_size_of` gave it.
    """
    batch_sizes = _NO_SIZES if batch_size != batch_size else frozenset({int(batch_size)})
    ratio_of, new, cls = float(batch_size).__rtruediv__, _new_spec, TensorSpec

    def make(tensor: torch.Tensor) -> TensorSpec:
        if tensor.is_nested:
            spec = _spec_of_nested(tensor, batch_size)
            spec._batch_sizes = batch_sizes
            return spec
        sizes = [*tensor.shape]
        spec = new(cls)
        spec.shape = sizes
        spec.min_shape = sizes.copy()
        spec.max_shape = sizes.copy()
        spec.dtype = tensor.dtype
        spec._bs_multipliers = [*map(ratio_of, sizes)]
        spec._batch_sizes = batch_sizes
        spec._dtypes = None
        return spec

    return make


def _spec_of_nested(tensor: torch.Tensor, batch_size: float) -> TensorSpec:
    """The spec of a nested tensor: the bounds are those of its parts, and an axis that varies among them is dynamic."""
    parts = tensor.unbind()
    sizes = [[len(parts)], *([part.shape[axis] for part in parts] for axis in range(tensor.dim() - 1))]
    low, high = [min(seen, default=0) for seen in sizes], [max(seen, default=0) for seen in sizes]
    ragged = [first != last for first, last in zip(low, high, strict=True)]
    return TensorSpec(
        shape=[f"dim{axis}" if ragged[axis] else size for axis, size in enumerate(low)],
        min_shape=low,
        max_shape=high,
        dtype=tensor.dtype,
        _bs_multipliers=[NAN if ragged[axis] else size / batch_size for axis, size in enumerate(low)],
    )
