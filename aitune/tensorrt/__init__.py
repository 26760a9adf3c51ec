"""The TensorRT frontend: plans built from ONNX artifacts, read, run and bundled.

Names load when they are first used. Whatever needs the library takes its module as a parameter: ``tensorrt`` where
there is a GPU, ``tensorrt_rtx`` on a machine without one. Reading a plan's header needs neither.

>>> from pathlib import Path
>>> from aitune.tensorrt import check_header
>>> check_header(Path("missing.plan"))
Traceback (most recent call last):
aitune.errors.SourceError: plan 'missing.plan' cannot be read: no such file or directory
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aitune.tensorrt.bundling import bundle
    from aitune.tensorrt.cuda import device_problem
    from aitune.tensorrt.header import check_header
    from aitune.tensorrt.library import load_tensorrt
    from aitune.tensorrt.making import build
    from aitune.tensorrt.options import BuildOptions
    from aitune.tensorrt.profiles import split_profile
    from aitune.tensorrt.racing import contest
    from aitune.tensorrt.reading import describe, tune
    from aitune.tensorrt.runner import PlanCandidate, PlanRunner

__all__ = [
    "BuildOptions",
    "PlanCandidate",
    "PlanRunner",
    "build",
    "bundle",
    "check_header",
    "contest",
    "describe",
    "device_problem",
    "load_tensorrt",
    "split_profile",
    "tune",
]

_WHERE = {
    "BuildOptions": "aitune.tensorrt.options",
    "PlanCandidate": "aitune.tensorrt.runner",
    "PlanRunner": "aitune.tensorrt.runner",
    "build": "aitune.tensorrt.making",
    "bundle": "aitune.tensorrt.bundling",
    "check_header": "aitune.tensorrt.header",
    "contest": "aitune.tensorrt.racing",
    "describe": "aitune.tensorrt.reading",
    "device_problem": "aitune.tensorrt.cuda",
    "load_tensorrt": "aitune.tensorrt.library",
    "split_profile": "aitune.tensorrt.profiles",
    "tune": "aitune.tensorrt.reading",
}


def __getattr__(name: str) -> Any:
    """Load a name of the table on first use."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted(__all__)
