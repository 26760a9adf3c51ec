r"""The protobuf wire format, walked in place: needs neither onnx nor the weights in memory.

A message is a run of fields; a field is a key (number and wire type) and a value. :func:`fields` yields the value of
a number, and for bytes the range they occupy, so that a walk over a mapped file touches only the pages it looks at.

>>> list(fields(b"\x08\x0a\x12\x02hi", 0, 6))
[(1, 10, -1), (2, 4, 6)]
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap

__all__ = ["Buffer", "WireError", "bytes_field", "fields", "signed", "text", "varint", "varint_field", "varints"]

Buffer = bytes | mmap
"""What a message is read from: bytes, or a mapped file."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """The bytes are not a protobuf message.

    Attributes:
        at: Offset of the field that cannot be read.
        missing: How many bytes the field claims beyond the end of its message; 0 when that is not the fault.
    """

    def __init__(self, message: str, *, at: int, missing: int = 0) -> None:
        super().__init__(message)
        self.at = at
        self.missing = missing


def varint(buffer: Buffer, at: int, end: int) -> tuple[int, int]:
    """An unsigned variable-length number, and the offset behind it.

    Raises:
        WireError: If it runs over ``end`` or is longer than ten bytes.
    """
    value = shift = 0
    start = at
    while at < end:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise WireError(f"the number at byte {start} has more than ten bytes", at=start)
    raise WireError(f"the number at byte {start} is cut off", at=start, missing=1)


def fields(buffer: Buffer, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The fields of the message between two offsets, in the file's order.

    Yields:
        ``(number, value, -1)`` for a number, ``(number, start, end)`` for bytes, a text or a nested message, and the
        same for the four or eight bytes of a fixed-size number.

    Raises:
        WireError: At the first thing that is not a field, or that claims bytes beyond ``end``.
    """
    at = start
    while at < end:
        key_at = at
        key, at = varint(buffer, at, end)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise WireError(f"there is no field 0, found one at byte {key_at}", at=key_at)
        if kind == _VARINT:
            value, at = varint(buffer, at, end)
            yield number, value, -1
            continue
        if kind == _BYTES:
            length, at = varint(buffer, at, end)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise WireError(f"the field at byte {key_at} has wire type {kind}", at=key_at)
        if at + length > end:
            missing = at + length - end
            raise WireError(f"field {number} at byte {key_at} lacks {missing} bytes", at=key_at, missing=missing)
        yield number, at, at + length
        at += length


def varints(buffer: Buffer, value: int, end: int) -> Iterator[int]:
    """The numbers of one occurrence of a repeated field: a single one, or a packed run."""
    if end == -1:
        yield value
        return
    at = value
    while at < end:
        number, at = varint(buffer, at, end)
        yield number


def signed(value: int) -> int:
    """A number as the int64 whose bits it has."""
    return value - (1 << 64) if value >= 1 << 63 else value


def text(buffer: Buffer, start: int, end: int) -> str:
    """A text field; bytes that are not UTF-8 are replaced, since names are only compared and shown."""
    return bytes(buffer[start:end]).decode("utf-8", "replace")


def _encode(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint_field(number: int, value: int) -> bytes:
    r"""The bytes of a number field; negative numbers as int64.

    >>> varint_field(1, 300)
    b'\x08\xac\x02'
    """
    return _encode(number << 3 | _VARINT) + _encode(value & (1 << 64) - 1)


def bytes_field(number: int, payload: bytes) -> bytes:
    r"""The bytes of a field that holds bytes, a text or a message.

    >>> bytes_field(2, b"hi")
    b'\x12\x02hi'
    """
    return _encode(number << 3 | _BYTES) + _encode(len(payload)) + payload
