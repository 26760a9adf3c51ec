"""A winner in int8 on a real server: its rows couple a little, which is no alarm, and other weights are one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from aitune.numerics import compare
from aitune.onnx import OnnxRunner
from aitune.onnx.recipes import make
from aitune.records import DType, ONNXArtifact
from aitune.records.evidence import Tried, Tuning
from aitune.triton.checks_live import THOROUGH
from aitune.triton.validation import validate

pytestmark = pytest.mark.server
WIDTH = 64


def quantised(bench: Any, name: str) -> ONNXArtifact:
    """Three layers whose matrix products are quantised with one scale for the whole batch; recorded as int8."""
    x, y = (bench.tools.tuned(one, DType.FLOAT32, ("batch", WIDTH), (1, WIDTH), (8, WIDTH)) for one in "xy")
    generator = np.random.default_rng(11)
    weights = {f"w{at}": (generator.normal(size=(WIDTH, WIDTH)) / 8).astype(np.float32) for at in range(3)}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w1"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "w2"], ["y"]),
    ]
    source = bench.tools.graph(bench.folder / name / "source.onnx", nodes, [x], [y], weights)
    path = source.with_name("model.onnx")
    make("int8-dynamic", source, path)
    tuning = Tuning(
        objective="throughput",
        winner="int8-dynamic",
        reason="made in a test",
        candidates=(Tried(name="default"), Tried(name="int8-dynamic", precision="int8")),
    )
    artifact = bench.record(path, [x], [y], {"x": (2, WIDTH)})
    return replace(artifact, evidence=replace(artifact.evidence, tuning=tuning))


@pytest.fixture(scope="module")
def bench_of_int8(make_bench: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The model as it was recorded, with the record of one in its own numbers, and with a weight gone wrong."""
    bench = make_bench(tmp_path_factory.mktemp("int8"))
    artifact = quantised(bench, "model")
    bench.publish(artifact, "int8")
    bench.publish(replace(artifact, evidence=replace(artifact.evidence, tuning=None)), "called_fp32")
    folder = bench.publish(artifact, "corrupted")
    corrupt(folder / "model.onnx")
    return bench


def corrupt(path: Path) -> None:
    """One column of the last matrix is not what it was."""
    model = onnx.load(path)
    (weight,) = [one for one in model.graph.initializer if one.name == "w2_quantized"]
    array = numpy_helper.to_array(weight).copy()
    array[:, 5] = array[::-1, 5]
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    onnx.save(model, path)


@pytest.fixture(scope="module")
def statuses(bench_of_int8: Any) -> dict[str, dict[str, str]]:
    """The status of every check, by model."""
    return {
        model.name: {check.name: check.status for check in model.checks}
        for model in validate(bench_of_int8.repository).models
    }


def test_its_rows_do_couple(bench_of_int8: Any) -> None:
    """Or what follows would show nothing: a row differs from itself in a batch by more than the table allows."""
    runner = OnnxRunner(bench_of_int8.folder / "model" / "model.onnx")
    x = np.random.default_rng(0).uniform(-1, 1, (8, WIDTH)).astype(np.float32)
    assert not compare(runner.run({"x": x[:1]})["y"], runner.run({"x": x})["y"][:1], DType.FLOAT32).agrees


def test_an_int8_winner_as_recorded_is_no_false_alarm(statuses: dict[str, dict[str, str]]) -> None:
    """Nothing fails, and its weights are proved by the table of tolerances."""
    found = statuses["int8"]
    assert {found[name] for name in ("fingerprint", "numbers", "json", "rows", "concurrency")} == {"pass"}
    assert "fail" not in found.values()


def test_the_tolerance_is_that_of_the_recorded_precision(statuses: dict[str, dict[str, str]]) -> None:
    """The very same file, recorded as computing in its own numbers, is told that its rows depend on each other."""
    assert statuses["called_fp32"]["rows"] == "fail"
    assert statuses["called_fp32"]["numbers"] == "pass"


def test_a_corrupted_weight_is_caught(statuses: dict[str, dict[str, str]]) -> None:
    """The same request alone is the same computation, in eight bits as in thirty-two."""
    assert statuses["corrupted"]["fingerprint"] == "fail"
    assert statuses["corrupted"]["numbers"] == "fail"


def test_the_full_level_is_no_false_alarm_either(bench_of_int8: Any) -> None:
    """Batches at the ends of the range, a life on a fresh server, a reload."""
    (report,) = validate(bench_of_int8.repository, models=["int8"], level="full").models
    found = {check.name: check.status for check in report.checks}
    assert {found[name] for name in THOROUGH} <= {"pass", "skip"}, report
