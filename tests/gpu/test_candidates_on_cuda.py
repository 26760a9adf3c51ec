"""ONNX Runtime's providers on a machine with a GPU. Nothing here was run where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aitune.onnx import tune
from aitune.onnx.candidates import candidates
from aitune.onnx.providers import has_cuda, has_tensorrt
from aitune.records.accelerators import GPU_ACCELERATOR
from aitune.triton.plan import PlanOptions, plan
from aitune.triton.rendering import message

pytestmark = pytest.mark.gpu


@pytest.fixture
def perceptron(tmp_path: Path) -> Path:
    """Three wide layers over any number of rows."""
    generator = np.random.default_rng(5)
    weights = [(generator.normal(size=(256, 256)) / 16).astype(np.float32) for _ in range(3)]
    nodes = [helper.make_node("MatMul", [f"h{at}", f"w{at}"], [f"h{at + 1}"]) for at in range(3)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("h0", TensorProto.FLOAT, ["batch", 256])],
        [helper.make_tensor_value_info("h3", TensorProto.FLOAT, ["batch", 256])],
        [numpy_helper.from_array(weight, f"w{at}") for at, weight in enumerate(weights)],
    )
    path = tmp_path / "model.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_every_candidate_runs_on_the_gpu_and_gives_the_same_answers(perceptron: Path) -> None:
    """Those of the model's own numbers agree with the processor's; a provider that does not start is an error."""
    assert has_cuda(), "--run-gpu was given, and onnxruntime has no CUDA: install onnxruntime-gpu"
    request = {"h0": np.linspace(-1, 1, 4 * 256, dtype=np.float32).reshape(4, 256)}
    expected = candidates(perceptron)[0].open().run(request)["h3"]
    found = [one for one in candidates(perceptron, device="cuda") if one.recipe is None]
    assert [one.name for one in found] == ["default", *(["tensorrt"] if has_tensorrt() else [])]
    for candidate in found:
        runner = candidate.open()
        np.testing.assert_allclose(runner.run(request)["h3"], expected, rtol=1e-2, atol=1e-2)  # TF32
        runner.close()


def test_what_won_on_the_gpu_is_what_the_config_serves(perceptron: Path, tmp_path: Path) -> None:
    """From measuring to the message: the provider of the winner, or none."""
    options: dict[str, Any] = {"device": "cuda", "precision": ("fp32", "fp16"), "tune_seconds": 120, "cache": False}
    made = tune(perceptron, workspace=tmp_path / "made", **options)
    assert made.evidence is not None
    assert made.evidence.tuning is not None
    assert dict(made.evidence.provenance)["measured_on"] == "gpu"
    config = message(plan(made, model_name="m", options=PlanOptions(target="gpu")))
    served = [one.name for one in config.optimization.execution_accelerators.gpu_execution_accelerator]
    assert served == (["tensorrt"] if GPU_ACCELERATOR in dict(made.evidence.tuning.settings) else [])
