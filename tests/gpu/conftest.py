"""A machine with an NVIDIA GPU, TensorRT, and a small model to build for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aitune.onnx import tune
from aitune.records import ONNXArtifact
from aitune.tensorrt import device_problem, load_tensorrt


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    """These tests were asked for, so a machine without a GPU is a failure, not a skip."""
    assert device_problem() == "", f"--run-gpu was given, and no GPU can be used here: {device_problem()}"


@pytest.fixture(scope="session")
def trt() -> ModuleType:
    """TensorRT, or TensorRT-RTX where only that is installed."""
    try:
        return load_tensorrt("tensorrt")
    except ModuleNotFoundError:
        return load_tensorrt("tensorrt_rtx")


def encoder_file(path: Path) -> Path:
    """Token ids to one vector per row, over any length."""
    table = (np.arange(60, dtype=np.float32).reshape(20, 3) - 30) / 11
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "ids"], ["rows"]),
            helper.make_node("ReduceMean", ["rows"], ["y"], axes=[1], keepdims=0),
        ],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(table, "table")],
    )
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def artifact(tmp_path: Path) -> Callable[..., ONNXArtifact]:
    """The proved artifact of a model over lengths 4 to 64."""

    def make(write: Callable[[Path], Path] = encoder_file, **given: Any) -> ONNXArtifact:
        shapes = {"min_shapes": {"ids": (1, 4)}, "max_shapes": {"ids": (8, 64)}}
        path = write(tmp_path / "model.onnx")
        return tune(path, **{"tune": False, "workspace": tmp_path / "onnx", **shapes, **given})

    return make
