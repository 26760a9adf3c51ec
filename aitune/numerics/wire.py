r"""Tensors as the bytes Triton sends: row-major, little-endian; strings each with a 4-byte length in front.

>>> import numpy as np
>>> from aitune.records import DType
>>> data = to_wire(np.array([b"ab", b""], dtype=object), DType.STRING)
>>> data
b'\x02\x00\x00\x00ab\x00\x00\x00\x00'
>>> from_wire(data, DType.STRING, (2,))
array([b'ab', b''], dtype=object)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence

import numpy as np

from aitune.errors import UsageError
from aitune.numerics.dtypes import Array, numpy_dtype, require_dtype
from aitune.records import DType

__all__ = ["from_wire", "to_wire"]

_LENGTH = struct.Struct("<I")


def to_wire(array: Array, dtype: DType) -> bytes:
    """The bytes of a tensor.

    Args:
        array: Tensor as :func:`~aitune.numerics.dtypes.numpy_dtype` holds it; strings are ``bytes``, and ``str`` is
            sent as UTF-8.
        dtype: Its element type.

    Raises:
        UsageError: If the array does not hold ``dtype``.
    """
    require_dtype(array, dtype)
    if dtype is DType.STRING:
        return b"".join(_packed(item) for item in array.reshape(-1).tolist())
    return array.astype(numpy_dtype(dtype).newbyteorder("<"), copy=False).tobytes(order="C")


def from_wire(data: bytes | bytearray | memoryview, dtype: DType, shape: Sequence[int]) -> Array:
    """The tensor in these bytes; the exact inverse of :func:`to_wire`.

    Args:
        data: All of its bytes, and nothing else.
        dtype: Its element type.
        shape: Its full shape; sizes may be 0.

    Returns:
        A new array that may be written to.

    Raises:
        UsageError: If the bytes are too few or too many for the shape.
    """
    if any(size < 0 for size in shape):
        raise UsageError(f"a tensor cannot have the shape {tuple(shape)}")
    count = math.prod(shape)
    if dtype is DType.STRING:
        return _strings(memoryview(data).cast("B"), count).reshape(shape)
    held = numpy_dtype(dtype)
    size = memoryview(data).nbytes
    if size != count * held.itemsize:
        raise UsageError(
            f"{size} bytes are not a {dtype.value} tensor of shape {tuple(shape)}, which has {count * held.itemsize}"
        )
    if dtype is DType.BOOL:
        return np.not_equal(np.frombuffer(data, np.uint8), 0).reshape(shape)
    flat: Array = np.frombuffer(data, held.newbyteorder("<")).astype(held)
    return flat.reshape(shape)


def _packed(item: object) -> bytes:
    if isinstance(item, str):
        item = item.encode()
    if not isinstance(item, bytes):
        raise UsageError(f"an element of a string tensor must be bytes, got {type(item).__name__} {item!r}")
    return _LENGTH.pack(len(item)) + item


def _strings(data: memoryview, count: int) -> Array:
    """Exactly ``count`` strings."""
    items = list(_unpacked(data))
    if len(items) != count:
        raise UsageError(f"{len(items)} strings were sent where the shape has {count}")
    found = np.empty(count, dtype=object)
    found[:] = items
    return found


def _unpacked(data: memoryview) -> Iterator[bytes]:
    offset = 0
    while offset < len(data):
        start = offset + _LENGTH.size
        if start > len(data):
            raise UsageError(f"string tensor ends inside a length, at byte {offset} of {len(data)}")
        offset = start + _LENGTH.unpack_from(data, offset)[0]
        if offset > len(data):
            raise UsageError(f"string tensor ends inside a string: it needs {offset} bytes and has {len(data)}")
        yield bytes(data[start:offset])
