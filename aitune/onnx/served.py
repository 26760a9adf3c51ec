"""A file as a server that already has it would see it: what we would not publish may still load."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from aitune.errors import SourceError
from aitune.onnx.opening import opened
from aitune.onnx.outline import Outline
from aitune.onnx.reading import assemble, read_interface
from aitune.onnx.wire import Buffer
from aitune.records.interface import Interface

__all__ = ["read_served"]


def read_served(path: Path) -> Interface:
    """The interface of a file in somebody's repository.

    `read_interface` demands of external data what a publisher must demand. A server demands less: ONNX Runtime opens
    only the files that the graph uses, and before 1.24 also those outside the model's folder. Where our demands are
    not met, ONNX Runtime itself is asked; where its version alone stands in the way, the graph without its weights.

    Args:
        path: The ``.onnx`` file.

    Returns:
        Its interface; ``companions`` are the locations as the file gives them, ``..`` included.

    Raises:
        SourceError: If the file is refused for any other reason, or data that it uses is missing.
        MissingDependencyError: If nothing on this machine can read it.
    """
    try:
        return read_interface(path)
    except SourceError as refusal:
        with opened(path) as (buffer, outline):
            names = _locations(outline)
            if not names:
                raise
            found = _lenient(path, buffer, outline, refusal, outside=_outside(path, names))
        return dataclasses.replace(found, companions=names)


def _locations(outline: Outline) -> tuple[str, ...]:
    """What the file gives as locations, unchecked."""
    found = (dict(tensor.external).get("location", "") for tensor in outline.tensors if tensor.external)
    return tuple(dict.fromkeys(name for name in found if name))


def _outside(path: Path, names: tuple[str, ...]) -> bool:
    """Whether data lies outside the model's folder, all of it being there."""
    folder = path.parent.resolve()
    files = [path.parent / name for name in names]
    there = all(file.is_file() for file in files)
    return there and not all(file.resolve().is_relative_to(folder) for file in files)


def _lenient(path: Path, buffer: Buffer, outline: Outline, refusal: SourceError, *, outside: bool) -> Interface:
    from aitune.onnx import runtime, runtime_view  # onnxruntime is there, or `read_interface` had not refused

    try:
        runtime.open_session(path)
    except SourceError:
        if not outside:
            raise refusal from None
    try:
        inputs, outputs = runtime_view.view(path, buffer, outline, external_data=False)
        return assemble(outline, inputs, outputs, "onnxruntime")
    except SourceError:
        if not outside:
            raise refusal from None
    from aitune.onnx import inferred_view  # a Constant node keeps its data outside: not even the graph is opened

    inputs, outputs = inferred_view.view(path, buffer, outline, external_data=False)
    return assemble(outline, inputs, outputs, "shape_inference")
