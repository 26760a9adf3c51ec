"""What Triton imports: finds the rest of this folder, wherever it lies, and hands out its ``TritonPythonModel``."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

_PACKAGE = "aitune_onnxruntime_backend"

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime 1.32 and later reports its use, unless told not to


def _package() -> ModuleType:
    """This folder as a package of a private name: Triton puts it on the path as a plain folder of modules."""
    # The stub looks into its working directory first, where a file named like a library would be imported instead.
    sys.path[:] = [entry for entry in sys.path if entry]
    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        _PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} is not a package")
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = package
    spec.loader.exec_module(package)
    return importlib.import_module(f"{_PACKAGE}.serving")


TritonPythonModel = _package().TritonPythonModel
