"""Arrays on their way into ONNX Runtime and back out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Array", "as_scalar", "joined", "split", "texts"]

Array = np.ndarray[Any, Any]


def joined(arrays: Sequence[Array]) -> Array:
    """The arrays stacked along their first axis; a single one is passed on as it is, without a copy."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def texts(array: Array) -> Array:
    """A BYTES tensor in a form ONNX Runtime takes: text where it is UTF-8, byte strings where it is not.

    Raises:
        ValueError: If an element is not UTF-8 and ends with a zero byte, which a byte string cannot keep.
    """
    flat = array.ravel().tolist()
    try:
        decoded: Array = np.array([element.decode("utf-8") for element in flat], dtype=object)
    except UnicodeDecodeError:
        if any(element.endswith(b"\0") for element in flat):
            raise ValueError("a string that is not UTF-8 may not end with a zero byte") from None
        decoded = np.array(flat, dtype=np.bytes_)
    return decoded.reshape(array.shape)


def as_scalar(array: Array, name: str) -> Array:
    """The one value of a tensor that is a scalar in the model, whatever shape it was sent in.

    Raises:
        ValueError: If there is no value, or rows that differ: one run has room for one value.
    """
    flat = array.ravel()
    if not flat.size or (flat != flat[0]).any():
        raise ValueError(f"input '{name}' is a scalar in the model, but the request holds {flat.size} values")
    return flat[:1].reshape(())


def split(array: Array, name: str, rows: Sequence[int], dims: tuple[int, ...]) -> list[Array | str]:
    """One view of a batched output for each request, or the reason why there is none.

    Args:
        array: What the model made of all requests together.
        name: Its name.
        rows: How many rows belong to each request, in order.
        dims: The config's dims, the shape in which a scalar is returned.
    """
    if array.ndim == 0:
        array = array.reshape(dims or (1,))
    views: list[Array | str] = []
    have, start = len(array), 0
    for count in rows:
        end = start + count
        views.append(array[start:end] if end <= have else _too_few(name, end, have))
        start = end
    return views


def _too_few(name: str, want: int, have: int) -> str:
    return (
        f"failed to split the output tensor '{name}' in responses: expected batch size of at least {want} in model "
        f"output, got {have}"
    )
