"""Loading what a user names on the command line: a function that returns a module and its samples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aitune.errors import SourceError
from aitune.functions import call_function
from aitune.torch.program import ProgramModule
from aitune.torch.sampling import collect

__all__ = ["Source", "load_source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a source function returned.

    Attributes:
        module: The model.
        samples: Its samples, one by one.
        name: A name for it: that of the function.
    """

    module: nn.Module
    samples: tuple[Any, ...]
    name: str


def load_source(spec: str, *, folder: Path | None = None) -> Source:
    """Call the function that a source names.

    Args:
        spec: ``"path/file.py:function"`` or ``"package.module:function"``. The function takes no arguments and returns
            ``(module, samples)``; see :func:`aitune.torch.observe` for what samples may be.
        folder: Folder that relative paths and packages are looked up in; the current one by default.

    Raises:
        SourceError: If there is no such file, module or function, if it raises, or if it returns something else. The
            message is one line and names the line of the user's file.
    """

    def take(result: Any) -> Source:
        model, samples = _pair(result, spec)
        return Source(module=model, samples=tuple(collect(samples)), name=spec.rpartition(":")[2])

    return call_function(spec, take, folder=folder)


def _pair(result: Any, spec: str) -> tuple[nn.Module, Any]:
    """The module and the samples among what a function returned."""
    right = f"{spec!r} must return (module, samples)"
    if isinstance(result, nn.Module | torch.export.ExportedProgram):
        raise SourceError(f"{right}, found the module alone", hint="return the module and at least one sample")
    if not isinstance(result, tuple | list):
        found = "None" if result is None else f"a {type(result).__name__}"
        raise SourceError(f"{right}, found {found}")
    if len(result) != 2:
        raise SourceError(f"{right}, found {len(result)} values")
    model, samples = result
    if isinstance(samples, nn.Module) and not isinstance(model, nn.Module):
        raise SourceError(f"{right}, found them the other way round")
    if isinstance(model, torch.export.ExportedProgram):
        return ProgramModule(model), samples
    if not isinstance(model, nn.Module):
        raise SourceError(f"{right}, found a {type(model).__name__} where the torch.nn.Module should be")
    return model, samples
