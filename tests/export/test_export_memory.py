"""An export does not need the weights in memory more than three times over, the module's own included."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import resource, sys
from pathlib import Path
import torch
from torch import nn
from aitune.torch.exporting import export
from aitune.torch.observation import observe
from aitune.torch.ways import LARGEST_FILE_BYTES, WAYS

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

torch.set_num_threads(1)
folder, way, inside = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "inside"
export(observe(nn.Linear(4, 4), torch.zeros(2, 4)), folder / "small.onnx", ways=[WAYS[way]])  # what imports need
before = peak()
net = nn.Sequential(*(nn.Linear(3600, 3600) for _ in range(4)))
weights = sum(parameter.nbytes for parameter in net.parameters())
limit = LARGEST_FILE_BYTES if inside else 1_000_000
export(observe(net, torch.zeros(2, 3600)), folder / "model.onnx", ways=[WAYS[way]], largest_file_bytes=limit)
assert (folder / ("model.onnx" if inside else "model.onnx.data")).stat().st_size >= weights
print((peak() - before) / weights)
"""


@pytest.mark.parametrize(
    ("way", "where"),
    [
        (0, "inside"),
        pytest.param(0, "beside", marks=pytest.mark.slow),
        pytest.param(1, "inside", marks=pytest.mark.slow),
    ],
)
def test_a_200_mb_model_is_exported_within_three_times_its_weights(tmp_path: Path, way: int, where: str) -> None:
    """Weights in the file or in a companion; the file is compared with the module in the same process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CODE, str(tmp_path), str(way), where]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= 3
