"""What ``build`` prints as the next steps is sent to a real server as it stands."""

from __future__ import annotations

import json
import shlex
import textwrap
import urllib.request
from pathlib import Path

import pytest
import torch
from torch import nn

import aitune.torch
from aitune.cli.next_steps import next_steps
from aitune.triton import LocalServer
from aitune.triton.publication import publish

pytestmark = pytest.mark.server


class Weighed(nn.Module):
    """Rows, and one weight per row."""

    def forward(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """One number per row."""
        return rows.sum(1) * weight


def test_one_value_a_row_is_sent_as_triton_wants_it(tmp_path: Path) -> None:
    """Curl's body and the Python lines have the axis that the server adds for a tensor of rank 1 (B10)."""
    samples = {"rows": torch.rand(2, 3), "weight": torch.rand(2)}
    artifact = aitune.torch.tune(Weighed(), samples, tune=False, workspace=tmp_path / "work")
    publish(artifact, tmp_path / "models", model_name="weighed")
    text = next_steps(artifact, tmp_path / "models", "weighed", release="24.10")
    curl = next(line for line in text.splitlines() if line.strip().startswith("curl"))
    with LocalServer(tmp_path / "models") as server:
        python = textwrap.dedent(text.partition("ask it from Python\n")[2])
        found: dict[str, object] = {}
        exec(python.replace("localhost:8000", server.http), found)  # the printed lines
        body = shlex.split(curl)[shlex.split(curl).index("-d") + 1].encode()
        with urllib.request.urlopen(f"http://{server.http}/v2/models/weighed/infer", data=body) as answer:
            assert json.load(answer)["outputs"][0]["shape"] == [1, 1]
    assert found["answer"].as_numpy("output").shape == (1, 1)
