"""A model without its weights: enough for a runtime to infer every shape, at a few kilobytes instead of gigabytes.

Large initializers become graph inputs of the same type and shape. Small ones stay: shapes depend on them (the target of
a Reshape, the axes of a Squeeze). The result is for reading an interface only; nothing ever runs it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from aitune.onnx.element_types import element_nbytes
from aitune.onnx.external import external_range, location
from aitune.onnx.outline import Outline, Tensor
from aitune.onnx.wire import Buffer, bytes_field, fields, varint_field

__all__ = ["SMALL_BYTES", "skeleton"]

SMALL_BYTES = 4096
"""Initializers up to this size keep their values."""

_DOCUMENTATION, _INITIALIZER, _INPUT = 10, 5, 11


def skeleton(path: Path, buffer: Buffer, outline: Outline, *, external_data: bool) -> bytes:
    """The bytes of the model with its large initializers turned into inputs.

    Args:
        path: The model file; small external tensors are read from the files beside it.
        buffer: Its bytes.
        outline: Its outline; it must have a graph.
        external_data: Whether those files may be read; otherwise external tensors count as large.
    """
    pieces = []
    for number, start, end in fields(buffer, 0, len(buffer)):
        if end == -1:
            pieces.append(varint_field(number, start))
        elif number in (8, 25):
            pieces.append(bytes_field(number, bytes(buffer[start:end])))
        elif number == 7:
            pieces.append(bytes_field(7, b"".join(_graph(path, buffer, outline, external_data))))
    return b"".join(pieces)


def _graph(path: Path, buffer: Buffer, outline: Outline, external_data: bool) -> Iterator[bytes]:
    """The fields of the main graph, initializers replaced."""
    start, end = outline.graph or (0, 0)
    tensors = {tensor.span: tensor for tensor in outline.tensors if tensor.top}
    declared = {port.name for port in outline.inputs}
    for number, value, stop in fields(buffer, start, end):
        if stop == -1 or number == _DOCUMENTATION:
            continue
        if number != _INITIALIZER:
            yield bytes_field(number, bytes(buffer[value:stop]))
            continue
        tensor = tensors[value, stop]
        stored = _stored(path, buffer, tensor, external_data)
        if stored is not None:
            yield bytes_field(_INITIALIZER, stored)
        elif tensor.name not in declared:
            yield bytes_field(_INPUT, _as_input(tensor))


def _stored(path: Path, buffer: Buffer, tensor: Tensor, external_data: bool) -> bytes | None:
    """A small tensor with its values inside the message, None for one whose values nobody needs here."""
    start, end = tensor.span
    if not tensor.external:
        return bytes(buffer[start:end]) if end - start <= SMALL_BYTES else None
    nbytes = element_nbytes(tensor.number, math.prod(tensor.dims))
    if not external_data or nbytes is None or nbytes > SMALL_BYTES:
        return None
    offset, nbytes = external_range(path, tensor)
    with (path.parent / location(path, tensor)).open("rb") as file:
        file.seek(offset)
        return _head(tensor) + bytes_field(9, file.read(nbytes))


def _head(tensor: Tensor) -> bytes:
    dims = b"".join(varint_field(1, size) for size in tensor.dims)
    return dims + varint_field(2, tensor.number) + bytes_field(8, tensor.name.encode())


def _as_input(tensor: Tensor) -> bytes:
    """The declaration of a graph input with the tensor's name, type and shape."""
    dims = b"".join(bytes_field(1, varint_field(1, size)) for size in tensor.dims)
    tensor_type = varint_field(1, tensor.number) + bytes_field(2, dims)
    return bytes_field(1, tensor.name.encode()) + bytes_field(2, bytes_field(1, tensor_type))
