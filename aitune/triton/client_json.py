"""Tensors as JSON numbers, words and truth values: how ``curl`` and browsers talk to Triton over HTTP.

FP16 and BF16 cannot travel so. NaN and infinities are not JSON, but Triton reads and writes them as ``NaN`` and
``Infinity`` all the same, as Python does.

>>> import numpy as np
>>> from aitune.records import DType
>>> json_request({"x": (np.array([[True, False]]), DType.BOOL)})
b'{"inputs": [{"name": "x", "datatype": "BOOL", "shape": [1, 2], "data": [true, false]}]}'
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aitune.errors import UsageError
from aitune.numerics.dtypes import Array, numpy_dtype
from aitune.records import DType
from aitune.triton.client_errors import WrongProtocol
from aitune.triton.datatypes import dtype_of_wire, wire_type

__all__ = ["WITHOUT_JSON", "json_request", "json_tensors"]

WITHOUT_JSON = (DType.FLOAT16, DType.BFLOAT16)
"""What only travels in binary form."""


def json_request(inputs: Mapping[str, tuple[Array, DType]]) -> bytes:
    """The body of a request that holds its tensors as JSON; the answer will, too.

    Raises:
        UsageError: If an element type cannot travel so, or a string is not UTF-8.
    """
    rows = [
        {"name": name, "datatype": wire_type(dtype), "shape": list(array.shape), "data": _plain(name, array, dtype)}
        for name, (array, dtype) in inputs.items()
    ]
    return json.dumps({"inputs": rows}).encode()


def json_tensors(body: bytes, url: str) -> dict[str, tuple[Array, DType]]:
    """The tensors of an answer, by output.

    Raises:
        WrongProtocol: If it has another form, or a value that is none of its element type.
    """
    try:
        rows = json.loads(body)["outputs"]
        return {row["name"]: _tensor(row) for row in rows}
    except (ValueError, KeyError, TypeError, OverflowError, UsageError) as error:
        raise WrongProtocol(f"{url} answered with unreadable JSON tensors: {error}") from error


def _plain(name: str, array: Array, dtype: DType) -> list[Any]:
    if dtype in WITHOUT_JSON:
        raise UsageError(f"input {name!r} is {dtype.value}, which cannot travel as JSON")
    flat: list[Any] = array.reshape(-1).tolist()
    if dtype is not DType.STRING:
        return flat
    try:
        return [item.decode() if isinstance(item, bytes) else str(item) for item in flat]
    except UnicodeDecodeError as error:
        raise UsageError(f"input {name!r} holds a string that is not UTF-8, which cannot travel as JSON") from error


def _tensor(row: Mapping[str, Any]) -> tuple[Array, DType]:
    dtype, shape, data = dtype_of_wire(row["datatype"]), tuple(map(int, row["shape"])), row["data"]
    _demand(dtype, shape, data)
    if dtype is DType.STRING:
        array = np.empty(len(data), dtype=object)
        array[:] = [item.encode() for item in data]
    else:
        array = np.array(data, dtype=numpy_dtype(dtype))
    return array.reshape(shape), dtype


def _demand(dtype: DType, shape: Sequence[int], data: Sequence[Any]) -> None:
    """Refuse a ``1`` for a truth value and the like: a client in another language would stumble over it."""
    if dtype is DType.STRING:
        allowed: tuple[type, ...] = (str,)
    elif dtype is DType.BOOL:
        allowed = (bool,)
    else:
        allowed = (int, float) if dtype.is_floating else (int,)
    if len(data) != math.prod(shape):
        raise ValueError(f"{len(data)} values for shape {list(shape)}")
    wrong = next((item for item in data if type(item) not in allowed), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is no {dtype.value}")
    if allowed == (int,):
        limits = np.iinfo(numpy_dtype(dtype))
        beyond = next((item for item in data if not limits.min <= item <= limits.max), None)
        if beyond is not None:
            raise ValueError(f"{beyond} does not fit into {dtype.value}")
