"""Writing an ONNX file without a second copy of its weights in memory.

A protobuf message is written in one piece, so that weights in the file would be in memory three times: in the module,
in the message, in its bytes. Here the message is made without the large weights, and these are written behind it one by
one, as fields of the same graph. The file is the same for whoever reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import onnx_ir as ir

from aitune.errors import SourceError
from aitune.onnx.wire import varint_field

__all__ = ["LARGE_BYTES", "write_model"]

LARGE_BYTES = 65_536
"""Weights from this size on are written one by one."""

_GRAPH, _INITIALIZER = 7, 5
_DIMS, _DATA_TYPE, _NAME, _RAW_DATA = 1, 2, 8, 9


def write_model(model: ir.Model, path: Path) -> None:
    """Write a model into one file.

    Args:
        model: The model; it is as it was afterwards.
        path: The file.

    Raises:
        SourceError: If a tensor has another size than it says.
    """
    with _without_large_weights(model.graph) as large:
        message = ir.to_proto(model)
    graph = message.graph.SerializeToString()
    message.ClearField("graph")
    heads = [_head(value) for value in large]
    sizes = [
        len(head) + value.const_value.nbytes for head, value in zip(heads, large, strict=True) if value.const_value
    ]
    total = len(graph) + sum(len(_begin(_INITIALIZER, size)) + size for size in sizes)
    with path.open("wb") as file:
        file.write(message.SerializeToString())
        file.write(_begin(_GRAPH, total))
        file.write(graph)
        for head, size, value in zip(heads, sizes, large, strict=True):
            file.write(_begin(_INITIALIZER, size))
            file.write(head)
            _write_values(value, file)


@contextmanager
def _without_large_weights(graph: ir.Graph) -> Iterator[list[ir.Value]]:
    """The graph without its large weights inside, which are what is yielded."""
    everything = list(graph.initializers.items())
    large = [value for _, value in everything if _is_large(value)]
    for value in large:
        del graph.initializers[value.name or ""]
    try:
        yield large
    finally:
        graph.initializers.clear()
        graph.initializers.update(everything)


def _is_large(value: ir.Value) -> bool:
    tensor = value.const_value
    return tensor is not None and tensor.dtype != ir.DataType.STRING and tensor.nbytes >= LARGE_BYTES


def _begin(number: int, size: int) -> bytes:
    """What stands before a field of so many bytes."""
    key, length = number << 3 | 2, bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes([key]) + bytes(length)


def _head(value: ir.Value) -> bytes:
    """Everything of a TensorProto but its values."""
    tensor, name = value.const_value, (value.name or "").encode()
    assert tensor is not None  # _is_large
    dims = b"".join(varint_field(_DIMS, size) for size in tensor.shape.numpy())
    kind = varint_field(_DATA_TYPE, int(tensor.dtype))
    return dims + kind + _begin(_NAME, len(name)) + name + _begin(_RAW_DATA, tensor.nbytes)


def _write_values(value: ir.Value, file: BinaryIO) -> None:
    tensor, start = value.const_value, file.tell()
    assert tensor is not None  # _is_large
    write = getattr(tensor, "tofile", None)  # some tensors of onnx_ir can, and need no copy then
    if write is not None:
        write(file)
    else:
        file.write(tensor.tobytes())
    if file.tell() - start != tensor.nbytes:
        raise SourceError(f"weight {value.name!r} has {file.tell() - start} bytes, {tensor.nbytes} were announced")
