"""Do two tensors agree, and if not, where and by how much?

>>> import numpy as np
>>> from aitune.records import DType
>>> expected = np.array([1.0, 2.0], np.float32)
>>> compare(expected + np.float32(1e-6), expected, DType.FLOAT32).agrees
True
>>> print(compare(np.array([1, 3]), np.array([1, 2]), DType.INT64).detail)
1 of 2 values differ, first at [1]: 3, expected 2 (int64 must be equal)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aitune.errors import UsageError
from aitune.numerics.dtypes import Array, as_float, require_dtype
from aitune.numerics.tolerance import MAGNITUDE_FLOOR, Tolerance
from aitune.numerics.tolerance import tolerance as tolerance_of
from aitune.records import DType

__all__ = ["Agreement", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The answer to: do two tensors agree?

    Attributes:
        agrees: Whether every element is within the tolerance.
        max_abs: Largest absolute difference of finite elements; ``inf`` when shapes or types differ, or one side is
            not finite where the other is; for strings the number that differ.
        max_rel: Largest difference as a share of the expected element.
        where: Index of the element that misses the tolerance most (or comes closest to it); None without elements.
        detail: The same in one line, with numbers.
    """

    agrees: bool
    max_abs: float
    max_rel: float
    where: tuple[int, ...] | None
    detail: str


def compare(actual: Array, expected: Array, dtype: DType, *, tolerance: Tolerance | None = None) -> Agreement:
    """Compare a tensor with what it should be.

    NaN agrees with NaN and an infinity with the same infinity, and both are counted in the detail.

    Args:
        actual: What came out.
        expected: What should have; its largest finite value sets the scale of the tolerance.
        dtype: Element type of both.
        tolerance: Allowed difference; by default what the table says for ``dtype``. Strings are always exact.

    Raises:
        UsageError: If ``expected`` does not hold ``dtype``; a wrong ``actual`` is a disagreement.
    """
    require_dtype(expected, dtype, "the expected tensor")
    try:
        require_dtype(actual, dtype)
    except UsageError:
        return _refused(f"element type {actual.dtype}, expected {expected.dtype}")
    if actual.shape != expected.shape:
        return _refused(f"shape {actual.shape}, expected {expected.shape}")
    if expected.size == 0:
        return Agreement(agrees=True, max_abs=0.0, max_rel=0.0, where=None, detail="equal (no elements)")
    allowed = tolerance_of(dtype) if tolerance is None else tolerance
    if dtype is DType.STRING:
        return _compare_exact(actual, expected, dtype, (actual != expected).astype(np.float64))
    if dtype.is_floating:
        return _compare_floats(as_float(actual, dtype), as_float(expected, dtype), allowed)
    difference = _integer_difference(actual, expected)
    if allowed.exact:
        return _compare_exact(actual, expected, dtype, difference)
    return _judge(difference, as_float(actual, dtype), as_float(expected, dtype), allowed, "")


def _refused(detail: str) -> Agreement:
    return Agreement(agrees=False, max_abs=math.inf, max_rel=math.inf, where=None, detail=detail)


def _integer_difference(actual: Array, expected: Array) -> npt.NDArray[np.float64]:
    """Absolute differences, free of overflow: the larger minus the smaller, in wrapping 64 bits."""
    if actual.dtype == np.bool_:
        return np.not_equal(actual, expected).astype(np.float64)
    high, low = np.maximum(actual, expected), np.minimum(actual, expected)
    wide = np.uint64 if actual.dtype.kind == "u" else np.int64
    return np.subtract(high.astype(wide).view(np.uint64), low.astype(wide).view(np.uint64)).astype(np.float64)


def _compare_exact(actual: Array, expected: Array, dtype: DType, difference: npt.NDArray[np.float64]) -> Agreement:
    count = int(np.count_nonzero(difference))
    if not count:
        return Agreement(agrees=True, max_abs=0.0, max_rel=0.0, where=(0,) * expected.ndim, detail="equal")
    where = _index(int(np.argmax(difference != 0)), expected.shape)
    found, wanted = actual[where], expected[where]
    detail = (
        f"{count} of {expected.size} values differ, first at {list(where)}: {found}, expected {wanted} "
        f"({dtype.value} must be equal)"
    )
    scale = np.ones_like(difference) if dtype is DType.STRING else np.abs(expected.astype(np.float64))
    relative = float(np.max(difference / np.maximum(scale, 1.0)))
    return Agreement(agrees=False, max_abs=float(difference.max()), max_rel=relative, where=where, detail=detail)


def _compare_floats(
    actual: npt.NDArray[np.float64], expected: npt.NDArray[np.float64], allowed: Tolerance
) -> Agreement:
    special = ~(np.isfinite(actual) & np.isfinite(expected))
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    both_nan = int(np.count_nonzero(np.isnan(actual) & np.isnan(expected)))
    both_inf = int(np.count_nonzero(special & (actual == expected)))
    counted = "".join(
        f"; {count} {word} on both sides" for count, word in ((both_nan, "NaN"), (both_inf, "Inf")) if count
    )
    wrong = special & ~same
    if wrong.any():
        where = _index(int(np.argmax(wrong)), expected.shape)
        detail = f"{actual[where]} at {list(where)}, expected {expected[where]}{counted}"
        return Agreement(agrees=False, max_abs=math.inf, max_rel=math.inf, where=where, detail=detail)
    difference = np.where(special, 0.0, np.abs(np.where(special, 0.0, actual) - np.where(special, 0.0, expected)))
    return _judge(difference, actual, np.where(special, 0.0, expected), allowed, counted)


def _judge(
    difference: npt.NDArray[np.float64],
    actual: npt.NDArray[np.float64],
    expected: npt.NDArray[np.float64],
    allowed: Tolerance,
    suffix: str,
) -> Agreement:
    """Hold finite differences against the tolerance; the worst element is the one nearest to, or farthest over, it."""
    size = np.abs(expected)
    magnitude = max(float(size.max()), MAGNITUDE_FLOOR)
    limit = allowed.rtol * size + allowed.atol * magnitude
    excess = difference - limit
    where = _index(int(np.argmax(excess)), expected.shape)
    relative = float(np.max(np.divide(difference, size, out=np.zeros_like(size), where=size > 0)))
    largest = float(difference.max())
    agrees = bool(excess[where] <= 0)
    if largest == 0:
        detail = f"equal{suffix}"
    elif agrees:
        detail = f"largest difference {largest:.2g} of values up to {magnitude:.3g}{suffix}"
    else:
        count = int(np.count_nonzero(excess > 0))
        detail = (
            f"{count} of {expected.size} values differ, worst at {list(where)}: {actual[where]:.6g}, expected "
            f"{expected[where]:.6g}, difference {difference[where]:.3g} where {limit[where]:.2g} is allowed{suffix}"
        )
    return Agreement(agrees=agrees, max_abs=largest, max_rel=relative, where=where, detail=detail)


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(index) for index in np.unravel_index(flat, shape))
