"""The element types a tensor contract can name."""

from __future__ import annotations

from enum import Enum

__all__ = ["DType"]


class DType(Enum):
    """Element type of a tensor; the value is its plain lower-case name.

    >>> DType("float32")
    <DType.FLOAT32: 'float32'>
    >>> DType.BFLOAT16.itemsize
    2
    """

    BOOL = "bool"
    UINT8 = "uint8"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BFLOAT16 = "bfloat16"
    STRING = "string"

    @property
    def itemsize(self) -> int | None:
        """Bytes of one element; None for STRING, whose elements have any length."""
        return _ITEMSIZES[self]

    @property
    def is_integer(self) -> bool:
        """Whether the type holds whole numbers (BOOL is not one)."""
        return self.value.lstrip("u").startswith("int")

    @property
    def is_floating(self) -> bool:
        """Whether the type holds floating-point numbers."""
        return "float" in self.value


_ITEMSIZES: dict[DType, int | None] = {
    DType.BOOL: 1,
    DType.UINT8: 1,
    DType.INT8: 1,
    DType.INT16: 2,
    DType.INT32: 4,
    DType.INT64: 8,
    DType.FLOAT16: 2,
    DType.FLOAT32: 4,
    DType.FLOAT64: 8,
    DType.UINT16: 2,
    DType.UINT32: 4,
    DType.UINT64: 8,
    DType.BFLOAT16: 2,
    DType.STRING: None,
}
