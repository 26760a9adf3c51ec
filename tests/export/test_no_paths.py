"""What is exported says nothing about the machine that exported it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import aitune.torch


class Two(nn.Module):
    """Two layers, so that a trace has more than one frame."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of four to rows of two."""
        return self.layers(x)


class Counting(nn.Module):
    """A recurrent one, which only the TorchScript exporter keeps dynamic."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.GRU(4, 3, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sequences to their mean state."""
        return self.memory(x)[0].mean(dim=1)


@pytest.mark.parametrize(
    ("module", "shapes"), [(Two(), [(1, 4), (3, 4)]), (Counting(), [(1, 2, 4), (3, 5, 4)])], ids=["dynamo", "traced"]
)
def test_no_path_of_this_machine_is_in_the_file(
    module: nn.Module, shapes: list[tuple[int, ...]], tmp_path: Path, repository_root: Path
) -> None:
    """Neither the folder of the user's code nor that of the packages; so fingerprints do not depend on them."""
    artifact = aitune.torch.tune(module, [{"x": torch.rand(shape)} for shape in shapes], tune=False, workspace=tmp_path)
    data = artifact.path.read_bytes()
    for path in (repository_root, Path(torch.__file__).parent, tmp_path, Path.home()):
        assert str(path).encode() not in data
    assert b".py" not in data
