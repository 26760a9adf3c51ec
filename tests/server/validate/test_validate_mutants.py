"""Models that went wrong on the way to the server, each caught by the check that is there for it."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from aitune.records import DType
from aitune.triton.validation import validate
from aitune.triton.validation_records import ModelReport

pytestmark = pytest.mark.server
MUTANTS: dict[str, tuple[Callable, str, str]] = {}


def mutant(check: str, detail: str) -> Callable:
    """Register a way to go wrong, with the check that must say so and what it must say."""

    def register(make: Callable) -> Callable:
        MUTANTS[make.__name__] = (make, check, detail)
        return make

    return register


def edit(folder: Path, pattern: str, text: str) -> None:
    """Change the config of a version's model."""
    config = folder.parent / "config.pbtxt"
    before = config.read_text()
    after = re.sub(pattern, text, before)
    assert after != before
    config.write_text(after)


@mutant("fingerprint", "other weights answer")
def other_weights(bench, name):
    """The model file was replaced; nothing else tells, for no samples are kept."""
    folder = bench.publish(bench.linear(samples=False), name)
    shutil.copy(bench.linear(1).path, folder / "model.onnx")


@mutant("fingerprint", r"but version 1 \(\w{12}\) answers")
def stale_version(bench, name):
    """Version 2 was announced, and version 1 answers."""
    first = bench.publish(bench.linear(0), name)
    second = bench.publish(bench.linear(1), name)
    shutil.copy(first / "model.onnx", second / "model.onnx")


@mutant("numbers", "largest over grpc: output 'y': nan at")
def nan_at_the_largest_batch(bench, name):
    """The square root of a negative number, at batch 8 only."""
    folder = bench.publish(bench.linear(), name)
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "zero"], ["rows"]),
        helper.make_node("Cast", ["rows"], ["count"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["seven", "count"], ["left"]),
        helper.make_node("Sqrt", ["left"], ["root"]),
        helper.make_node("Mul", ["root", "nothing"], ["offset"]),
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("Add", ["xw", "offset"], ["y"]),
    ]
    constants = {"zero": np.array(0), "seven": np.float32(7), "nothing": np.float32(0)}
    constants = {key: np.asarray(value) for key, value in constants.items()}
    bench.tools.graph(folder / "model.onnx", nodes, [bench.x], [bench.y], {**bench.tools.weights(), **constants})


@mutant("numbers", "smallest over grpc: output 'y'")
def wrong_scale(bench, name):
    """Everything is one percent too large; there is no probe to tell."""
    artifact = bench.linear()
    folder = bench.publish(bench.without_probe(artifact), name)
    scaled = {"w": bench.tools.weights()["w"] * np.float32(1.01)}
    bench.tools.graph(folder / "model.onnx", bench.tools.LINEAR, [bench.x], [bench.y], scaled)


@mutant("rows", "a batch of 3 is not answered as its rows are alone: output 'y'")
def coupled_rows(bench, name):
    """Every answer depends on who else is in the batch; shapes are perfect."""
    nodes = [
        helper.make_node("ReduceSum", ["x", "axis"], ["total"], keepdims=1),
        helper.make_node("Div", ["x", "total"], ["y"]),
    ]
    x, y = bench.x, bench.tools.tuned("y", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4))
    path = bench.tools.graph(bench.folder / name / "model.onnx", nodes, [x], [y], {"axis": np.array([0])})
    bench.publish(bench.record(path, [x], [y]), name)


@mutant("rows", "rows|refused")
def doubled_rows(bench, name):
    """Two rows come out for each that goes in, so clients get rows of others."""
    nodes = [helper.make_node("Reshape", ["x", "pairs"], ["y"])]
    x, y = bench.x, bench.tools.tuned("y", DType.FLOAT32, ("batch", 2), (1, 2), (8, 2))
    path = bench.tools.graph(bench.folder / name / "model.onnx", nodes, [x], [y], {"pairs": np.array([-1, 2])})
    bench.publish(bench.without_probe(bench.record(path, [x], [y], samples=False)), name)


@mutant("concurrency", "a client got an answer that is not its own: output 'y'")
def swapped_answers(bench, name):
    """Requests that are answered together get each other's answers; alone, everybody gets the right one."""
    folder = bench.publish(bench.linear(), name)
    edit(folder, 'backend: "onnxruntime"', 'backend: "python"')
    edit(folder, 'default_model_filename: "model.onnx"', 'default_model_filename: "model.py"')
    np.save(folder / "w.npy", bench.tools.weights()["w"])
    (folder / "model.py").write_text(
        textwrap.dedent("""
        import os, numpy as np, triton_python_backend_utils as pb
        class TritonPythonModel:
            def initialize(self, args):
                self.w = np.load(os.path.join(args["model_repository"], args["model_version"], "w.npy"))
            def execute(self, requests):
                xs = [pb.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
                ys = [x @ self.w for x in xs]
                sizes = {len(y) for y in ys}
                if len(ys) > 1:
                    ys = [ys[(i + 1) % len(ys)][:1].repeat(len(x), 0) for i, x in enumerate(xs)]
                return [pb.InferenceResponse([pb.Tensor("y", y)]) for y in ys]
        """)
    )


@mutant("metadata", "output 'y': dtype float32 published, float64 served")
def changed_type(bench, name):
    """File and config agree with each other, on another type than the record's."""
    folder = bench.publish(bench.linear(samples=False), name)
    nodes = [*bench.tools.linear_to("z"), helper.make_node("Cast", ["z"], ["y"], to=TensorProto.DOUBLE)]
    y = bench.tools.tuned("y", DType.FLOAT64, ("batch", 3), (1, 3), (8, 3))
    bench.tools.graph(folder / "model.onnx", nodes, [bench.x], [y], bench.tools.weights())
    edit(folder, r'(name: "y"\s+data_type: )TYPE_FP32', r"\1TYPE_FP64")


@mutant("metadata", r"output 'y': shape \('batch', 3\) published, \('batch', 4\) served|is fixed to")
def one_column_more(bench, name):
    """File and config agree with each other, on another size than the record's."""
    folder = bench.publish(bench.linear(samples=False), name)
    y = bench.tools.tuned("y", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4))
    wide = {"w": np.ones((4, 4), np.float32)}
    bench.tools.graph(folder / "model.onnx", bench.tools.LINEAR, [bench.x], [y], wide)
    edit(folder, r'(name: "y"\s+data_type: TYPE_FP32\s+dims: )\[ ?3 ?\]', r"\1[4]")


@mutant("metadata", "max_batch_size 16 is served, 8 was tuned")
def larger_batch(bench, name):
    """Nobody tuned or proved batches of sixteen."""
    edit(bench.publish(bench.linear(), name), "max_batch_size: 8", "max_batch_size: 16")


@mutant("record", "the served config carries no record")
def lost_record(bench, name):
    """Somebody cleaned the parameters of the config."""
    folder = bench.publish(bench.linear(), name)
    edit(folder, r"aitune\.record\.1", "renamed")


@mutant("ready", "version 1 is not on the server|unexpected|dimensions|TYPE_|not")
def does_not_load(bench, name):
    """The file is cut short."""
    folder = bench.publish(bench.linear(), name)
    data = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(data[: len(data) // 2])


@mutant("numbers", "is not the recorded one")
def tampered_samples(bench, name):
    """One byte of the sample file changed."""
    folder = bench.publish(bench.linear(), name)
    path = folder / "aitune_samples.bin"
    path.write_bytes(b"\x01" + path.read_bytes()[1:])


@mutant("bounds", "the server stopped answering|does not answer a valid one|answered differently")
def dies_beyond_the_bounds(bench, name):
    """A length that nobody tuned takes the model down."""
    x, y = bench.free_axis()
    path = bench.tools.graph(bench.folder / name / "model.onnx", bench.tools.REDUCE, [x], [y], {"axis": np.array([1])})
    folder = bench.publish(bench.record(path, [x], [y], {"x": (1, 4)}), name)
    edit(folder, 'backend: "onnxruntime"', 'backend: "python"')
    edit(folder, 'default_model_filename: "model.onnx"', 'default_model_filename: "model.py"')
    (folder / "model.py").write_text(
        textwrap.dedent("""
        import os, triton_python_backend_utils as pb
        class TritonPythonModel:
            def initialize(self, args):
                self.hurt = False
            def execute(self, requests):
                xs = [pb.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
                self.hurt = self.hurt or any(x.shape[1] > 8 for x in xs)
                return [
                    pb.InferenceResponse([pb.Tensor("y", x.sum(1, keepdims=True) + 100 * self.hurt)]) for x in xs
                ]
        """)
    )


@pytest.fixture(scope="module")
def reports(make_bench, tmp_path_factory) -> dict[str, ModelReport]:
    """All mutants, and one model that is well, behind one server."""
    bench = make_bench(tmp_path_factory.mktemp("mutants"))
    bench.publish(bench.linear(), "well")
    for name, (make, _, _) in MUTANTS.items():
        make(bench, name)
    return {f"{model.name}/{model.version}": model for model in validate(bench.repository).models}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught_by_its_check(name: str, reports) -> None:
    """The check that is there for a fault finds it, and says what it is."""
    _, check, detail = MUTANTS[name]
    report = reports[f"{name}/{2 if name == 'stale_version' else 1}"]
    found = {result.name: result for result in report.checks}
    assert report.status == "fail", report
    assert found[check].status == "fail", found
    assert re.search(detail, found[check].detail), found[check].detail


def test_a_model_that_is_well_passes_beside_them(reports) -> None:
    """The faults of neighbours are not its own."""
    report = reports["well/1"]
    assert report.status == "pass", [check for check in report.checks if check.status != "pass"]
    assert report.proved == report.claimed != ""


@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("other_weights", {"fingerprint"}),
        ("nan_at_the_largest_batch", {"numbers", "concurrency"}),  # which merges up to that batch
        ("wrong_scale", {"numbers"}),
        ("coupled_rows", {"rows", "concurrency"}),
        ("swapped_answers", {"concurrency"}),
        ("tampered_samples", {"numbers"}),
    ],
)
def test_nothing_else_would_have_caught_it(name: str, only: set[str], reports) -> None:
    """Each check has a fault that the others do not see: none of them is there for nothing."""
    report = reports[f"{name}/1"]
    assert {check.name for check in report.checks if check.status == "fail"} <= only
