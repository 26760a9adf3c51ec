"""How each element type of a contract is held in memory, and BFLOAT16 arithmetic that numpy lacks.

>>> from aitune.records import DType
>>> numpy_dtype(DType.INT64)
dtype('int64')
>>> numpy_dtype(DType.BFLOAT16), numpy_dtype(DType.STRING)
(dtype('uint16'), dtype('O'))
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from aitune.errors import UsageError
from aitune.records import DType

__all__ = ["Array", "as_float", "dtype_of", "from_float", "numpy_dtype", "require_dtype"]

Array = npt.NDArray[Any]
"""Any tensor in memory; which :class:`~aitune.records.DType` it holds is said beside it."""

_HELD_AS: dict[DType, np.dtype[Any]] = {
    dtype: np.dtype(dtype.value) for dtype in DType if dtype not in (DType.BFLOAT16, DType.STRING)
} | {DType.BFLOAT16: np.dtype(np.uint16), DType.STRING: np.dtype(object)}
_FOUND_AS = {held: dtype for dtype, held in _HELD_AS.items() if dtype is not DType.BFLOAT16}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy type that holds it: BFLOAT16 as the raw bits in ``uint16``, STRING as objects (``bytes``)."""
    return _HELD_AS[dtype]


def dtype_of(held: npt.DTypeLike) -> DType:
    """The element type that a numpy type stands for; never BFLOAT16, whose bits look like UINT16.

    Args:
        held: A numpy type of either byte order; fixed-width strings and bytes count as STRING.

    Raises:
        UsageError: If no contract can hold it, e.g. complex numbers.
    """
    found = np.dtype(held)
    if found.kind in "SU":
        return DType.STRING
    try:
        return _FOUND_AS[found.newbyteorder("=")]
    except KeyError:
        known = ", ".join(dtype.value for dtype in DType)
        raise UsageError(f"numpy type {str(found)!r} has no element type in a contract", hint=f"use {known}") from None


def require_dtype(array: Array, dtype: DType, what: str = "a tensor") -> None:
    """Refuse an array that does not hold ``dtype`` in the way :func:`numpy_dtype` says.

    Raises:
        UsageError: If the array's type is another one; byte order does not matter.
    """
    held = numpy_dtype(dtype)
    if array.dtype.newbyteorder("=") != held:
        raise UsageError(f"{what} of type {dtype.value} must be held as numpy {held}, got {array.dtype}")


def as_float(array: Array, dtype: DType) -> npt.NDArray[np.float64]:
    """The numbers as float64; exact for every type but 64-bit integers beyond 2**53.

    Raises:
        UsageError: For STRING, or if the array does not hold ``dtype``.
    """
    require_dtype(array, dtype)
    if dtype is DType.STRING:
        raise UsageError("strings have no numeric value")
    if dtype is DType.BFLOAT16:
        bits = array.astype("=u2").astype(np.uint32) << np.uint32(16)
        array = bits.view(np.float32)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return array.astype(np.float64)


def from_float(values: Array, dtype: DType) -> Array:
    """Floating-point numbers rounded to the nearest value that a floating-point type can hold.

    Args:
        values: Numbers, any shape.
        dtype: FLOAT16, FLOAT32, FLOAT64 or BFLOAT16 (then the raw bits come back).

    Raises:
        UsageError: If ``dtype`` is not a floating-point type.
    """
    if not dtype.is_floating:
        raise UsageError(f"{dtype.value} is not a floating-point type")
    with np.errstate(over="ignore"):
        if dtype is not DType.BFLOAT16:
            return values.astype(numpy_dtype(dtype))
        single = np.ascontiguousarray(values, dtype=np.float32).reshape(np.shape(values))
    bits = single.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)  # rounding must not turn a NaN into an infinity
    return np.where(np.isnan(single), quiet, rounded).astype(np.uint16)
