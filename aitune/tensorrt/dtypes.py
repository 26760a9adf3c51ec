"""Element types: ours and the library's."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from aitune.errors import SourceError
from aitune.records.dtypes import DType

__all__ = ["check_supported", "dtype_of"]

_NAMES = {
    DType.FLOAT32: "FLOAT",
    DType.FLOAT16: "HALF",
    DType.BFLOAT16: "BF16",
    DType.INT8: "INT8",
    DType.UINT8: "UINT8",
    DType.INT32: "INT32",
    DType.INT64: "INT64",
    DType.BOOL: "BOOL",
}


def dtype_of(trt: ModuleType, value: Any) -> DType | None:
    """Our word for the library's element type; None where a contract has none (FP8, INT4, …)."""
    known = {getattr(trt.DataType, name): dtype for dtype, name in _NAMES.items() if hasattr(trt.DataType, name)}
    return known.get(value)


def check_supported(trt: ModuleType, name: str, dtype: DType) -> None:
    """Refuse an input or output that the library does not take.

    Raises:
        SourceError: If it has no such type, or would silently make another one of it.
    """
    if not hasattr(trt.DataType, _NAMES.get(dtype, "")):
        raise SourceError(
            f"tensor {name!r} is {dtype.value}, which TensorRT does not take at the boundary of a plan",
            hint="serve the ONNX model instead, or make the model with another type there (e.g. float32 or int32)",
        )
