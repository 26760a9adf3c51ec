"""The quickstart does what the README says, on the real model and a real Triton."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]


def test_the_quickstart_builds_validates_and_measures_minilm(tmp_path: Path) -> None:
    """One command; afterwards the files lie where it says."""
    done = subprocess.run(
        [ROOT / "scripts" / "quickstart", tmp_path], capture_output=True, text=True, timeout=580, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert "done in" in done.stderr
    record = json.loads((tmp_path / "model_repository/minilm/1/aitune.json").read_text(encoding="utf-8"))
    assert record["artifact"]["outputs"][0]["name"] == "embedding"
    assert record["artifact"]["evidence"]["batching"]["verdict"] == "batched"
    config = (tmp_path / "model_repository/minilm/config.pbtxt").read_text(encoding="utf-8")
    assert "max_batch_size: 0" not in config
    report = json.loads((tmp_path / "report" / "perf.json").read_text(encoding="utf-8"))
    assert report["points"][0]["throughput_per_s"] > 0
