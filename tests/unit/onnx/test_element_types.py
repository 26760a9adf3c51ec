"""The element type table of ONNX."""

from __future__ import annotations

import onnx
import pytest

from aitune.onnx.element_types import (
    dtype_of,
    element_nbytes,
    element_number,
    element_word,
    parse_runtime_type,
)
from aitune.records import DType


def test_every_number_of_the_installed_onnx_has_its_word() -> None:
    """The table agrees with the onnx package about every element type it knows."""
    for word, number in onnx.TensorProto.DataType.items():
        if number:
            assert element_word(number) == word


@pytest.mark.parametrize("dtype", DType)
def test_each_of_our_types_has_a_number_and_comes_back(dtype: DType) -> None:
    """Our element types and ONNX's words for them are each other's inverse."""
    assert dtype_of(element_word(element_number(dtype))) is dtype


@pytest.mark.parametrize(
    ("number", "count", "nbytes"), [(1, 3, 12), (22, 3, 2), (9, 5, 5), (8, 1, None), (99, 1, None)]
)
def test_bytes_of_elements_include_the_packed_types(number: int, count: int, nbytes: int | None) -> None:
    """Four-bit types are packed two to a byte; strings and unknown types have no known size."""
    assert element_nbytes(number, count) == nbytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tensor(float)", ("tensor", "FLOAT")),
        ("tensor(newtype)", ("tensor", "NEWTYPE")),
        ("sparse_tensor(double)", ("sparse_tensor", "DOUBLE")),
        ("seq(map(int64,tensor(float)))", ("sequence", "map(int64,tensor(float))")),
        ("optional(tensor(float))", ("optional", "tensor(float)")),
        ("nonsense", ("tensor", "NONSENSE")),
    ],
)
def test_runtime_types_are_taken_apart(text: str, expected: tuple[str, str]) -> None:
    """Kind and element word come out of every form of ONNX Runtime's type text."""
    assert parse_runtime_type(text) == expected
