"""Do two tensors agree?"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from numerics_strategies import tensors

from aitune.errors import UsageError
from aitune.numerics import Array, Tolerance, compare, from_float, tolerance
from aitune.numerics.tolerance import TOLERANCES
from aitune.records import DType

F32 = DType.FLOAT32


def f32(*values: float) -> Array:
    """A float32 tensor."""
    return np.array(values, np.float32)


@given(tensors())
def test_every_tensor_agrees_with_itself(tensor: tuple[Array, DType]) -> None:
    """Also with NaN and infinities in it, with the tightest tolerance, and the difference is 0."""
    array, dtype = tensor
    found = compare(array, array.copy(), dtype, tolerance=Tolerance(0, 0))
    assert found.agrees
    assert found.max_abs == 0
    assert found.detail.startswith("equal")


@pytest.mark.parametrize("dtype", list(DType))
def test_the_table_has_every_type_and_is_exact_for_what_is_not_floating(dtype: DType) -> None:
    """One table; only floating-point types may differ at all."""
    assert tolerance(dtype).exact == (not dtype.is_floating)
    assert len(TOLERANCES) == len(DType)


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.is_floating])
def test_twice_the_allowed_difference_is_refused_and_half_of_it_is_not(dtype: DType) -> None:
    """The rule as documented: rtol of the element plus atol of the largest element."""
    expected = from_float(np.array([1.0, 4.0]), dtype)
    allowed = tolerance(dtype).rtol * 4 + tolerance(dtype).atol * 4
    near, far = (from_float(np.array([1.0, 4.0 + factor * allowed]), dtype) for factor in (0.5, 2.0))
    assert compare(near, expected, dtype).agrees
    assert not compare(far, expected, dtype).agrees


def test_tiny_tensors_are_held_to_tiny_differences() -> None:
    """A softmax over many classes: half of every value is not agreement, rounding noise is."""
    expected = f32(*[3e-5] * 100)
    assert not compare(expected * np.float32(1.5), expected, F32).agrees
    assert compare(expected * np.float32(1 + 1e-5), expected, F32).agrees
    assert compare(f32(1e-8), f32(0), F32).agrees
    assert not compare(f32(1e-6), f32(0), F32).agrees


def test_noise_scales_with_the_largest_element_and_not_with_the_small_one() -> None:
    """An element that nearly cancels out may carry the noise of its neighbours."""
    assert compare(f32(1e-4, 10), f32(2e-4, 10), F32).agrees
    assert not compare(f32(1e-4, 1e-3), f32(2e-4, 1e-3), F32).agrees


def test_the_worst_element_is_named() -> None:
    """Index, both values, difference and what is allowed stand in the detail."""
    found = compare(np.array([[1, 2], [3, 5]], np.float32), np.array([[1, 2], [3, 4]], np.float32), F32)
    assert found.where == (1, 1)
    assert found.max_abs == 1
    assert found.max_rel == 0.25
    assert found.detail == (
        "1 of 4 values differ, worst at [1, 1]: 5, expected 4, difference 1 where 0.0008 is allowed"
    )


@pytest.mark.parametrize(
    ("actual", "expected", "agrees", "detail"),
    [
        (f32(math.nan, 1), f32(math.nan, 1), True, "equal; 1 NaN on both sides"),
        (f32(math.nan, 1), f32(0, 1), False, r"nan at \[0\], expected 0.0"),
        (f32(0, 1), f32(math.nan, 1), False, r"0.0 at \[0\], expected nan"),
        (f32(math.inf), f32(math.inf), True, "equal; 1 Inf on both sides"),
        (f32(-math.inf), f32(math.inf), False, r"-inf at \[0\], expected inf"),
        (f32(math.inf, 5), f32(math.inf, 1), False, r"worst at \[1\].*; 1 Inf on both sides"),
        (f32(1, 2), f32(1), False, r"shape \(2,\), expected \(1,\)"),
        (np.array([1.0]), f32(1), False, "element type float64, expected float32"),
        (f32(), f32(), True, "no elements"),
        (np.array(1.0, np.float32), np.array(1.0, np.float32), True, "equal"),
    ],
)
def test_special_values_and_shapes(actual: Array, expected: Array, agrees: bool, detail: str) -> None:
    """NaN agrees with NaN and an infinity with itself, counted; shape and type must be the same."""
    found = compare(actual, expected, F32)
    assert found.agrees is agrees
    assert re.search(detail, found.detail), found.detail


@pytest.mark.parametrize(
    ("low", "high", "held", "dtype", "difference"),
    [
        (-(2**63), 2**63 - 1, np.int64, DType.INT64, 2.0**64),
        (0, 2**64 - 1, np.uint64, DType.UINT64, 2.0**64),
        (2**53, 2**53 + 1, np.int64, DType.INT64, 1.0),
        (-128, 127, np.int8, DType.INT8, 255.0),
        (False, True, np.bool_, DType.BOOL, 1.0),
    ],
)
def test_integers_are_exact_and_their_difference_does_not_overflow(
    low: int, high: int, held: type, dtype: DType, difference: float
) -> None:
    """The smallest step is a difference, and the largest one is not lost in wrapping."""
    found = compare(np.array([low], held), np.array([high], held), dtype)
    assert not found.agrees
    assert found.max_abs == difference
    assert "must be equal" in found.detail


def test_an_own_tolerance_goes_before_the_table() -> None:
    """Also for integers, e.g. a quantised image; strings stay exact."""
    wide = Tolerance(0, 0.5)
    assert compare(np.array([9], np.uint8), np.array([10], np.uint8), DType.UINT8, tolerance=wide).agrees
    assert not compare(np.array([1], np.uint8), np.array([10], np.uint8), DType.UINT8, tolerance=wide).agrees
    one, other = (np.array([text], dtype=object) for text in (b"a", b"b"))
    assert not compare(one, other, DType.STRING, tolerance=wide).agrees


def test_strings_that_differ_are_counted_and_shown() -> None:
    """Text is compared byte by byte."""
    found = compare(np.array([b"a", b"x"], dtype=object), np.array([b"a", b"b"], dtype=object), DType.STRING)
    assert found.detail == "1 of 2 values differ, first at [1]: b'x', expected b'b' (string must be equal)"


def test_an_expected_tensor_of_another_type_is_a_mistake_of_the_caller() -> None:
    """What is compared against must be what the contract says."""
    with pytest.raises(UsageError, match="the expected tensor of type int64"):
        compare(f32(1), f32(1), DType.INT64)


def test_a_tolerance_can_be_widened_and_not_be_negative() -> None:
    """Another processor may round differently; exact stays exact."""
    assert tolerance(F32).times(10) == Tolerance(1e-3, 1e-3)
    assert tolerance(DType.INT8).times(10).exact
    with pytest.raises(UsageError, match="must not be negative, got rtol=-1"):
        Tolerance(-1, 0)
