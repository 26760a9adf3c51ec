"""What importing the ONNX frontend loads, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("onnx", "onnxruntime", "numpy", "torch", "google")


def _loaded(code: str) -> set[str]:
    """The heavy packages that a piece of code loads."""
    program = f"{code}\nimport sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("code", ["import aitune.onnx", "from aitune.onnx import companions, describe, read_interface"])
def test_reading_interfaces_loads_nothing_before_it_is_asked(code: str) -> None:
    """The door is free, and so are the functions that only read files."""
    assert _loaded(code) == set()


def test_external_data_is_found_without_any_package() -> None:
    """Walking a file for its companions needs neither onnx nor onnxruntime, even when it runs."""
    code = "from aitune.onnx import companions\nfrom aitune.errors import SourceError\n"
    code += "try: companions(__import__('pathlib').Path('none.onnx'))\nexcept SourceError: pass"
    assert _loaded(code) == set()


def test_renaming_loads_onnx_alone() -> None:
    """Each name pays for its own module."""
    assert "onnxruntime" not in _loaded("from aitune.onnx import rename_values")
    assert {"onnx", "torch"} & _loaded("from aitune.onnx import OnnxRunner") == set()
