"""The interface of an ONNX file: what goes in and what comes out, as the runtime that will serve it sees it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from aitune.errors import MissingDependencyError, UsageError
from aitune.onnx.external import check_external, companion_names
from aitune.onnx.opening import opened
from aitune.onnx.outline import Outline
from aitune.onnx.wire import Buffer
from aitune.records.interface import Interface, Port

__all__ = ["VIEWS", "describe", "read_interface"]

VIEWS = ("onnxruntime", "shape_inference", "declared")
"""Who can say what a file's tensors are, best first."""


def describe(path: Path) -> Interface:
    """What a model file takes and gives, as ONNX Runtime sees it.

    Nothing is run. Without onnxruntime, onnx's shape inference answers; without that, the file's own claims are
    returned; ``source`` says which of them it was.

    Args:
        path: The ``.onnx`` file.

    Raises:
        SourceError: If the file, or a file it keeps weights in, is missing or unusable, or ONNX Runtime refuses it.
    """
    return read_interface(path)


def read_interface(path: Path, *, prefer: Sequence[str] = VIEWS, external_data: bool = True) -> Interface:
    """The same with a choice of views, e.g. for a checker.

    Args:
        path: The ``.onnx`` file.
        prefer: Views to try, in this order; one whose package is not installed is passed over.
        external_data: Whether the files that hold weights must be there and complete. When False they are not
            looked at, and the shapes are still those ONNX Runtime sees.

    Raises:
        SourceError: If the file is missing, not ONNX, cut short, too new, refused by the view, or (with
            ``external_data``) lacks a file it needs.
        UsageError: If a view does not exist.
        MissingDependencyError: If the package of every preferred view is missing.
    """
    unknown = [view for view in prefer if view not in VIEWS]
    if unknown or not prefer:
        raise UsageError(f"views of an ONNX file are {', '.join(VIEWS)}, got {', '.join(prefer) or 'none'}")
    path = Path(path)
    with opened(path) as (buffer, outline):
        names = companion_names(path, outline)
        if external_data:
            check_external(path, outline)
        view = _first_view(path, buffer, outline, prefer, external_data)
    return dataclasses.replace(view, companions=names)


def _first_view(path: Path, buffer: Buffer, outline: Outline, prefer: Sequence[str], external_data: bool) -> Interface:
    for view in prefer:
        if view == "declared":
            return assemble(outline, outline.inputs, outline.outputs, view)
        module = _optional(view)
        if module is not None:
            inputs, outputs = module.view(path, buffer, outline, external_data)
            return assemble(outline, inputs, outputs, view)
    raise MissingDependencyError("onnxruntime" if "onnxruntime" in prefer else "onnx", extra="onnx")


def _optional(view: str) -> ModuleType | None:
    """The module of a view, None when its package is not installed."""
    module, package = {
        "onnxruntime": ("aitune.onnx.runtime_view", "onnxruntime"),
        "shape_inference": ("aitune.onnx.inferred_view", "onnx"),
    }[view]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        return None


def assemble(outline: Outline, inputs: Sequence[Port], outputs: Sequence[Port], source: str) -> Interface:
    """An interface from the ports of a view, in the file's order, with the inputs a caller may leave out set apart.

    Before IR version 4 an input with an initializer was a constant by another name, and nobody can override it.
    """
    stored = outline.initializer_names
    overridable = outline.ir_version >= 4
    return Interface(
        format="onnx",
        inputs=tuple(port for port in inputs if port.name not in stored),
        outputs=tuple(outputs),
        initializers=tuple(port for port in inputs if port.name in stored and overridable),
        opset_imports=tuple(outline.opset_imports),
        ir_version=outline.ir_version,
        producer=outline.producer,
        source=source,
    )
