"""The three names of an element type: in a record, in a config, on the wire (rules §1.1).

>>> config_type(DType.FLOAT32), wire_type(DType.FLOAT32)
('TYPE_FP32', 'FP32')
>>> dtype_of_wire("BYTES")
<DType.STRING: 'string'>
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from aitune.errors import RecordError
from aitune.records.dtypes import DType

__all__ = ["CONFIG_TYPES", "WIRE_TYPES", "config_type", "dtype_of_config", "dtype_of_wire", "wire_type"]

CONFIG_TYPES: Mapping[DType, str] = MappingProxyType(
    {
        DType.BOOL: "TYPE_BOOL",
        DType.UINT8: "TYPE_UINT8",
        DType.UINT16: "TYPE_UINT16",
        DType.UINT32: "TYPE_UINT32",
        DType.UINT64: "TYPE_UINT64",
        DType.INT8: "TYPE_INT8",
        DType.INT16: "TYPE_INT16",
        DType.INT32: "TYPE_INT32",
        DType.INT64: "TYPE_INT64",
        DType.FLOAT16: "TYPE_FP16",
        DType.FLOAT32: "TYPE_FP32",
        DType.FLOAT64: "TYPE_FP64",
        DType.BFLOAT16: "TYPE_BF16",
        DType.STRING: "TYPE_STRING",
    }
)
"""Name in ``config.pbtxt`` of every element type a record can name."""

# On the wire the prefix is gone, and strings are called what they are there.
WIRE_TYPES: Mapping[DType, str] = MappingProxyType(
    {dtype: "BYTES" if dtype is DType.STRING else name.removeprefix("TYPE_") for dtype, name in CONFIG_TYPES.items()}
)
"""Name in requests and responses, over HTTP and gRPC."""

_BY_CONFIG = {name: dtype for dtype, name in CONFIG_TYPES.items()}
_BY_WIRE = {name: dtype for dtype, name in WIRE_TYPES.items()}


def config_type(dtype: DType) -> str:
    """The name in ``config.pbtxt``, e.g. ``"TYPE_FP32"``."""
    return CONFIG_TYPES[dtype]


def wire_type(dtype: DType) -> str:
    """The name in requests and responses, e.g. ``"FP32"``."""
    return WIRE_TYPES[dtype]


def dtype_of_config(name: str) -> DType:
    """The element type that ``config.pbtxt`` calls ``name``.

    Raises:
        RecordError: If no element type is called that; ``TYPE_INVALID`` is none.
    """
    return _find(_BY_CONFIG, name)


def dtype_of_wire(name: str) -> DType:
    """The element type that requests and responses call ``name``.

    Raises:
        RecordError: If no element type is called that.
    """
    return _find(_BY_WIRE, name)


def _find(table: Mapping[str, DType], name: str) -> DType:
    found = table.get(name)
    if found is None:
        raise RecordError(f"no element type is called {name!r}", hint=f"known are {', '.join(table)}")
    return found
