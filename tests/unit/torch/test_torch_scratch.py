"""What PyTorch's compiler writes while it exports goes with the export."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import torch

from aitune.torch import export, observe
from aitune.torch.scratch import scratch_folder

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for temporary files, and no folder for the compiler."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv(VARIABLE, raising=False)
    return folder


def test_an_interrupt_takes_the_folder_of_the_compiler_away(temporary: Path) -> None:
    """The variable, too, is as it was."""

    def interrupted() -> None:
        with scratch_folder():
            Path(os.environ[VARIABLE], "fxgraph").mkdir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert VARIABLE not in os.environ
    assert not list(temporary.iterdir())


def test_a_folder_that_the_user_chose_is_left_alone(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is theirs, and may hold what another program compiled."""
    monkeypatch.setenv(VARIABLE, "/elsewhere")
    with scratch_folder():
        assert os.environ[VARIABLE] == "/elsewhere"
    assert os.environ[VARIABLE] == "/elsewhere"
    assert not list(temporary.iterdir())


def test_an_export_leaves_no_temporary_file(temporary: Path, tmp_path: Path) -> None:
    """PyTorch would leave torchinductor_<user> behind."""
    export(observe(torch.nn.Linear(4, 3), torch.rand(2, 4)), tmp_path / "model.onnx")
    assert not list(temporary.iterdir())
