"""Tensor contracts are true from birth."""

from __future__ import annotations

import dataclasses
import re

import pytest

from aitune.errors import AituneError, RecordError
from aitune.records import DType, TensorSpec, TunedTensorSpec
from aitune.records import shapes as shapes_module


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("", (1,), "name of a tensor"),
        ("   ", (1,), "name of a tensor"),
        (3, (1,), "name of a tensor"),
        ("x", [1], "shape of tensor 'x' must be a tuple"),
        ("x", (0,), "axis 0 of tensor 'x'"),
        ("x", (2, -1), "axis 1 of tensor 'x'"),
        ("x", (True,), "axis 0"),
        ("x", (1.0,), "axis 0"),
        ("x", ("",), "axis 0"),
        ("x", (" ",), "axis 0"),
    ],
)
def test_a_bad_name_or_shape_is_refused_and_named(name: object, shape: object, message: str) -> None:
    """The error names the field and shows the value (examples R02 to R10)."""
    with pytest.raises(RecordError, match=re.escape(message)):
        TensorSpec(name, DType.FLOAT32, shape)


@pytest.mark.parametrize("dtype", ["float32", None, float])
def test_a_dtype_must_be_a_dtype(dtype: object) -> None:
    """A wrong type of a whole field is a TypeError that names the tensor (D32)."""
    with pytest.raises(TypeError, match="dtype of tensor 'x' must be a DType"):
        TensorSpec("x", dtype, (1,))


def test_record_errors_are_value_errors_and_ours() -> None:
    """Callers may catch either."""
    assert issubclass(RecordError, ValueError)
    assert issubclass(RecordError, AituneError)


@pytest.mark.parametrize(
    ("shape", "low", "high", "axis", "message"),
    [
        (("b", 3), (1,), (8, 3), 0, "min_shape of tensor 'x' needs 2 sizes"),
        (("b", 3), (1, 3), (8,), 0, "max_shape of tensor 'x' needs 2 sizes"),
        (("b", 3), (2, 3), (1, 3), 0, "axis 0 of tensor 'x' needs min <= max, got min=2, max=1"),
        (("b", 3), (1, 2), (8, 3), 0, "axis 1 of tensor 'x' is fixed to 3"),
        (("b", 3), (0, 3), (8, 3), 0, "min_shape of tensor 'x' must be an int >= 1 on axis 0, got 0"),
        (("b",), (True,), (8,), 0, "must be an int >= 1 on axis 0, got True"),
        (("b",), (1,), (8,), -1, "batch_axis of tensor 'x'"),
        (("b",), (1,), (8,), 1, "batch_axis of tensor 'x'"),
        (("b",), (1,), (8,), True, "batch_axis of tensor 'x'"),
        (("b",), (1,), (8,), "0", "batch_axis of tensor 'x'"),
        ((), (), (), 0, "batch_axis of tensor 'x'"),
        (("n", "n"), (1, 2), (8, 9), None, "symbol 'n' of tensor 'x' has two ranges, 1..8 and 2..9"),
        (("b",), "1", (8,), None, "min_shape of tensor 'x' must be a tuple"),
    ],
)
def test_bad_bounds_are_refused_and_named(
    shape: tuple[object, ...], low: object, high: object, axis: object, message: str
) -> None:
    """The error names field, tensor, axis and numbers (examples R13 to R19, D32)."""
    with pytest.raises(RecordError, match=re.escape(message)):
        TunedTensorSpec("x", DType.FLOAT32, shape, low, high, axis)


def test_bounds_given_as_lists_become_tuples() -> None:
    """Then equal contracts are equal and hashable (D32, examples R22 and R23)."""
    listed = TunedTensorSpec("x", DType.FLOAT32, ("b",), [1], [8], 0)
    assert listed == TunedTensorSpec("x", DType.FLOAT32, ("b",), (1,), (8,), 0)
    assert len({listed, TunedTensorSpec("x", DType.FLOAT32, ("b",), (1,), (8,), 0)}) == 1


def test_batch_sizes_are_the_bounds_of_the_batch_axis() -> None:
    """Without a batch axis there are none (examples R20 and R21)."""
    spec = TunedTensorSpec("x", DType.FLOAT32, (4, "b"), (4, 2), (4, 9), 1)
    assert (spec.min_batch_size, spec.max_batch_size, spec.rank) == (2, 9, 2)
    loose = dataclasses.replace(spec, batch_axis=None)
    assert (loose.min_batch_size, loose.max_batch_size) == (None, None)


def test_from_spec_adds_bounds_by_position_and_by_name() -> None:
    """Both spellings make the same contract (examples R25 and R26)."""
    spec = TensorSpec("x", DType.INT64, ("b",))
    by_position = TunedTensorSpec.from_spec(spec, (1,), (2,), 0)
    assert by_position == TunedTensorSpec.from_spec(spec, min_shape=[1], max_shape=[2], batch_axis=0)
    assert by_position != spec


def test_records_are_frozen_and_slotted() -> None:
    """Nothing mutates, nothing can be added (example R27)."""
    spec = TensorSpec("x", DType.INT64, ("b",))
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.name = "y"
    assert not hasattr(spec, "__dict__")


def test_every_public_name_of_the_module_exists() -> None:
    """The list of names is true."""
    assert all(hasattr(shapes_module, name) for name in shapes_module.__all__)


def test_dtypes_know_their_size_and_kind() -> None:
    """The tables are total: every type has an answer."""
    sizes = {dtype: dtype.itemsize for dtype in DType}
    assert sizes[DType.STRING] is None
    assert all(size in (1, 2, 4, 8) for dtype, size in sizes.items() if dtype is not DType.STRING)
    assert {dtype.value for dtype in DType if dtype.is_floating} == {"float16", "float32", "float64", "bfloat16"}
    assert sum(dtype.is_integer for dtype in DType) == 8
