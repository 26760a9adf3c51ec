"""Candidates in processes of their own: real workers, real crashes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import aitune.onnx
from aitune.errors import SourceError
from aitune.onnx.candidates import OnnxCandidate, candidates
from aitune.onnx.isolation import IsolatedRunner, launch

X = {"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32)}


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Two large matrix products with something between them."""
    generator = np.random.default_rng(0)
    stored = [
        onnx.numpy_helper.from_array((generator.normal(size=(32, 32)) / 6).astype(np.float32), name)
        for name in ("w1", "w2")
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w1"], ["a"]),
            helper.make_node("Tanh", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", "w2"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 32])],
        stored,
    )
    path = tmp_path / "source" / "net.onnx"
    path.parent.mkdir()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_worker_gives_the_same_answers_and_times_itself(network: Path) -> None:
    """As a session here does; several requests are held at once."""
    runner = launch(OnnxCandidate(name="default", path=network))
    assert isinstance(runner, IsolatedRunner)
    try:
        assert np.array_equal(runner.run(X)["y"], aitune.onnx.OnnxRunner(network).run(X)["y"])
        feeds = [{"x": np.ones((rows, 32), np.float32)} for rows in range(1, 11)]
        for feed in (*feeds, *feeds):
            assert len(runner.time_runs(feed, 2).seconds) == 2
        with pytest.raises(SourceError, match="lacks input 'x'"):
            runner.run({})
    finally:
        runner.close()
        runner.close()


def test_a_crash_is_one_line_and_the_next_run_has_a_new_process(network: Path) -> None:
    """Killed as the kernel does when memory runs out: told, and started again when it is asked again."""
    runner = IsolatedRunner(OnnxCandidate(name="default", path=network))
    try:
        assert runner._process is not None
        os.kill(runner._process.pid, signal.SIGKILL)
        with pytest.raises(SourceError, match="killed by SIGKILL, as happens when memory runs out"):
            runner.time_runs(X, 1)
        assert len(runner.time_runs(X, 3).seconds) == 3
    finally:
        runner.close()


def test_a_process_that_ends_or_hangs_is_told(network: Path) -> None:
    """With its last words, or with the time that was waited."""
    candidate = OnnxCandidate(name="default", path=network)
    words = "import sys; sys.stderr.write('terminate called\\n'); sys.exit(3)"
    with pytest.raises(SourceError, match="ended with status 3: terminate called"):
        IsolatedRunner(candidate, argv=[sys.executable, "-c", words])
    with pytest.raises(SourceError, match=r"did not answer within 0\.5 s"):
        IsolatedRunner(candidate, argv=[sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.5)


def test_a_file_of_its_own_is_made_once_or_says_why_not(network: Path) -> None:
    """By another process, with the reason in one line."""
    int8 = candidates(network, precision=["int8"])[-1]
    assert int8.model_file is not None
    int8.prepare()
    made = int8.model_file.stat().st_mtime_ns
    int8.prepare()
    assert int8.model_file.stat().st_mtime_ns == made
    broken = OnnxCandidate(
        name="fused", path=network.parent / "f.onnx", recipe=int8.recipe.__class__(kind="fused", source=network)
    )
    with pytest.raises(SourceError, match="no transformer block"):
        broken.prepare()


@pytest.mark.parametrize("kind", ["int8-dynamic", "int8-static"])
def test_old_opsets_and_axes_without_a_name_are_quantised_too(kind: str, tmp_path: Path) -> None:
    """Before opset 13 there is one scale for all channels; an axis may get a name by it, which changes nothing."""
    generator = np.random.default_rng(0)
    weights = onnx.numpy_helper.from_array((generator.normal(size=(8, 3, 3, 3)) / 5).astype(np.float32), "w")
    bias = onnx.numpy_helper.from_array(generator.normal(size=8).astype(np.float32), "b")
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("GlobalAveragePool", ["r"], ["p"]),
            helper.make_node("Flatten", ["p"], ["y"]),
        ],
        "old",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 8])],
        [weights, bias],
    )
    path = tmp_path / "old.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7), path)
    samples = [{"x": generator.normal(size=(4, 3, 8, 8)).astype(np.float32)} for _ in range(4)]
    made = {one.name: one for one in candidates(path, precision=["int8"], samples=samples)}[kind].open()
    exact = aitune.onnx.OnnxRunner(path).run(samples[0])["y"]
    assert np.allclose(made.run(samples[0])["y"], exact, atol=0.05)
    assert not np.array_equal(made.run(samples[0])["y"], exact)


@pytest.mark.parametrize("rows", ["N", 4])
def test_a_file_in_eight_bits_is_made_from_requests_that_the_model_answers(rows: str | int, tmp_path: Path) -> None:
    """Made up for a model that batches, and for one that does not; no sample is needed."""
    generator = np.random.default_rng(0)
    weights = {name: generator.normal(size=(16, 16)).astype(np.float32) for name in ("w0", "w1")}
    weights["large"] = np.array([5000.0] + [1.0] * 15, np.float32)
    weights["w1"][0] /= 5000.0
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w0"], ["a"]),
            helper.make_node("Mul", ["a", "large"], ["b"]),
            helper.make_node("MatMul", ["b", "w1"], ["y"]),
        ],
        "spread",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 16])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    path = tmp_path / "spread.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    made = aitune.onnx.tune(path, tune_seconds=30, precision=("fp32", "int8"), workspace=tmp_path / "w", cache=False)
    assert made.evidence is not None
    assert made.evidence.tuning is not None
    passed = {one.candidate: one.passed for one in made.evidence.tuning.accuracy}
    assert (passed["int8-dynamic"], passed["int8-mixed"]) == (False, True)


def test_a_tuning_in_processes_is_remembered(network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time nothing is measured, and the record is the same."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    samples = [{"x": np.random.default_rng(n).normal(size=(4, 32)).astype(np.float32)} for n in range(3)]

    def tuned(folder: str) -> object:
        made = aitune.onnx.tune(network, samples=samples, tune_seconds=4, precision=("fp32", "int8"), max_batch_size=8,
                                workspace=tmp_path / folder)  # fmt: skip
        made.verify()
        return made.evidence.tuning if made.evidence else None

    first = tuned("one")
    monkeypatch.setattr(
        "aitune.onnx.isolation.IsolatedRunner._start", lambda self: pytest.fail("it was measured again")
    )
    assert tuned("two") == first
    assert first is not None
