"""A file's tensors as onnx's shape inference sees them: the second best view, where onnxruntime is not installed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from aitune.errors import SourceError
from aitune.onnx.outline import Outline, read_ports
from aitune.onnx.skeleton import skeleton
from aitune.onnx.wire import Buffer
from aitune.records.interface import Port

__all__ = ["view"]


def view(path: Path, buffer: Buffer, outline: Outline, external_data: bool) -> tuple[list[Port], list[Port]]:
    """Inputs (those with an initializer included) and outputs, in the file's order.

    Args:
        path: The model file.
        buffer: Its bytes.
        outline: Its outline.
        external_data: Whether the files with its weights are there.

    Raises:
        SourceError: If a message in the file is malformed, or shape inference finds a contradiction.
    """
    light = skeleton(path, buffer, outline, external_data=external_data)
    try:
        inferred = onnx.shape_inference.infer_shapes(light, data_prop=True)
    except (DecodeError, onnx.shape_inference.InferenceError, RuntimeError, TypeError) as error:
        line = next(iter(str(error).splitlines()), "no reason given")
        raise SourceError(f"onnx {onnx.__version__} refuses model {str(path)!r}: {line}") from error
    inputs, outputs = read_ports(inferred.SerializeToString())
    names = {port.name for port in outline.inputs}
    return [port for port in inputs if port.name in names], [_without_made_up(port) for port in outputs]


def _without_made_up(port: Port) -> Port:
    """The port without the symbols that inference makes up for sizes it does not know."""
    if port.shape is None:
        return port
    shape = tuple(None if isinstance(dim, str) and dim.startswith("unk__") else dim for dim in port.shape)
    return dataclasses.replace(port, shape=shape)
