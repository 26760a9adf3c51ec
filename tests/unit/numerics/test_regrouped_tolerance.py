"""How far the same rows may be apart in another batch, by what the model computes in."""

from __future__ import annotations

import pytest

from aitune.numerics import regrouped, tolerance
from aitune.numerics.processor import processor
from aitune.numerics.tolerance import REDUCED
from aitune.records import DType


@pytest.mark.parametrize("dtype", list(DType))
def test_its_own_numbers_are_held_to_the_table(dtype: DType) -> None:
    """So is a precision that nobody knows."""
    assert regrouped(dtype, "fp32") == regrouped(dtype, "int3") == tolerance(dtype)
    assert regrouped(dtype, "fp32", slack=10.0) == tolerance(dtype).times(10.0)


@pytest.mark.parametrize("precision", REDUCED)
def test_fewer_bits_widen_what_is_floating_and_nothing_else(precision: str) -> None:
    """Never below the table, and slack does not widen what is wide already."""
    reduced = REDUCED[precision].tolerance
    assert regrouped(DType.FLOAT32, precision) == reduced
    assert regrouped(DType.FLOAT32, precision, slack=10.0) == reduced
    assert regrouped(DType.BFLOAT16, precision).rtol >= tolerance(DType.BFLOAT16).rtol
    assert regrouped(DType.INT64, precision).exact
    assert regrouped(DType.STRING, precision).exact


def test_the_processor_has_a_name() -> None:
    """The same that a record keeps."""
    assert processor()
    assert processor() == processor()
