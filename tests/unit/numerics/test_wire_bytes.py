"""Tensors as Triton's bytes."""

from __future__ import annotations

import numpy as np
import pytest
import tritonclient.utils as reference
from hypothesis import given
from numerics_strategies import tensors

from aitune.errors import UsageError
from aitune.numerics import Array, from_wire, numpy_dtype, to_wire
from aitune.records import DType


@given(tensors())
def test_from_wire_is_the_inverse_of_to_wire(tensor: tuple[Array, DType]) -> None:
    """Every bit of every type comes back, in an array that may be written to."""
    array, dtype = tensor
    data = to_wire(array, dtype)
    back = from_wire(data, dtype, array.shape)
    assert to_wire(back, dtype) == data
    assert back.shape == array.shape
    assert back.dtype == numpy_dtype(dtype)
    assert back.flags.writeable
    if dtype is DType.STRING:
        assert back.tolist() == array.tolist()


def test_strings_are_sent_as_the_client_library_sends_them() -> None:
    """Our bytes are those of tritonclient, also for text and empty strings."""
    array = np.array([[b"", b"abc"], ["käse", b"\x00\xff"]], dtype=object)
    wanted = reference.serialize_byte_tensor(array).item()
    assert to_wire(array, DType.STRING) == wanted


def test_byte_order_and_memory_layout_do_not_matter() -> None:
    """A big-endian, transposed array gives the same bytes as a plain one."""
    plain = np.arange(6, dtype=np.int32).reshape(2, 3)
    turned = np.asfortranarray(plain.astype(">i4"))
    assert to_wire(turned, DType.INT32) == to_wire(plain, DType.INT32) == plain.tobytes()


@pytest.mark.parametrize(
    ("data", "dtype", "shape", "message"),
    [
        (b"1234", DType.FLOAT32, (2,), r"4 bytes are not a float32 tensor of shape \(2,\), which has 8"),
        (b"12345", DType.FLOAT32, (1,), "5 bytes are not"),
        (b"", DType.INT8, (-1,), r"cannot have the shape \(-1,\)"),
        (b"\x01\x00", DType.STRING, (1,), "ends inside a length, at byte 0 of 2"),
        (b"\x02\x00\x00\x00a", DType.STRING, (1,), "ends inside a string: it needs 6 bytes and has 5"),
        (b"\x00\x00\x00\x00", DType.STRING, (2,), "1 strings were sent where the shape has 2"),
    ],
)
def test_bytes_that_are_no_such_tensor_are_refused(
    data: bytes, dtype: DType, shape: tuple[int, ...], message: str
) -> None:
    """Too short, too long or cut inside a string: the message has the numbers."""
    with pytest.raises(UsageError, match=message):
        from_wire(data, dtype, shape)


@pytest.mark.parametrize(
    ("array", "dtype", "message"),
    [
        (np.zeros(2), DType.FLOAT32, "float32 must be held as numpy float32, got float64"),
        (np.array([1], dtype=object), DType.STRING, "must be bytes, got int 1"),
    ],
)
def test_an_array_that_does_not_hold_the_type_is_not_sent(array: Array, dtype: DType, message: str) -> None:
    """Nothing is cast silently on the way out."""
    with pytest.raises(UsageError, match=message):
        to_wire(array, dtype)


def test_a_true_that_is_not_1_is_read_as_true() -> None:
    """Any byte but zero is True, and in memory it is 1."""
    assert from_wire(b"\x00\x02\xff", DType.BOOL, (3,)).view(np.uint8).tolist() == [0, 1, 1]
