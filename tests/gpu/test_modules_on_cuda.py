"""Modules on a GPU are observed and exported there, and left where they were."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import aitune.torch
from aitune.errors import SourceError
from aitune.torch.exporting import export
from aitune.torch.observation import observe
from aitune.torch.ways import WAYS

pytestmark = pytest.mark.gpu


class Net(nn.Module):
    """Layers, a buffer, and a constant made in ``forward``."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 256), nn.Dropout(), nn.Linear(256, 3))
        self.register_buffer("offset", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Three numbers per row."""
        return self.layers(x) + self.offset * torch.arange(3, device=x.device)


def numbers(*shape: int) -> torch.Tensor:
    """The same numbers in every run of the tests."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_samples_follow_the_module() -> None:
    """Samples on the CPU are moved, and it is said; random states of the GPU are restored."""
    model = Net().cuda()
    before = torch.cuda.get_rng_state()
    seen = observe(model, numbers(2, 4))
    assert seen.device.type == "cuda"
    assert {parameter.device.type for parameter in model.parameters()} == {"cuda"}
    assert "samples were moved from cpu to cuda:0" in " ".join(seen.notes)
    assert torch.equal(before, torch.cuda.get_rng_state())


@pytest.mark.parametrize("way", range(3))
def test_every_way_exports_from_the_gpu(tmp_path: Path, way: int) -> None:
    """The file runs on the CPU, with the numbers of the GPU."""
    exported = export(observe(Net().cuda(), numbers(2, 4).cuda()), tmp_path / "model.onnx", ways=[WAYS[way]])
    assert exported.interface.inputs[0].shape == ("batch", 4)
    assert exported.verification.runs >= 4


def test_a_recurrent_net_on_the_gpu_becomes_an_artifact(tmp_path: Path) -> None:
    """CuDNN's weights are written as well."""
    net = nn.GRU(4, 5, batch_first=True).cuda()
    samples = [{"input": numbers(1, 5, 4)}, {"input": numbers(3, 7, 4)}]
    artifact = aitune.torch.tune(net, samples, tune=False, workspace=tmp_path, move_batch_axis=True)
    assert artifact.max_batch_size == 8


def test_two_devices_are_refused() -> None:
    """One module, one device."""
    with pytest.raises(SourceError, match="several devices"):
        observe(nn.Sequential(nn.Linear(4, 4).cuda(), nn.Linear(4, 4)), numbers(2, 4))
