"""Where a build measures: the machine here has no GPU, so what depends on one is asked of a list that is made up."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from aitune import pipeline
from aitune.cli import main
from aitune.errors import UnavailableError
from aitune.plan_source import PlanRequest


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    """A small model."""
    port = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", port[:1], port[1:])
    path = tmp_path / "relu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_gpu_that_onnx_runtime_cannot_use_ends_the_build(
    relu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with what was asked, found and to be done, exit 3, and nothing is published; it never was silent CPU."""
    target = tmp_path / "repository"
    assert main(["build", str(relu), "-r", str(target), "--device", "gpu", "--no-tune"]) == 3
    said = capsys.readouterr().err
    assert "device 'cuda' was asked for" in said
    assert "has no CUDAExecutionProvider, only" in said
    assert "install onnxruntime-gpu instead of onnxruntime, or measure on the CPU (--device cpu)" in said
    assert "Traceback" not in said
    assert not target.exists()


def test_mocked_devices_by_what_is_asked_and_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """``gpu`` demands CUDA, but for a model that is only the step to a plan; otherwise it is the CPU."""
    for plan in (PlanRequest(), PlanRequest(device="cpu"), PlanRequest(format="plan", device="gpu")):
        assert pipeline._device(plan) == "cpu"
    with pytest.raises(UnavailableError):
        pipeline._device(PlanRequest(device="gpu"))
    have = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: have)
    assert pipeline._device(PlanRequest(device="gpu")) == "cuda"
    assert pipeline._device(PlanRequest(format="plan", device="gpu")) == "cuda"
    assert pipeline._device(PlanRequest()) == "cpu"
