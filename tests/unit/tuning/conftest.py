"""What the tests of tuning share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    """A file that stands for a model; fakes do not read it."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"weights")
    return path
