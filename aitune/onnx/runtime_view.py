"""A file's tensors as ONNX Runtime sees them, after its own type and shape inference."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from aitune.errors import SourceError
from aitune.onnx.element_types import dtype_of, parse_runtime_type
from aitune.onnx.external import check_weights, companion_names
from aitune.onnx.outline import Outline
from aitune.onnx.runtime import Values, open_session, session_values
from aitune.onnx.skeleton import skeleton
from aitune.onnx.wire import Buffer
from aitune.records.interface import Port
from aitune.records.shapes import Dim

__all__ = ["WHOLE_BYTES", "view"]

WHOLE_BYTES = 16 << 20
"""A model up to this size, weights included, is loaded whole; of a larger one only the skeleton."""


def view(path: Path, buffer: Buffer, outline: Outline, external_data: bool) -> tuple[list[Port], list[Port]]:
    """Inputs (those with an initializer included) and outputs, in the file's order.

    Args:
        path: The model file.
        buffer: Its bytes.
        outline: Its outline.
        external_data: Whether the files with its weights are there.

    Raises:
        SourceError: If ONNX Runtime refuses the model.
    """
    inputs, outputs, initializers = _load(path, buffer, outline, external_data)
    known = inputs | initializers
    read = [_port(port, known[port.name]) if port.name in known else port for port in outline.inputs]
    written = [_port(port, outputs[port.name]) for port in outline.outputs]
    if any(_unclear(before, after) for before, after in zip(outline.outputs, written, strict=True)):
        written = _settle(path, buffer, outline, written, external_data)
    return read, written


def _load(path: Path, buffer: Buffer, outline: Outline, external_data: bool) -> tuple[Values, Values, Values]:
    """What ONNX Runtime makes of the file, loaded whole where it is small."""
    if external_data and _total_bytes(path, buffer, outline) <= WHOLE_BYTES:
        return session_values(open_session(path))
    if external_data:
        check_weights(path, outline)
    light = skeleton(path, buffer, outline, external_data=external_data)
    try:
        return session_values(open_session(path, light))
    except SourceError:
        if not external_data:
            raise
    return session_values(open_session(path))  # some operators want their weights to be constants


def _total_bytes(path: Path, buffer: Buffer, outline: Outline) -> int:
    companions = companion_names(path, outline)
    return len(buffer) + sum((path.parent / name).stat().st_size for name in companions)


def _port(declared: Port, value: tuple[str, tuple[Dim, ...]]) -> Port:
    """A port with ONNX Runtime's type and shape; an empty shape is a scalar only where the file says so."""
    text, dims = value
    kind, word = parse_runtime_type(text)
    if kind not in ("tensor", "sparse_tensor"):
        return Port(name=declared.name, kind=kind, element_type=word)
    shape: tuple[Dim, ...] | None = tuple(_dim(dim) for dim in dims)
    if shape == () and declared.shape is None:
        shape = None
    dtype = dtype_of(word) if kind == "tensor" else None
    return Port(name=declared.name, kind=kind, element_type=word, dtype=dtype, shape=shape)


def _dim(dim: Dim) -> Dim:
    """A size that says something: blank symbols and negative numbers do not."""
    if isinstance(dim, str):
        return dim if dim.strip() else None
    return dim if dim is not None and dim >= 0 else None


def _unclear(declared: Port, found: Port) -> bool:
    """Whether ONNX Runtime's empty shape may be that of a scalar or of an unknown rank."""
    return found.kind == "tensor" and found.shape is None and declared.shape is None


def _settle(path: Path, buffer: Buffer, outline: Outline, ports: list[Port], external_data: bool) -> list[Port]:
    """The ports with scalars told from unknown ranks, by onnx's shape inference where it is installed."""
    try:
        from aitune.onnx.inferred_view import view as inferred_view

        _, inferred = inferred_view(path, buffer, outline, external_data)
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        return ports
    except SourceError:  # ONNX Runtime loads it, so what onnx holds against it decides nothing
        return ports
    scalars = {port.name for port in inferred if port.shape == ()}
    return [dataclasses.replace(port, shape=()) if port.name in scalars else port for port in ports]
