"""Requests as perf_analyzer reads them from a file.

What it wants (seen on 2.50): floats with a decimal point, integers without; half precision and bfloat16 only as base64
of the raw bytes; strings as JSON strings, or base64 of their wire form when they are not text; shapes without the batch
axis when the model batches.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aitune.errors import UsageError
from aitune.numerics.dtypes import Array
from aitune.numerics.wire import to_wire
from aitune.records import DType

__all__ = ["data_document", "write_data"]

Tensors = Mapping[str, tuple[Array, DType]]


def data_document(requests: Sequence[Tensors], *, batched: bool) -> dict[str, Any]:
    """The JSON document with one step for every row of every request.

    Args:
        requests: Tensors in the form clients send them. Of a batching model each row becomes a step of its own:
            perf_analyzer puts rows together to the batch size it is told.
        batched: Whether the first axis is the batch.

    Raises:
        UsageError: If there is nothing to send, or the rows of one request do not match.
    """
    steps = [step for request in requests for step in _steps(request, batched)]
    if not steps:
        raise UsageError("there is no request to measure with")
    return {"data": steps}


def write_data(path: Path, requests: Sequence[Tensors], *, batched: bool) -> None:
    """Write :func:`data_document` to a file."""
    path.write_text(json.dumps(data_document(requests, batched=batched)), encoding="utf-8")


def _steps(request: Tensors, batched: bool) -> list[dict[str, Any]]:
    if not batched:
        return [{name: _tensor(array, dtype, name) for name, (array, dtype) in request.items()}]
    rows = {array.shape[:1] for array, _ in request.values()}
    if len(rows) != 1 or rows == {()}:
        sizes = ", ".join(f"{name} {array.shape}" for name, (array, _) in request.items())
        raise UsageError(f"the inputs of a request need the same number of rows, got {sizes}")
    return [
        {name: _tensor(array[row], dtype, name) for name, (array, dtype) in request.items()}
        for row in range(next(iter(rows))[0])
    ]


def _tensor(array: Array, dtype: DType, name: str) -> dict[str, Any]:
    array = np.asarray(array)
    content = _content(array, dtype)
    if isinstance(content, list) and len(content) != math.prod(array.shape):
        raise UsageError(f"input {name!r} has {len(content)} values for shape {array.shape}")
    return {"content": content, "shape": list(array.shape)}


def _content(array: Array, dtype: DType) -> list[Any] | dict[str, str]:
    flat = array.reshape(-1)
    if dtype is DType.STRING:
        texts = [_text(value) for value in flat.tolist()]
        if all(text is not None for text in texts):
            return texts
    elif dtype in (DType.FLOAT32, DType.FLOAT64):
        if bool(np.isfinite(flat).all()):
            return [float(value) for value in flat.tolist()]
    elif dtype not in (DType.FLOAT16, DType.BFLOAT16):
        return list(flat.tolist())
    return {"b64": base64.b64encode(to_wire(array, dtype)).decode("ascii")}


def _text(value: bytes) -> str | None:
    """The string if JSON can carry it through perf_analyzer unchanged, else None."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text
