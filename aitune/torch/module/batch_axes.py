"""What samples say about which axis of a tensor is its batch axis, and how sure that is.

Each axis keeps a smallest and a largest size and a ratio of size to batch size: a number while every sample had that
very ratio, NaN once two samples differed in it or one came without a batch size. Bounds merge by minimum and maximum,
ratios by "equal or NaN", labels upwards in *one size < batch < dim*. All three are commutative, associative and
idempotent, so neither the order nor the repetition of samples decides what an axis is called.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import TypeAlias

from aitune.torch.module.errors import SampleValueError

__all__ = [
    "NAN",
    "BatchAxisCandidate",
    "Entry",
    "batch_size_of",
    "candidates",
    "is_whole",
    "join_labels",
    "shared_axis",
]

NAN = math.nan
"""The one NaN that ratios use, so that lists of ratios can be compared."""

Entry: TypeAlias = int | str
"""One axis of a learned shape: its only size, ``batch<axis>`` or ``dim<axis>``."""


@dataclass(frozen=True, slots=True, order=True)
class BatchAxisCandidate:
    """An axis whose size was the same multiple of the batch size in every sample.

    Attributes:
        axis: Number of the axis.
        multiplier: Size per unit of batch, at least 1.
        batch_sizes: The distinct batch sizes seen, ascending; with one alone any axis may look like a batch axis.
    """

    axis: int
    multiplier: int
    batch_sizes: tuple[int, ...]

    @property
    def evidence(self) -> int:
        """Number of distinct batch sizes behind the candidate; from 2 on the axis has moved with the batch."""
        return len(self.batch_sizes)


def batch_size_of(value: object, *, zero_is_unknown: bool = False) -> float:
    """A batch size as a number to divide by; NaN where it is unknown (None or NaN).

    Args:
        value: What a caller gave.
        zero_is_unknown: Read 0 as "not given".

    Raises:
        SampleValueError: If it is anything but a whole number of at least 1.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)) or (zero_is_unknown and value == 0):
        return NAN
    try:
        size = index(value)  # type: ignore[arg-type]  # what is no integer raises TypeError
    except TypeError as error:
        raise SampleValueError(f"a batch size must be a whole number, found {value!r}", hint="give an int") from error
    if size < 1 or isinstance(value, bool):
        raise SampleValueError(f"a batch size must be at least 1, found {value!r}", hint="give a positive int or None")
    return size


def is_whole(ratio: float) -> bool:
    """Whether a ratio can be a multiplier: a whole number of at least 1."""
    return ratio >= 1 and float(ratio).is_integer()


def join_labels(axis: int, mine: Entry, theirs: Entry, ratio: float) -> Entry:
    """The label of an axis that two specs describe differently.

    Args:
        axis: Number of the axis.
        mine: One entry.
        theirs: The other entry.
        ratio: Their common ratio of size to batch size, NaN without one.
    """
    fixed = is_dim(mine) or is_dim(theirs)
    return f"batch{axis}" if is_whole(ratio) and not fixed else f"dim{axis}"


def label_without_ratio(axis: int, mine: Entry, theirs: Entry, my_ratio: float, ratio: float) -> Entry:
    """The label of an axis whose ratio is unknown or not the same on both sides."""
    # Batch axes named by hand may have no ratio, and are equal then.
    made_by_hand = ratio != ratio and my_ratio != my_ratio
    return mine if mine == theirs and (made_by_hand or not is_batch(mine)) else f"dim{axis}"


def implied_batch_sizes(low: Sequence[int], high: Sequence[int], ratios: Sequence[float]) -> frozenset[int]:
    """The batch sizes that bounds and ratios prove to have been seen."""
    found: set[int] = set()
    for smallest, largest, ratio in zip(low, high, ratios, strict=True):
        if ratio > 0 and smallest > 0:
            found.update(round(bound / ratio) for bound in (smallest, largest))
    return frozenset(found)


def is_batch(entry: Entry) -> bool:
    """Whether an entry is a batch axis."""
    return isinstance(entry, str) and entry.startswith("batch")


def is_dim(entry: Entry) -> bool:
    """Whether an entry is a dynamic axis that does not follow the batch."""
    return isinstance(entry, str) and entry.startswith("dim")


def candidates(
    shape: Sequence[Entry], ratios: Sequence[float], batch_sizes: Iterable[int]
) -> tuple[BatchAxisCandidate, ...]:
    """The axes that may be the batch axis, in axis order."""
    seen = tuple(sorted(batch_sizes))
    return tuple(
        BatchAxisCandidate(axis, int(ratio), seen)
        for axis, (entry, ratio) in enumerate(zip(shape, ratios, strict=True))
        if is_whole(ratio) and not is_dim(entry)
    )


def shared_axis(tensors: Iterable[tuple[BatchAxisCandidate, ...]]) -> int | None:
    """The lowest axis that is a candidate with multiplier 1 in every tensor that has candidates at all."""
    ones = [{one.axis for one in found if one.multiplier == 1} for found in tensors if found]
    return min(set.intersection(*ones), default=None) if ones else None
