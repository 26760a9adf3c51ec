"""Element types under their three names."""

from __future__ import annotations

import pytest

from aitune.errors import RecordError
from aitune.records import DType
from aitune.triton.datatypes import config_type, dtype_of_config, dtype_of_wire, wire_type
from aitune.triton.schema import model_config


@pytest.mark.parametrize("dtype", DType)
def test_every_element_type_has_a_name_and_back(dtype: DType) -> None:
    """Both tables are total and invertible."""
    assert dtype_of_config(config_type(dtype)) is dtype
    assert dtype_of_wire(wire_type(dtype)) is dtype


def test_the_config_names_are_those_of_the_schema() -> None:
    """Every name is one that Triton's schema has, and only TYPE_INVALID is missing."""
    assert {config_type(dtype) for dtype in DType} == set(model_config().DataType.keys()) - {"TYPE_INVALID"}


@pytest.mark.parametrize("name", ["TYPE_INVALID", "FP32", "TYPE_FLOAT32", ""])
def test_a_name_nobody_has_is_refused(name: str) -> None:
    """A wire name is no config name; the hint lists those that are."""
    with pytest.raises(RecordError, match="no element type is called") as caught:
        dtype_of_config(name)
    assert "TYPE_FP32" in caught.value.hint
