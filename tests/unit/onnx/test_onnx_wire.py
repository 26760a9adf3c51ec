"""Walking the protobuf wire format."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitune.onnx.wire import WireError, bytes_field, fields, signed, text, varint, varint_field, varints


@given(st.integers(1, 2**29 - 1), st.integers(-(2**63), 2**63 - 1))
def test_a_number_field_comes_back(number: int, value: int) -> None:
    """Every int64 survives being written and read."""
    encoded = varint_field(number, value)
    ((found, raw, end),) = fields(encoded, 0, len(encoded))
    assert (found, signed(raw), end) == (number, value, -1)


@given(st.lists(st.tuples(st.integers(1, 99), st.binary(max_size=300))))
def test_fields_of_bytes_come_back_in_order(items: list[tuple[int, bytes]]) -> None:
    """A message is exactly its fields, in the order they were written."""
    encoded = b"".join(bytes_field(number, payload) for number, payload in items)
    assert [(number, encoded[start:end]) for number, start, end in fields(encoded, 0, len(encoded))] == items


@given(st.binary(max_size=60))
def test_any_bytes_are_walked_or_refused(data: bytes) -> None:
    """Whatever the bytes, the walk ends, stays inside them, and fails only with WireError."""
    ranges = []
    with contextlib.suppress(WireError):
        ranges.extend(fields(data, 0, len(data)))
    assert all(end == -1 or 0 <= start <= end <= len(data) for _, start, end in ranges)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x01", "no field 0"),
        (b"\x0b", "wire type 3"),
        (b"\x0f", "wire type 7"),
        (b"\x08", "is cut off"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "more than ten bytes"),
        (b"\x12\x05abc", "field 2 at byte 0 lacks 2 bytes"),
        (b"\x0d\x01\x02", "field 1 at byte 0 lacks 2 bytes"),
    ],
)
def test_what_is_no_field_is_named(data: bytes, message: str) -> None:
    """Each way of not being a message has its own line."""
    with pytest.raises(WireError, match=message):
        list(fields(data, 0, len(data)))


def test_repeated_numbers_are_read_packed_and_single() -> None:
    """A writer may pack repeated numbers or not; both forms mean the same."""
    packed = b"\x01\x80\x01\x05"
    assert list(varints(packed, 0, len(packed))) == [1, 128, 5]
    assert list(varints(b"", 7, -1)) == [7]


def test_fixed_size_numbers_are_ranges_and_text_is_forgiving() -> None:
    """Floats and doubles are passed over as byte ranges; a name that is not UTF-8 can still be shown."""
    data = b"\x0d\x00\x00\x80\x3f\x11" + bytes(8)
    assert list(fields(data, 0, len(data))) == [(1, 1, 5), (2, 6, 14)]
    assert text(b"a\xff", 0, 2) == "a\ufffd"
    assert varint(b"\xac\x02", 0, 2) == (300, 2)
