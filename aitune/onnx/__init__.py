"""The ONNX frontend: read a model file's interface, run it, repair its names, tune it.

Names load when they are first used. Reading an interface needs no package at all; with onnxruntime installed the answer
is the one a server will see.

>>> import aitune.onnx
>>> aitune.onnx.describe("missing.onnx")
Traceback (most recent call last):
aitune.errors.SourceError: model 'missing.onnx' does not exist
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aitune.errors import MissingDependencyError

if TYPE_CHECKING:
    from aitune.onnx.candidates import OnnxCandidate, candidates
    from aitune.onnx.external import companions
    from aitune.onnx.making import check_servable, tune
    from aitune.onnx.names import rename_values, repair_duplicates
    from aitune.onnx.reading import describe, read_interface
    from aitune.onnx.session import OnnxRunner

# From 1.32 on, onnxruntime reports its use to its maker and keeps a device id in the user's cache, unless this is set
# before it is imported. Measuring someone's model must not; who wants it sets the variable.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__all__ = [
    "OnnxCandidate",
    "OnnxRunner",
    "candidates",
    "check_servable",
    "companions",
    "describe",
    "read_interface",
    "rename_values",
    "repair_duplicates",
    "tune",
]

_WHERE = {
    "OnnxCandidate": "aitune.onnx.candidates",
    "OnnxRunner": "aitune.onnx.session",
    "candidates": "aitune.onnx.candidates",
    "check_servable": "aitune.onnx.making",
    "companions": "aitune.onnx.external",
    "describe": "aitune.onnx.reading",
    "read_interface": "aitune.onnx.reading",
    "rename_values": "aitune.onnx.names",
    "repair_duplicates": "aitune.onnx.names",
    "tune": "aitune.onnx.making",
}


def __getattr__(name: str) -> Any:
    """Load a name of the table on first use."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_WHERE[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in ("onnx", "onnxruntime"):
            raise
        raise MissingDependencyError(error.name, extra="onnx") from error


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted(__all__)
