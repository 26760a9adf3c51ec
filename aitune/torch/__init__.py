"""The PyTorch frontend: from a module and its samples to a tuned artifact.

Names load when they are first used, so that importing one module of this room pays for that module only.

>>> import aitune.torch
>>> aitune.torch.load_source("missing.py:model")
Traceback (most recent call last):
aitune.errors.SourceError: source file 'missing.py' does not exist, found nothing there

``tune`` does everything; ``observe`` and ``export`` are its first two steps. A source on the command line is a function
that returns a module and its samples, and ``load_source`` calls it; or a program of ``torch.export``, which
``load_program`` reads.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aitune.errors import MissingDependencyError

if TYPE_CHECKING:
    from aitune.torch.artifact import tune
    from aitune.torch.exporting import Exported, export
    from aitune.torch.observation import Observation, observe
    from aitune.torch.program_file import load_program
    from aitune.torch.source import Source, load_source

__all__ = ["Exported", "Observation", "Source", "export", "load_program", "load_source", "observe", "tune"]

_WHERE = {
    "Exported": "aitune.torch.exporting",
    "Observation": "aitune.torch.observation",
    "Source": "aitune.torch.source",
    "export": "aitune.torch.exporting",
    "load_program": "aitune.torch.program_file",
    "load_source": "aitune.torch.source",
    "observe": "aitune.torch.observation",
    "tune": "aitune.torch.artifact",
}
_EXTRAS = ("torch", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "tabulate")


def __getattr__(name: str) -> Any:
    """Load a name of the table on first use."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_WHERE[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        raise MissingDependencyError(error.name, extra="torch") from error


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted(__all__)
