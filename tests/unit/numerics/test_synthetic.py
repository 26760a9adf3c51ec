"""Made-up tensors."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numerics_strategies import dtypes

from aitune.errors import UsageError
from aitune.numerics import as_float, numpy_dtype, observe_domains, synthetic, synthetic_inputs, to_wire, varied
from aitune.numerics.synthetic import _draw
from aitune.records import DType, TensorSpec
from aitune.records.evidence import InputDomain


def spec(dtype: DType, name: str = "x") -> TensorSpec:
    """A spec of any shape."""
    return TensorSpec(name, dtype, (None, None))


def domain(low: float = 0, high: float = 1, name: str = "x") -> InputDomain:
    """A range of values."""
    return InputDomain(name=name, typical_shape=(1, 4), low=low, high=high)


EXPECTED = {
    DType.FLOAT32: "d19977", DType.FLOAT16: "f462ec", DType.BFLOAT16: "adc12c", DType.INT64: "2c96ad",
    DType.UINT8: "edc8e4", DType.BOOL: "2df61b", DType.STRING: "3800fd",
}  # fmt: skip


@pytest.mark.parametrize("dtype", EXPECTED)
def test_the_bytes_never_change(dtype: DType) -> None:
    """A recorded seed must give the same request on every machine and version, for it is all that a probe keeps."""
    made = synthetic(spec(dtype), (5, 7), domain(0 if dtype is DType.UINT8 else -3, 200), seed=42)
    assert hashlib.sha256(to_wire(made, dtype)).hexdigest()[:6] == EXPECTED[dtype]


def test_the_generator_is_splitmix64() -> None:
    """The published first numbers for the seed 1234567."""
    assert _draw(1234567, 3).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(dtypes, st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**40))
def test_a_row_does_not_depend_on_the_number_of_rows(dtype: DType, rows: int, size: int, seed: int) -> None:
    """Fewer rows are the first rows, which is what lets a batch be compared with its rows."""
    some = synthetic(spec(dtype), (rows, size), domain(), seed)
    more = synthetic(spec(dtype), (rows + 3, size), domain(), seed)
    assert to_wire(some, dtype) == to_wire(more[:rows], dtype)


@given(
    st.sampled_from([dtype for dtype in DType if dtype.is_integer]),
    st.floats(-1e20, 1e20),
    st.floats(-1e20, 1e20),
    st.integers(0, 99),
)
def test_integers_stay_within_the_range_and_the_type(dtype: DType, one: float, other: float, seed: int) -> None:
    """Both ends included, cut to what the type can hold; a range without a whole number is refused."""
    low, high = sorted((one, other))
    info = np.iinfo(numpy_dtype(dtype))
    try:
        made = synthetic(spec(dtype), (8, 9), domain(low, high), seed).tolist()
    except UsageError:
        assert high < info.min or low > info.max or np.ceil(low) > np.floor(high)
        return
    assert all(max(low, info.min) <= value <= min(high, info.max) for row in made for value in row)


@given(st.sampled_from([dtype for dtype in DType if dtype.is_floating]), st.floats(-100, 100), st.floats(0, 100))
def test_floats_stay_within_the_range_and_fill_it(dtype: DType, low: float, width: float) -> None:
    """Uniform from low to high, up to the rounding of the type."""
    made = as_float(synthetic(spec(dtype), (50, 50), domain(low, low + width), 1), dtype)
    slack = 0.01 * max(abs(low), abs(low + width), 1e-3)
    assert low - slack <= made.min() <= low + 0.01 * width + slack
    assert low + 0.99 * width - slack <= made.max() <= low + width + slack


@pytest.mark.parametrize(("dtype", "size"), [(DType.BOOL, 12), (DType.INT64, 6), (DType.UINT8, 12), (DType.STRING, 1)])
def test_many_rows_differ_even_with_few_values(dtype: DType, size: int) -> None:
    """Zeros and ones, where chance would repeat a row: all of 64 rows differ where there is room."""
    rows = synthetic(spec(dtype), (64, size), domain(0, 3 if dtype is DType.INT64 else 1), seed=3)
    assert len({tuple(row) for row in rows.tolist()}) == 64


def test_two_rows_of_one_boolean_differ() -> None:
    """As many rows differ as can."""
    assert {row[0] for row in synthetic(spec(DType.BOOL), (2, 1), domain(), seed=1).tolist()} == {False, True}


def test_inputs_and_seeds_draw_different_numbers() -> None:
    """Two inputs of one request are not copies of each other, nor are two requests."""
    specs = [spec(DType.FLOAT32, "a"), spec(DType.FLOAT32, "b")]
    shapes = {"a": (2, 3), "b": (2, 3)}
    one, two = (synthetic_inputs(specs, [domain(name="a"), domain(name="b")], shapes, seed) for seed in (1, 2))
    assert not (one["a"] == one["b"]).any()
    assert not (one["a"] == two["a"]).any()


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT32, DType.BFLOAT16, DType.STRING, DType.BOOL])
def test_every_shape_can_be_made(dtype: DType, shape: tuple[int, ...]) -> None:
    """Scalars and empty tensors too."""
    made = synthetic(spec(dtype), shape, domain(), seed=5)
    assert made.shape == shape
    assert made.dtype == numpy_dtype(dtype)


def test_the_whole_range_of_64_bits_can_be_drawn() -> None:
    """A span of 2**64 does not wrap to nothing."""
    signed = synthetic(spec(DType.INT64), (9, 9), domain(-(2.0**63), 2.0**63), seed=1)
    unsigned = synthetic(spec(DType.UINT64), (9, 9), domain(0, 2.0**64), seed=1)
    assert signed.min() < -(2**60)
    assert signed.max() > 2**60
    assert unsigned.max() > 2**63


@pytest.mark.parametrize(
    ("dtype", "low", "high", "message"),
    [
        (DType.INT32, 0.2, 0.8, "reach from 0.2 to 0.8, where int32 has no value"),
        (DType.UINT8, -5, -1, "where uint8 has no value"),
        (DType.FLOAT16, 0, 1e6, "too far for float16"),
    ],
)
def test_a_range_without_values_is_refused(dtype: DType, low: float, high: float, message: str) -> None:
    """The message gives both ends and the type."""
    with pytest.raises(UsageError, match=message):
        synthetic(spec(dtype), (20, 20), domain(low, high), seed=1)


@pytest.mark.parametrize(
    ("domains", "shapes", "missing"), [((), {"x": (1,)}, "range of values"), ((domain(),), {}, "shape")]
)
def test_an_input_that_nothing_is_known_of_is_named(
    domains: tuple[InputDomain, ...], shapes: dict[str, tuple[int, ...]], missing: str
) -> None:
    """No domain or no shape: no request."""
    with pytest.raises(UsageError, match=f"input 'x' has no {missing}"):
        synthetic_inputs([spec(DType.INT8)], domains, shapes, 1)


def test_domains_are_the_range_of_finite_values_in_the_samples() -> None:
    """Infinities, booleans and inputs that are missing in some samples do not disturb it."""
    specs = [spec(DType.FLOAT32), spec(DType.BOOL, "mask"), spec(DType.STRING, "text"), spec(DType.INT8, "unseen")]
    samples = [
        {"x": np.array([np.nan, -2, 5], np.float32), "mask": np.array([True])},
        {"x": np.array([np.inf, 7], np.float32)},
        {"x": np.array([np.nan], np.float32)},
    ]
    found = observe_domains(specs, {item.name: (2, 3) for item in specs}, samples)
    assert [(item.low, item.high) for item in found] == [(-2, 7), (0, 1), (0, 0), (0, 1)]
    assert found[0].typical_shape == (2, 3)


@pytest.mark.parametrize(
    ("dtype", "value", "low", "high"),
    [
        (DType.FLOAT32, 1.0, 0.0, 2.0),
        (DType.FLOAT32, -10.0, -15.0, -5.0),
        (DType.INT64, 5, 0, 5),
        (DType.INT64, -5, -5, 0),
        (DType.INT64, 0, 0, 1),
        (DType.STRING, 0, 0, 0),
    ],
)
def test_a_domain_of_one_value_can_be_widened(dtype: DType, value: float, low: float, high: float) -> None:
    """Floats to both sides, integers towards 0, so that rows can differ and stay plausible."""
    wider = varied(domain(value, value), dtype)
    assert (wider.low, wider.high) == (low, high)
    assert varied(domain(2, 3), dtype) == domain(2, 3)
