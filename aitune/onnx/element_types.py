"""The element types of ONNX: their numbers in a file, ONNX Runtime's names for them, and ours."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aitune.records.dtypes import DType

__all__ = ["dtype_of", "element_nbytes", "element_number", "element_word", "parse_runtime_type"]


@dataclass(frozen=True, slots=True)
class _ElementType:
    """One row of the table: the number in a file, ONNX's word, ONNX Runtime's word, bits, our type.

    Bits of one element are None where elements have no fixed size, or how they are packed is not settled.
    """

    number: int
    word: str
    runtime: str
    bits: int | None
    dtype: DType | None = None


_TABLE = (
    _ElementType(1, "FLOAT", "float", 32, DType.FLOAT32),
    _ElementType(2, "UINT8", "uint8", 8, DType.UINT8),
    _ElementType(3, "INT8", "int8", 8, DType.INT8),
    _ElementType(4, "UINT16", "uint16", 16, DType.UINT16),
    _ElementType(5, "INT16", "int16", 16, DType.INT16),
    _ElementType(6, "INT32", "int32", 32, DType.INT32),
    _ElementType(7, "INT64", "int64", 64, DType.INT64),
    _ElementType(8, "STRING", "string", None, DType.STRING),
    _ElementType(9, "BOOL", "bool", 8, DType.BOOL),
    _ElementType(10, "FLOAT16", "float16", 16, DType.FLOAT16),
    _ElementType(11, "DOUBLE", "double", 64, DType.FLOAT64),
    _ElementType(12, "UINT32", "uint32", 32, DType.UINT32),
    _ElementType(13, "UINT64", "uint64", 64, DType.UINT64),
    _ElementType(14, "COMPLEX64", "complex64", 64),
    _ElementType(15, "COMPLEX128", "complex128", 128),
    _ElementType(16, "BFLOAT16", "bfloat16", 16, DType.BFLOAT16),
    _ElementType(17, "FLOAT8E4M3FN", "float8e4m3fn", 8),
    _ElementType(18, "FLOAT8E4M3FNUZ", "float8e4m3fnuz", 8),
    _ElementType(19, "FLOAT8E5M2", "float8e5m2", 8),
    _ElementType(20, "FLOAT8E5M2FNUZ", "float8e5m2fnuz", 8),
    _ElementType(21, "UINT4", "uint4", 4),
    _ElementType(22, "INT4", "int4", 4),
    _ElementType(23, "FLOAT4E2M1", "float4e2m1", 4),
    _ElementType(24, "FLOAT8E8M0", "float8e8m0", 8),
    _ElementType(25, "UINT2", "uint2", 2),
    _ElementType(26, "INT2", "int2", 2),
    _ElementType(27, "FLOAT6E2M3", "float6e2m3", None),
    _ElementType(28, "FLOAT6E3M2", "float6e3m2", None),
)
_BY_NUMBER = {row.number: row for row in _TABLE}
_BY_WORD = {row.word: row for row in _TABLE}
_BY_RUNTIME = {row.runtime: row for row in _TABLE}
_KINDS = {"seq": "sequence", "map": "map", "optional": "optional", "sparse_tensor": "sparse_tensor"}


def element_word(number: int) -> str:
    """ONNX's word for a type number, ``"TYPE 99"`` for one that this version does not know.

    >>> element_word(17), element_word(99)
    ('FLOAT8E4M3FN', 'TYPE 99')
    """
    row = _BY_NUMBER.get(number)
    return row.word if row else f"TYPE {number}"


def dtype_of(word: str) -> DType | None:
    """Our element type for ONNX's word, None where a tensor contract has none.

    >>> dtype_of("FLOAT"), dtype_of("INT4")
    (<DType.FLOAT32: 'float32'>, None)
    """
    row = _BY_WORD.get(word)
    return row.dtype if row else None


def element_number(dtype: DType) -> int:
    """The type number ONNX files use for one of our element types."""
    return next(row.number for row in _TABLE if row.dtype is dtype)


def element_nbytes(number: int, count: int) -> int | None:
    """Bytes that ``count`` elements occupy; None for strings and types this version does not know.

    >>> element_nbytes(22, 3)
    2
    """
    row = _BY_NUMBER.get(number)
    return None if row is None or row.bits is None else (count * row.bits + 7) // 8


def parse_runtime_type(text: str) -> tuple[str, str]:
    """Kind of value and ONNX's word for its elements, from ONNX Runtime's text for a type.

    The elements of a sequence, a map or an optional are named as ONNX Runtime names them.

    >>> parse_runtime_type("tensor(float)"), parse_runtime_type("seq(map(int64,tensor(float)))")
    (('tensor', 'FLOAT'), ('sequence', 'map(int64,tensor(float))'))
    """
    match = re.fullmatch(r"(\w+)\((.*)\)", text)
    if match is None:
        return "tensor", text.upper()
    outer, inner = match.groups()
    if outer in ("tensor", "sparse_tensor"):
        row = _BY_RUNTIME.get(inner)
        inner = row.word if row else inner.upper()
    return _KINDS.get(outer, "tensor"), inner
