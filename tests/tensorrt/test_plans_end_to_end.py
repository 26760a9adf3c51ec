"""From a SOURCE to a repository of plans, through the command line; and what a host without a GPU says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aitune.cli import main
from aitune.records.codec import read_document
from aitune.records.plans import PlanFacts
from aitune.tensorrt import device_problem

from .conftest import convolution_file, sequence_file

pytestmark = pytest.mark.tensorrt
RTX = ["--artifact", "plan", "--builder", "tensorrt_rtx", "--no-tune", "--plan-option"]


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, Any]:
    """Exit code and JSON document of a command."""
    code = main([*map(str, argv), "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def facts(repository: Path, model: str, version: int = 1) -> PlanFacts:
    """What the published record holds of the plan."""
    artifact = read_document(repository / model / str(version) / "aitune.json").artifact
    found = getattr(artifact, "plan", None)
    assert isinstance(found, PlanFacts)
    return found


def check(capsys: pytest.CaptureFixture[str], repository: Path) -> list[tuple[str, str]]:
    """What the offline check finds on a host with a GPU; it must pass."""
    code, report = run(capsys, "check", repository, "--target", "gpu")
    assert code == 0, report
    return [(one["severity"], one["rule"]) for model in report["models"] for one in model["findings"]]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Where plans are published."""
    return tmp_path / "models"


def test_a_convolution_is_published_as_a_plan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, repository: Path
) -> None:
    """Dynamic batch; the check passes, and says what kind of plan it is."""
    source = convolution_file(tmp_path / "net.onnx")
    code, built = run(capsys, "build", source, "-r", repository, *RTX, "compute_capability=8.9")
    assert (code, built["result"], built["max_batch_size"]) == (0, "created", 8)
    assert "TensorRT-RTX" in built["warnings"][0]
    assert check(capsys, repository) == [("warning", "R252")]
    config = (repository / "net" / "config.pbtxt").read_text()
    assert 'platform: "tensorrt_plan"' in config
    assert 'profile: [ "0" ]' in config


def test_sequences_get_their_profiles(capsys: pytest.CaptureFixture[str], tmp_path: Path, repository: Path) -> None:
    """Two profiles by request, both served; CUDA graphs at the typical length."""
    source = sequence_file(tmp_path / "tokens.onnx")
    shapes = ["--min-shape", "ids=1,4", "--opt-shape", "ids=2,16", "--max-shape", "ids=8,64"]
    wishes = ["compute_capability=8.9", "--plan-option", "split.sequence=32", "--cuda-graphs"]
    code, built = run(capsys, "build", source, "-r", repository, *shapes, *RTX, *wishes)
    assert code == 0, built
    assert [item.inputs[0].max for item in facts(repository, "tokens").profiles] == [(8, 32), (8, 64)]
    config = (repository / "tokens" / "config.pbtxt").read_text()
    assert 'profile: [ "0", "1" ]' in config
    assert "graphs: true" in config
    assert check(capsys, repository) == [("warning", "R252")]


def test_plans_for_two_gpus_are_published_together(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, repository: Path
) -> None:
    """The second one is built, published, and given with ``--plan``."""
    source = convolution_file(tmp_path / "net.onnx")
    for capability in ("8.6", "8.9"):
        code, _ = run(capsys, "build", source, "-r", tmp_path / capability, *RTX, f"compute_capability={capability}")
        assert code == 0
    first, second = (tmp_path / capability / "net" / "1" for capability in ("8.9", "8.6"))
    further = f"sm86={second / 'model.plan'}"
    code, built = run(capsys, "build", first / "aitune.json", "-r", repository, "-m", "net", "--plan", further)
    assert code == 0, built
    assert sorted(path.name for path in (repository / "net" / "1").glob("*.plan")) == ["model.plan", "model_sm86.plan"]
    assert [item.compute_capability for item in facts(repository, "net").variants] == ["8.9", "8.6"]
    assert 'value: "model_sm86.plan"' in (repository / "net" / "config.pbtxt").read_text()
    assert check(capsys, repository) == [("warning", "R252")] * 2


def test_a_plan_file_with_its_record_is_a_source(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, repository: Path
) -> None:
    """``build model.plan``: the record beside it says everything."""
    source = convolution_file(tmp_path / "net.onnx")
    assert run(capsys, "build", source, "-r", tmp_path / "first", *RTX, "compute_capability=8.9")[0] == 0
    plan = tmp_path / "first" / "net" / "1" / "model.plan"
    code, built = run(capsys, "build", plan, "-r", repository, "-m", "again")
    assert (code, built["result"]) == (0, "created")
    assert facts(repository, "again") == facts(tmp_path / "first", "net")


def test_a_plan_file_of_tensorrt_rtx_alone_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, repository: Path
) -> None:
    """Nobody wrote down that it is a stand-in."""
    source = convolution_file(tmp_path / "net.onnx")
    assert run(capsys, "build", source, "-r", tmp_path / "first", *RTX, "compute_capability=8.9")[0] == 0
    alone = tmp_path / "alone.plan"
    alone.write_bytes((tmp_path / "first" / "net" / "1" / "model.plan").read_bytes())
    code, answer = run(capsys, "build", alone, "-r", repository)
    assert (code, answer["error"]["code"]) == (2, "E_SOURCE")
    assert "TensorRT-RTX" in answer["error"]["message"]


@pytest.mark.server
def test_a_host_without_a_gpu_says_in_one_line_why_it_does_not_serve_a_plan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, repository: Path
) -> None:
    """``validate`` on the bundled server: exit 1, one check, one line."""
    source = convolution_file(tmp_path / "net.onnx")
    assert run(capsys, "build", source, "-r", repository, *RTX, "compute_capability=8.9")[0] == 0
    code, report = run(capsys, "validate", repository)
    assert code == 1
    (only,) = report["models"][0]["checks"]
    assert (only["name"], only["status"]) == ("ready", "fail")
    assert only["detail"].startswith("a TensorRT plan is served on a GPU by NVIDIA's TensorRT backend only")
    assert "\n" not in only["detail"]


def test_minilm_becomes_a_plan_with_dynamic_batch_and_sequence(
    capsys: pytest.CaptureFixture[str], repository: Path, repository_root: Path
) -> None:
    """A real sentence encoder: exported, proved, built, published, checked."""
    source = f"{repository_root / 'examples' / 'minilm.py'}:sentence_encoder"
    wishes = ["compute_capability=8.9", "--target", "gpu"]
    code, built = run(capsys, "build", source, "-r", repository, "-m", "minilm", *RTX, *wishes)
    assert (code, built["max_batch_size"]) == (0, 8), built
    (profile,) = facts(repository, "minilm").profiles
    assert [(item.name, item.min, item.max) for item in profile.inputs] == [
        ("input_ids", (1, 8), (8, 128)),
        ("attention_mask", (1, 8), (8, 128)),
    ]
    if device_problem():
        assert any("was not run here" in note for note in built["artifact"]["evidence"]["notes"])
    assert check(capsys, repository) == [("warning", "R252")]
