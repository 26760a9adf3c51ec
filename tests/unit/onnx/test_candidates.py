"""The ways of running an ONNX file, and how a worker is spoken to."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from aitune.errors import SourceError, UnavailableError, UsageError
from aitune.numerics import Array
from aitune.onnx import isolation
from aitune.onnx.candidates import OnnxCandidate, candidates, discard_losers
from aitune.onnx.frames import read_frame, write_frame
from aitune.onnx.recipes import main, make
from aitune.onnx.runtime import SETTING_KEYS
from aitune.onnx.session import OnnxRunner
from aitune.onnx.worker import serve
from aitune.records import DType

Write = Callable[..., Path]
X = {"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)}


@pytest.fixture
def network(build: Write) -> Path:
    """Two matrix products, a softmax and two normalisations: large enough to be quantised."""
    generator = np.random.default_rng(0)
    weights = {name: generator.normal(size=(8, 8)).astype(np.float32) for name in ("w1", "w2")}
    ones = {name: np.ones(8, np.float32) for name in ("s1", "s2")}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "s1"], ["b"]),
        helper.make_node("Softmax", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "w2"], ["d"]),
        helper.make_node("LayerNormalization", ["d", "s2"], ["y"]),
    ]
    ports = [("x", TensorProto.FLOAT, ("N", 8))], [("y", TensorProto.FLOAT, ("N", 8))]
    stored = [onnx.numpy_helper.from_array(array, name) for name, array in {**weights, **ones}.items()]
    return build(nodes, *ports, stored)


@pytest.mark.parametrize(
    ("cores", "names"),
    [
        (1, ["default", "graph-extended", "no-arena"]),
        (2, ["default", "one-thread", "graph-extended", "no-arena"]),
        (8, ["default", "one-thread", "threads-4", "graph-extended", "no-arena"]),
    ],
)
def test_candidates_start_with_the_plain_default(relu: Write, cores: int, names: list[str]) -> None:
    """Few candidates, no two alike, each with settings that Triton can carry, and every one opens."""
    path = relu()
    found = candidates(path, cores=cores)
    assert [candidate.name for candidate in found] == names
    assert found[0] == OnnxCandidate(name="default", path=path)
    assert found[0].model_file is None
    assert all(set(candidate.settings) <= set(SETTING_KEYS) for candidate in found)
    for candidate in found:
        assert candidate.open().run({"x": np.ones((1, 4), np.float32)})["y"].shape == (1, 4)


def test_numbers_never_change_unless_that_is_allowed(network: Path) -> None:
    """Fewer bits only on demand, static quantisation only with samples; fusions change no number."""
    assert {one.precision for one in candidates(network, cores=2)} == {"fp32"}
    assert [one.name for one in candidates(network, cores=2)][-2:] == ["parallel", "fused"]
    names = [one.name for one in candidates(network, cores=2, precision=["fp32", "fp16", "int8"])]
    assert names[-3:] == ["fused", "fp16", "int8-dynamic"]
    sampled = {one.name: one.recipe for one in candidates(network, cores=2, precision=["int8"], samples=[X])}
    assert list(sampled)[-3:] == ["int8-dynamic", "int8-mixed", "int8-static"]
    assert all(sampled[name].calibration.exists() for name in ("int8-mixed", "int8-static"))  # type: ignore[union-attr]
    made_up = candidates(network, cores=2, precision=["int8"], made_up=[X])
    assert [one.name for one in made_up][-2:] == ["int8-dynamic", "int8-mixed"]


def test_a_model_with_external_data_is_tuned_by_its_settings_only(external: Write) -> None:
    """Its other files would have to be copied as often as there are candidates."""
    assert all(one.model_file is None for one in candidates(external(), precision=["int8"]))


@pytest.mark.parametrize("kind", ["fp16", "int8-dynamic", "int8-static"])
def test_a_file_in_fewer_bits_keeps_the_contract_and_nearly_the_numbers(network: Path, kind: str) -> None:
    """Names, types and dims are those of the source."""
    samples = [{"x": X["x"] * factor} for factor in (0.2, 0.5, 1.0)]
    calibration = candidates(network, precision=["int8"], samples=samples)[-1].recipe.calibration  # type: ignore[union-attr]
    target = network.parent / f"{kind}.onnx"
    make(kind, network, target, calibration)
    wanted, found = OnnxRunner(network).run(X)["y"], OnnxRunner(target).run(X)["y"]
    assert found.dtype == np.float32
    assert 0 < np.abs(found - wanted).max() < 0.4
    assert target.read_bytes() != network.read_bytes()


def test_static_quantisation_goes_without_a_scale_a_channel_where_the_tool_cannot(build: Write, tmp_path: Path) -> None:
    """A bias with two axes, as in magika: ONNX Runtime's tool raises over it; one scale a matrix is made instead."""
    generator = np.random.default_rng(0)
    stored = {"w": generator.normal(size=(8, 8)).astype(np.float32), "b": np.ones((1, 8), np.float32)}
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="product")]
    ports = [("x", TensorProto.FLOAT, ("N", 8))], [("y", TensorProto.FLOAT, ("N", 8))]
    source = build(nodes, *ports, [onnx.numpy_helper.from_array(array, name) for name, array in stored.items()])
    calibration = tmp_path / "calibration.npz"
    np.savez(calibration, **{"x#0": X["x"]})
    make("int8-static", source, tmp_path / "made.onnx", calibration)
    scales = [one for one in onnx.load(tmp_path / "made.onnx").graph.initializer if one.name == "w_scale"]
    assert [list(one.dims) for one in scales] == [[]]
    wanted, found = OnnxRunner(source).run(X)["y"], OnnxRunner(tmp_path / "made.onnx").run(X)["y"]
    assert 0 < np.abs(found - wanted).max() < 0.1


def test_what_cannot_be_made_says_why(network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and nothing is left behind."""
    target = tmp_path / "made.onnx"
    with pytest.raises(SourceError, match="no transformer block of a form"):
        make("fused", network, target)
    with pytest.raises(SourceError, match="static quantisation needs samples"):
        make("int8-static", network, target)
    assert main(["fused", str(network), str(target)]) == 2
    assert capsys.readouterr().out.startswith("the graph has no transformer block")
    assert main(["fp16", str(network), str(target)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"model.onnx", "made.onnx"}


def test_a_tool_that_changes_the_contract_is_found_out(
    network: Path, relu: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another shape is another model."""
    other = relu(("N", 9), name="other.onnx")
    monkeypatch.setitem(
        make.__globals__["KINDS"], "fused", lambda source, target, _: target.write_bytes(other.read_bytes())
    )
    with pytest.raises(SourceError, match="the contract changes: input 'x' is not the same"):
        make("fused", network, tmp_path / "made.onnx")


def test_losers_leave_no_file(network: Path) -> None:
    """Only the winner's stays."""
    folder = network.parent / "candidates"
    folder.mkdir()
    for name in ("int8-dynamic.onnx", "fused.onnx", "calibration.npz"):
        (folder / name).write_bytes(b"x")
    discard_losers(network, folder / "fused.onnx")
    assert [path.name for path in folder.iterdir()] == ["fused.onnx"]


def test_what_is_not_known_is_refused(relu: Write) -> None:
    """Precisions and devices have names, and a device must be there."""
    with pytest.raises(UsageError, match="precision 'int4' is not known"):
        candidates(relu(), precision=["int4"])
    with pytest.raises(UsageError, match="device 'tpu' is not known"):
        candidates(relu(), device="tpu")
    with pytest.raises(UnavailableError, match="device 'cuda' was asked for"):
        candidates(relu(), device="cuda")[0].open()
    with pytest.raises(UsageError, match="is not an ONNX file"):
        isolation.launch(type("Other", (), {"name": "plan"})())


@pytest.mark.parametrize(
    ("dtype", "array"),
    [
        (DType.FLOAT32, np.arange(6, dtype=np.float32).reshape(2, 3)),
        (DType.BFLOAT16, np.arange(4, dtype=np.uint16)),
        (DType.STRING, np.array([[b"a", b"\n{}"], [b"", b"\xc3\xa9"]], object)),
        (DType.BOOL, np.array(True)),
        (DType.INT64, np.zeros((0, 4), np.int64)),
    ],
)
def test_a_message_arrives_as_it_was_sent(dtype: DType, array: Array) -> None:
    """Every element type, scalars and empty tensors, and two messages stay two."""
    stream = io.BytesIO()
    write_frame(stream, {"do": "run"}, {"t": (array, dtype)})
    write_frame(stream, {"do": "stop"})
    stream.seek(0)
    first, second = read_frame(stream), read_frame(stream)
    assert first is not None
    assert second is not None
    assert (first.head, second.head, second.tensors) == ({"do": "run"}, {"do": "stop"}, {})
    assert first.tensors["t"].dtype == array.dtype
    assert np.array_equal(first.tensors["t"], array)
    assert read_frame(stream) is None


def test_a_message_that_is_none_or_cut_off() -> None:
    """Talk on the wrong stream is refused, the end in the middle is the end."""
    with pytest.raises(SourceError, match="no message: b'loading"):
        read_frame(io.BytesIO(b"loading...\n"))
    stream = io.BytesIO()
    write_frame(stream, {}, {"t": (np.ones(4, np.float32), DType.FLOAT32)})
    assert read_frame(io.BytesIO(stream.getvalue()[:-1])) is None


def answers(*asked: tuple[dict[str, Any], dict[str, Any]]) -> list[Any]:
    """What a worker says to messages."""
    requests, replies = io.BytesIO(), io.BytesIO()
    for head, tensors in asked:
        write_frame(requests, head, tensors)
    requests.seek(0)
    serve(requests, replies)
    replies.seek(0)
    return [read_frame(replies) for _ in asked]


def test_a_worker_opens_runs_and_times(network: Path) -> None:
    """In the order of the messages; times are those of the runs alone."""
    tensors = {"x": (X["x"], DType.FLOAT32)}
    opening = {"do": "open", "path": str(network), "settings": {}, "device": "cpu"}
    opened, ran, held, timed = answers(
        (opening, {}),
        ({"do": "run"}, tensors),
        ({"do": "hold", "key": "1"}, tensors),
        ({"do": "time", "key": "1", "count": 3}, {}),
    )
    assert opened.head == {"inputs": {"x": "float32"}}
    assert np.array_equal(ran.tensors["y"], OnnxRunner(network).run(X)["y"])
    assert held.head == {}
    assert len(timed.head["seconds"]) == 3
    assert all(0 < seconds < 5 for seconds in timed.head["seconds"])


def test_a_worker_tells_what_it_cannot_do(tmp_path: Path) -> None:
    """As a line, and it goes on."""
    opening = {"do": "open", "path": str(tmp_path / "none.onnx"), "settings": {}, "device": "cpu"}
    refused, early = answers((opening, {}), ({"do": "run"}, {}))
    assert "none.onnx" in refused.head["error"]
    assert early.head["error"] == "no model is open in this worker"
