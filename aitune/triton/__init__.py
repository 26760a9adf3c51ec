"""The publisher: a record becomes a repository, a server and a report.

>>> from pathlib import Path
>>> from aitune.records import DType, ONNXArtifact, TunedTensorSpec
>>> from aitune.triton import PlanOptions, render
>>> from aitune.triton.plan import plan
>>> spec = TunedTensorSpec("x", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4), 0)
>>> artifact = ONNXArtifact(path=Path("m.onnx"), fingerprint="0" * 64, inputs=(spec,), outputs=(spec,))
>>> config = render(plan(artifact, model_name="scale", options=PlanOptions(target="cpu")))
>>> [line for line in config.splitlines() if line.startswith(("name", "backend", "max_batch_size"))]
['name: "scale"', 'backend: "onnxruntime"', 'max_batch_size: 8']

Names are loaded when they are used, so that importing one module pays for that module only:

- `render`, `publish` and `rollback` write; `Repository` reads what was written.
- `check_repository` tells offline whether a Triton would load it.
- `LocalServer` runs one; `validate` proves that what is served is what was recorded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aitune.triton.check import check_repository as check_repository
    from aitune.triton.plan_options import PlanOptions as PlanOptions
    from aitune.triton.publication import Publication as Publication
    from aitune.triton.publication import publish as publish
    from aitune.triton.rendering import render as render
    from aitune.triton.repository import Repository as Repository
    from aitune.triton.restoration import rollback as rollback
    from aitune.triton.server import LocalServer as LocalServer
    from aitune.triton.validation import validate as validate

# No module may have the name of a function here: importing it would put the module in the function's place.
_HOMES = {
    "LocalServer": "server",
    "PlanOptions": "plan_options",
    "Publication": "publication",
    "Repository": "repository",
    "check_repository": "check",
    "publish": "publication",
    "render": "rendering",
    "rollback": "restoration",
    "validate": "validation",
}

__all__ = [
    "LocalServer",
    "PlanOptions",
    "Publication",
    "Repository",
    "check_repository",
    "publish",
    "render",
    "rollback",
    "validate",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
