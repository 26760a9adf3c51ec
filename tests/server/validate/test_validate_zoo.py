"""Models of many kinds, served as they were recorded: no false alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from onnx import TensorProto, helper

from aitune.records import DType
from aitune.triton.checks_live import THOROUGH
from aitune.triton.perf import SHAPES, perf
from aitune.triton.server import LocalServer
from aitune.triton.validation import validate
from aitune.triton.validation_records import ModelReport

pytestmark = pytest.mark.server
ZOO: dict[str, Callable] = {}


def animal(make: Callable) -> Callable:
    """Register a model."""
    ZOO[make.__name__] = make
    return make


@animal
def linear(bench, name):
    """Floats, batches up to 8."""
    bench.publish(bench.linear(), name)


@animal
def free_axis(bench, name):
    """A length that clients choose."""
    x, y = bench.free_axis()
    path = bench.tools.graph(bench.folder / name / "model.onnx", bench.tools.REDUCE, [x], [y], {"axis": np.array([1])})
    bench.publish(bench.record(path, [x], [y], {"x": (1, 4)}), name)


@animal
def scalars(bench, name):
    """A scalar in, a scalar out, no batch (B09)."""
    t = bench.tools.tuned
    x, k = t("x", DType.FLOAT32, (2, 3), (2, 3), (2, 3), None), t("k", DType.FLOAT32, (), (), (), None)
    y, m = t("y", DType.FLOAT32, (2, 3), (2, 3), (2, 3), None), t("mean", DType.FLOAT32, (), (), (), None)
    nodes = [helper.make_node("Mul", ["x", "k"], ["y"]), helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=0)]
    path = bench.tools.graph(bench.folder / name / "model.onnx", nodes, [x, k], [y, m])
    bench.publish(bench.record(path, [x, k], [y, m]), name)


@animal
def rank_one(bench, name):
    """One number a row: clients see a column (B10)."""
    t = bench.tools.tuned
    x, y = t("x", DType.FLOAT32, ("batch", 5), (1, 5), (8, 5)), t("y", DType.INT64, ("batch",), (1,), (8,))
    nodes = [helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)]
    path = bench.tools.graph(bench.folder / name / "model.onnx", nodes, [x], [y])
    bench.publish(bench.record(path, [x], [y]), name)


@animal
def half(bench, name):
    """FP16 cannot travel as JSON (B24)."""
    t = bench.tools.tuned
    x, y = (t(n, DType.FLOAT16, ("batch", 4), (1, 4), (4, 4)) for n in "xy")
    path = bench.tools.graph(bench.folder / name / "model.onnx", [helper.make_node("Mul", ["x", "x"], ["y"])], [x], [y])
    bench.publish(bench.record(path, [x], [y]), name)


@animal
def words(bench, name):
    """Strings in, strings out."""
    t = bench.tools.tuned
    x, y = (t(n, DType.STRING, ("batch", 2), (1, 2), (4, 2)) for n in "xy")
    path = bench.tools.graph(bench.folder / name / "model.onnx", [helper.make_node("Identity", ["x"], ["y"])], [x], [y])
    bench.publish(bench.record(path, [x], [y]), name)


@animal
def lookup(bench, name):
    """Integers that are indices, and a mask (B56)."""
    t = bench.tools.tuned
    ids = t("ids", DType.INT64, ("batch", "length"), (1, 1), (4, 8))
    mask = t("mask", DType.BOOL, ("batch", "length"), (1, 1), (4, 8))
    y = t("y", DType.FLOAT32, ("batch", "length", 3), (1, 1, 3), (4, 8, 3))
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Cast", ["mask"], ["factor"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["factor", "last"], ["wide"]),
        helper.make_node("Mul", ["rows", "wide"], ["y"]),
    ]
    weights = {"table": np.arange(6, dtype=np.float32).reshape(2, 3), "last": np.array([2])}
    path = bench.tools.graph(bench.folder / name / "model.onnx", nodes, [ids, mask], [y], weights)
    bench.publish(bench.record(path, [ids, mask], [y], {"ids": (1, 4), "mask": (1, 4)}), name)


@animal
def unbatched_free(bench, name):
    """Free axes, but rows were not proved independent: max_batch_size 0 and full shapes."""
    x = bench.tools.tuned("x", DType.INT32, ("rows", 4), (1, 4), (6, 4), None)
    y = bench.tools.tuned("y", DType.INT32, (1, 4), (1, 4), (1, 4), None)
    nodes = [helper.make_node("ReduceSum", ["x", "axis"], ["y"], keepdims=1)]
    path = bench.tools.graph(bench.folder / name / "model.onnx", nodes, [x], [y], {"axis": np.array([0])})
    bench.publish(bench.record(path, [x], [y], {"x": (3, 4)}), name)


@animal
def without_samples(bench, name):
    """Only the probe is kept."""
    bench.publish(bench.linear(samples=False), name)


@animal
def by_hand(bench, name):
    """A record without any evidence."""
    artifact = bench.linear()
    bench.publish(
        type(artifact)(
            path=artifact.path, fingerprint=artifact.fingerprint, inputs=artifact.inputs, outputs=artifact.outputs
        ),
        name,
    )


@animal
def foreign(bench, name):
    """Somebody else's: a config and a file, no record."""
    folder = bench.repository / name
    x, y = bench.free_axis()
    bench.tools.graph(folder / "1" / "model.onnx", bench.tools.REDUCE, [x], [y], {"axis": np.array([1])})
    (folder / "config.pbtxt").write_text(
        'backend: "onnxruntime" max_batch_size: 4 dynamic_batching {}\n'
        'input [{ name: "x" data_type: TYPE_FP32 dims: [-1] }] output [{ name: "y" data_type: TYPE_FP32 dims: [1] }]\n'
        "instance_group [{ kind: KIND_CPU count: 1 }]\n"
    )


@pytest.fixture(scope="module")
def bench_of_zoo(make_bench, tmp_path_factory):
    """A repository with all of them."""
    bench = make_bench(tmp_path_factory.mktemp("zoo"))
    for name, make in ZOO.items():
        make(bench, name)
    return bench


@pytest.fixture(scope="module")
def reports(bench_of_zoo) -> dict[str, ModelReport]:
    """All of them behind one server."""
    return {model.name: model for model in validate(bench_of_zoo.repository).models}


def test_the_full_level_is_no_false_alarm_either(bench_of_zoo) -> None:
    """All that it asks on top, on a model with a free axis; a healthy model of another kind is among the mutants."""
    for model in validate(bench_of_zoo.repository, models=["lookup"], level="full").models:
        statuses = {check.name: check.status for check in model.checks}
        assert {statuses[name] for name in THOROUGH} == {"pass"}, model


@pytest.mark.parametrize("name", ZOO)
def test_a_model_as_recorded_is_no_false_alarm(name: str, reports) -> None:
    """Nothing fails; a warning only where a size beyond the tuned range is accepted."""
    bad = [check for check in reports[name].checks if check.status not in ("pass", "skip", "warn")]
    assert not bad, bad
    warned = {check.name for check in reports[name].checks if check.status == "warn"}
    assert warned <= {"bounds"}, [check for check in reports[name].checks if check.status == "warn"]


@pytest.mark.parametrize("name", sorted(set(ZOO) - {"foreign", "by_hand"}))
def test_its_weights_are_proved(name: str, reports) -> None:
    """Claimed and proved are the same fingerprint."""
    assert reports[name].proved == reports[name].claimed != ""


@pytest.fixture(scope="module")
def server(bench_of_zoo) -> Iterator[LocalServer]:
    """One server for all measurements."""
    with LocalServer(bench_of_zoo.repository) as server:
        yield server


@pytest.mark.parametrize("name", ["scalars", "rank_one", "half", "words", "lookup", "unbatched_free", "foreign"])
def test_perf_analyzer_takes_the_data_of_every_kind(name: str, bench_of_zoo, server) -> None:
    """Shapes and values fit: scalars, columns, half precision, strings, indices, no batch."""
    report = perf(
        bench_of_zoo.repository,
        model=name,
        url=f"grpc://{server.grpc}",
        shapes=SHAPES[:2],
        flags=("--request-count", "20"),
    )
    assert [point.label for point in report.points] == ["smallest", "typical"]
    assert all(point.inferences >= 20 and point.throughput_per_s > 0 for point in report.points)
