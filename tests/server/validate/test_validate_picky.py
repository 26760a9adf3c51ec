"""A model that refuses values which are made up, from its samples to a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aitune.onnx import tune
from aitune.records import DType
from aitune.triton.validation import validate

pytestmark = pytest.mark.server
SAMPLES = [
    {"x": np.array(rows, np.float32)}
    for rows in ([[1, 2, 3, 4]], [[4, 3, 2, 1], [0, 0, 5, 5], [10, 0, 0, 0]], [[2, 2, 2, 4], [7, 1, 1, 1]])
]


def picky(bench: Any, path: Path) -> Path:
    """``y = x @ w`` for rows that sum to ten; for others an index is out of its table, and the run fails."""
    x, y = (bench.tools.tuned(n, DType.FLOAT32, ("batch", s), (1, s), (8, s)) for n, s in (("x", 4), ("y", 3)))
    weights = {
        "w": np.random.default_rng(2).normal(size=(4, 3)).astype(np.float32),
        "axis": np.array([1]),
        "ten": np.array(10, np.float32),
        "table": np.zeros((1, 3), np.float32),
    }
    nodes = [
        helper.make_node("ReduceSum", ["x", "axis"], ["sum"], keepdims=0),
        helper.make_node("Sub", ["sum", "ten"], ["rest"]),
        helper.make_node("Abs", ["rest"], ["far"]),
        helper.make_node("Ceil", ["far"], ["off"]),
        helper.make_node("Cast", ["off"], ["index"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "index"], ["zeros"]),
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "zeros"], ["y"]),
    ]
    return bench.tools.graph(path, nodes, [x], [y], weights)


def published(bench: Any, name: str, keep_samples: str) -> Path:
    """The model, made of its samples and published; the folder of its version."""
    path = picky(bench, bench.folder / name / "model.onnx")
    artifact = tune(
        path, samples=SAMPLES, tune=False, keep_samples=keep_samples, workspace=bench.folder / name / "made"
    )
    assert artifact.max_batch_size == 8
    return bench.publish(artifact, name, keep_samples=keep_samples)


@pytest.fixture(scope="module")
def statuses(make_bench: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The status of every check, by model: with its samples, without them, and with other weights."""
    bench = make_bench(tmp_path_factory.mktemp("picky"))
    published(bench, "with_samples", "recorded")
    published(bench, "without", "synthetic")
    file = published(bench, "corrupted", "recorded") / "model.onnx"
    model = onnx.load(file)
    (weight,) = [one for one in model.graph.initializer if one.name == "w"]
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.01), "w"))
    onnx.save(model, file)
    return {
        model.name: {check.name: check.status for check in model.checks} for model in validate(bench.repository).models
    }


def test_recorded_samples_give_validate_something_to_compare(statuses: dict[str, dict[str, str]]) -> None:
    """Without a probe no weights are proved, but answers, rows and clients are."""
    found = statuses["with_samples"]
    assert found["fingerprint"] == "skip"
    assert {found[name] for name in ("numbers", "json", "rows", "concurrency", "refusals")} == {"pass"}
    assert "fail" not in found.values()


def test_other_weights_are_caught_by_the_samples(statuses: dict[str, dict[str, str]]) -> None:
    """The recorded requests are not answered as recorded."""
    assert statuses["corrupted"]["numbers"] == "fail"


def test_without_samples_nothing_is_blamed_on_the_model(statuses: dict[str, dict[str, str]]) -> None:
    """What is made up is refused, and that was known: warnings, no failure."""
    found = statuses["without"]
    assert found["numbers"] == "warn"
    assert "fail" not in found.values(), found
