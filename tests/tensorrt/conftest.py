"""The real builder of TensorRT-RTX, and small models to build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aitune.onnx import tune
from aitune.records import ONNXArtifact
from aitune.tensorrt import BuildOptions, load_tensorrt

CAPABILITY = "8.9"


@pytest.fixture(scope="session")
def trt() -> ModuleType:
    """The library, as an installation with the extra tensorrt-rtx brings it."""
    return load_tensorrt("tensorrt_rtx")


@pytest.fixture(scope="session")
def options() -> Callable[..., BuildOptions]:
    """Options for a GPU that is not here."""

    def make(**given: Any) -> BuildOptions:
        return BuildOptions(**{"compute_capability": CAPABILITY, **given})

    return make


def value(name: str, kind: int, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
    """An input or output of a graph."""
    return helper.make_tensor_value_info(name, kind, list(shape))


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: dict[str, Any] | None = None,
    *,
    domains: Sequence[str] = (),
    external: str | None = None,
) -> Path:
    """Write a model."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save_model(model, path, save_as_external_data=external is not None, location=external, size_threshold=0)
    return path


def linear_file(path: Path, external: str | None = None) -> Path:
    """``y = x @ w`` over (batch, 4) floats."""
    weights = {"w": np.arange(12, dtype=np.float32).reshape(4, 3) / 7}
    return save(
        path,
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [value("x", TensorProto.FLOAT, ["batch", 4])],
        [value("y", TensorProto.FLOAT, ["batch", 3])],
        weights,
        external=external,
    )


def sequence_file(path: Path) -> Path:
    """Token ids to one vector per row, over any length: gather, then a mean."""
    table = (np.arange(60, dtype=np.float32).reshape(20, 3) - 30) / 11
    return save(
        path,
        [
            helper.make_node("Gather", ["table", "ids"], ["rows"]),
            helper.make_node("ReduceMean", ["rows"], ["y"], axes=[1], keepdims=0),
        ],
        [value("ids", TensorProto.INT64, ["batch", "sequence"])],
        [value("y", TensorProto.FLOAT, ["batch", 3])],
        {"table": table},
    )


def convolution_file(path: Path) -> Path:
    """Two convolutions, a pooling and a classifier over images of 3x16x16."""
    random = np.random.default_rng(3)
    weights = {
        "w1": random.normal(size=(8, 3, 3, 3)).astype(np.float32) / 5,
        "w2": random.normal(size=(16, 8, 3, 3)).astype(np.float32) / 8,
        "w3": random.normal(size=(16, 10)).astype(np.float32) / 4,
    }
    return save(
        path,
        [
            helper.make_node("Conv", ["image", "w1"], ["c1"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c1"], ["r1"]),
            helper.make_node("Conv", ["r1", "w2"], ["c2"], strides=[2, 2]),
            helper.make_node("Relu", ["c2"], ["r2"]),
            helper.make_node("GlobalAveragePool", ["r2"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("MatMul", ["f", "w3"], ["logits"]),
        ],
        [value("image", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [value("logits", TensorProto.FLOAT, ["batch", 10])],
        weights,
    )


@pytest.fixture
def artifact(tmp_path: Path) -> Callable[..., ONNXArtifact]:
    """The proved artifact of a model file."""

    def make(write: Callable[..., Path], **given: Any) -> ONNXArtifact:
        path = write(tmp_path / "model.onnx")
        return tune(path, **{"tune": False, "workspace": tmp_path / "onnx", **given})

    return make
