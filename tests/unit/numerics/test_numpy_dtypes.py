"""Element types in memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitune.errors import UsageError
from aitune.numerics import as_float, dtype_of, from_float, numpy_dtype, require_dtype
from aitune.records import DType


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype is not DType.BFLOAT16])
def test_every_type_but_bfloat16_is_known_by_its_array(dtype: DType) -> None:
    """The table is total, and its inverse too, except where two types share their bits."""
    assert dtype_of(numpy_dtype(dtype)) is dtype
    assert numpy_dtype(dtype).itemsize == (dtype.itemsize or numpy_dtype(dtype).itemsize)


@pytest.mark.parametrize(("held", "dtype"), [(">f4", DType.FLOAT32), (">i8", DType.INT64), ("<U3", DType.STRING)])
def test_byte_order_and_width_of_strings_do_not_matter(held: str, dtype: DType) -> None:
    """A big-endian array or one of fixed-width strings has the type of its values."""
    assert dtype_of(held) is dtype


def test_complex_numbers_have_no_element_type() -> None:
    """What no contract can hold is refused, and the message lists what can be held."""
    with pytest.raises(UsageError, match="'complex64' has no element type") as caught:
        dtype_of(np.complex64)
    assert "bfloat16" in caught.value.hint


def test_an_array_of_another_type_is_refused_by_name() -> None:
    """The message says which tensor, how it must be held and how it is."""
    with pytest.raises(UsageError, match="input 'x' of type bfloat16 must be held as numpy uint16, got float32"):
        require_dtype(np.zeros(2, np.float32), DType.BFLOAT16, "input 'x'")


@given(st.lists(st.floats(width=32, allow_nan=True), min_size=1, max_size=20))
def test_bfloat16_rounds_as_the_reference_does(values: list[float]) -> None:
    """Bits equal those of ml_dtypes for every number; NaN stays NaN."""
    array = np.array(values, np.float32)
    bits = from_float(array, DType.BFLOAT16)
    with np.errstate(over="ignore"):
        wanted = array.astype(ml_dtypes.bfloat16)
    number = ~np.isnan(array)
    assert (bits[number] == wanted.view(np.uint16)[number]).all()
    assert np.isnan(as_float(bits, DType.BFLOAT16)[~number]).all()


def test_bfloat16_bits_are_read_exactly() -> None:
    """Every finite bit pattern has the value that the reference gives it."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        wanted = bits.view(ml_dtypes.bfloat16).astype(np.float64)
    assert np.array_equal(as_float(bits, DType.BFLOAT16), wanted, equal_nan=True)


def test_a_scalar_stays_a_scalar() -> None:
    """Rank 0 survives both conversions."""
    assert from_float(np.array(1.5), DType.BFLOAT16).shape == ()
    assert as_float(np.array(3, np.uint16), DType.UINT16).shape == ()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.STRING])
def test_only_floating_types_are_made_from_floats(dtype: DType) -> None:
    """Rounding to an integer type is refused."""
    with pytest.raises(UsageError, match=f"{dtype.value} is not a floating-point type"):
        from_float(np.zeros(1), dtype)


def test_strings_have_no_numeric_value() -> None:
    """They cannot be compared by difference."""
    with pytest.raises(UsageError, match="strings have no numeric value"):
        as_float(np.array([b"a"], dtype=object), DType.STRING)
