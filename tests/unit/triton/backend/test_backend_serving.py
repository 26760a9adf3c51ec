"""TritonPythonModel in a plain Python: loading, batching and errors."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal  # imported early: it starts a program when it is

PACKAGE = "aitune.triton.backends.onnxruntime"
FLOAT = {"data_type": "TYPE_FP32"}

Build = Callable[..., bytes]
Serve = Callable[..., Any]


def config(inputs: dict[str, list[int]], outputs: dict[str, list[int]], size: int = 8, **more: Any) -> dict[str, Any]:
    """A config as Triton hands it over."""
    return {
        "name": "m",
        "max_batch_size": size,
        "default_model_filename": "model.onnx",
        "input": [{"name": name, "dims": dims, **FLOAT} for name, dims in inputs.items()],
        "output": [{"name": name, "dims": dims, **FLOAT} for name, dims in outputs.items()],
        **more,
    }


@pytest.fixture
def serving(stub: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, imported with the stub in place."""
    monkeypatch.delitem(sys.modules, f"{PACKAGE}.serving", raising=False)
    return importlib.import_module(f"{PACKAGE}.serving")


@pytest.fixture
def serve(serving: ModuleType, tmp_path: Path) -> Serve:
    """An instance of a model."""

    def start(model: bytes, made: dict[str, Any]) -> Any:
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "model.onnx").write_bytes(model)
        instance = serving.TritonPythonModel()
        instance.initialize(
            {
                "model_config": json.dumps(made),
                "model_instance_kind": "CPU",
                "model_instance_device_id": "0",
                "model_instance_name": "m_0",
                "model_repository": str(tmp_path),
                "model_version": "1",
            }
        )
        return instance

    return start


def rows(*values: float, width: int = 2) -> np.ndarray[Any, Any]:
    """One row for each value."""
    return np.array([[value] * width for value in values], dtype=np.float32)


@pytest.fixture
def double(serve: Serve, build: Build) -> Any:
    """A model that doubles rows of any width."""
    model = build([("Add", ["x", "x"], ["y"])], {"x": ["n", "k"]}, {"y": ["n", "k"]})
    return serve(model, config({"x": [-1]}, {"y": [-1]}))


def test_requests_are_joined_into_one_run(double: Any, make_request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three requests of the same width, one run of four rows, and everybody's own rows back."""
    sizes, session = [], double._session
    runs = SimpleNamespace(
        run=lambda names, feeds, options: (sizes.append(len(feeds["x"])), session.run(names, feeds))[1]
    )
    monkeypatch.setattr(double, "_session", runs)
    answers = double.execute(
        [make_request({"x": rows(1)}), make_request({"x": rows(2, 3)}), make_request({"x": rows(4)})]
    )
    assert sizes == [4]
    assert [answer.arrays()["y"][:, 0].tolist() for answer in answers] == [[2], [4, 6], [8]]


def test_a_single_request_is_fed_without_a_copy(
    double: Any, make_request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very array that Triton gave."""
    fed: list[Any] = []
    runs = SimpleNamespace(run=lambda names, feeds, options: (fed.append(feeds["x"]), [feeds["x"]])[1])
    monkeypatch.setattr(double, "_session", runs)
    sent = rows(1)
    double.execute([make_request({"x": sent})])
    assert fed[0] is sent


def test_answers_are_views_of_the_batch(double: Any, make_request: Any) -> None:
    """No copies on the way out."""
    answers = double.execute([make_request({"x": rows(1)}), make_request({"x": rows(2)})])
    first, second = (answer.arrays()["y"] for answer in answers)
    assert first.base is not None
    assert first.base is second.base


def test_mixed_shapes_run_group_by_group(double: Any, make_request: Any) -> None:
    """Two widths in one batch are two runs, and answers keep the order of the requests."""
    sent = [rows(1), rows(2, width=3), rows(3), rows(4, width=3)]
    answers = double.execute([make_request({"x": array}) for array in sent])
    for array, answer in zip(sent, answers, strict=True):
        assert_array_equal(answer.arrays()["y"], array * 2)


def test_a_failed_batch_is_run_again_one_by_one(
    double: Any, make_request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the session raises for the batch."""

    def run(names: Any, feeds: Any, options: Any) -> Any:
        if (feeds["x"] < 0).any():
            raise RuntimeError("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : negative")
        return [feeds["x"]]

    monkeypatch.setattr(double, "_session", SimpleNamespace(run=run))
    answers = double.execute([make_request({"x": rows(value)}) for value in (1, -1, 3)])
    assert [answer.error for answer in answers] == [None, "onnx runtime error 2: negative", None]


def test_outputs_nobody_asked_for_are_not_fetched(serve: Serve, build: Build, make_request: Any) -> None:
    """Each request gets what it wants, in the config's order."""
    model = build(
        [("Add", ["x", "x"], ["a"]), ("Neg", ["x"], ["b"]), ("Abs", ["x"], ["c"])],
        {"x": ["n", 2]},
        {"a": ["n", 2], "b": ["n", 2], "c": ["n", 2]},
    )
    instance = serve(model, config({"x": [2]}, {"b": [2], "a": [2], "c": [2]}))
    answers = instance.execute(
        [make_request({"x": rows(1)}, asked=("a", "b")), make_request({"x": rows(2)}, asked=("b",))]
    )
    assert [list(answer.arrays()) for answer in answers] == [["b", "a"], ["b"]]


def test_a_config_without_outputs_gives_empty_answers(serve: Serve, build: Build, make_request: Any) -> None:
    """Strict mode lets such a config pass; no names must not mean all outputs."""
    model = build([("Add", ["x", "x"], ["y"])], {"x": ["n", 2]}, {"y": ["n", 2]})
    answers = serve(model, config({"x": [2]}, {})).execute([make_request({"x": rows(1)})])
    assert answers[0].arrays() == {}
    assert answers[0].error is None


def test_without_batching_each_request_runs_alone(serve: Serve, build: Build, make_request: Any) -> None:
    """max_batch_size 0: nothing is joined, whatever arrives together, and zero rows are fine."""
    model = build([("Add", ["x", "x"], ["y"])], {"x": ["n", 2]}, {"y": ["n", 2]})
    instance = serve(model, config({"x": [-1, 2]}, {"y": [-1, 2]}, size=0))
    answers = instance.execute([make_request({"x": rows(1)}), make_request({"x": np.zeros((0, 2), np.float32)})])
    assert [answer.arrays()["y"].shape for answer in answers] == [(1, 2), (0, 2)]


def test_a_decoupled_model_sends_its_answers(serve: Serve, build: Build, make_request: Any) -> None:
    """One response with the final flag, and nothing returned."""
    model = build([("Add", ["x", "x"], ["y"])], {"x": ["n", 2]}, {"y": ["n", 2]})
    made = config({"x": [2]}, {"y": [2]}, model_transaction_policy={"decoupled": True})
    request = make_request({"x": rows(1)})
    assert serve(model, made).execute([request]) is None
    assert_array_equal(request.sent[0].arrays()["y"], rows(2))


def test_sequences_carry_their_state(serve: Serve, build: Build, make_request: Any) -> None:
    """START takes what Triton sends, later requests what the last one left, and END forgets it."""
    model = build(
        [("Add", ["x", "s_in"], ["s_out"]), ("Identity", ["s_out"], ["y"])],
        {"x": ["n", 1], "s_in": ["n", 1]},
        {"y": ["n", 1], "s_out": ["n", 1]},
    )
    state = {"input_name": "s_in", "output_name": "s_out", "data_type": "TYPE_FP32", "dims": ["1"]}
    instance = serve(model, config({"x": [1]}, {"y": [1]}, sequence_batching={"state": [state]}))

    def step(sequence: int, flag: int) -> float:
        arrays = {"x": rows(1, width=1), "s_in": rows(0, width=1)}
        answer = instance.execute([make_request(arrays, sequence=sequence, flag=flag)])[0]
        assert list(answer.arrays()) == ["y"]
        return float(answer.arrays()["y"][0, 0])

    assert [step(1, 1), step(2, 1), step(1, 0), step(1, 2), step(2, 0)] == [1, 1, 2, 3, 2]
    assert step(1, 1) == 1


def test_a_refused_load_raises_what_the_stub_shows(serve: Serve, build: Build, stub: Any) -> None:
    """The message and no chain of our own exceptions."""
    model = build([("Add", ["x", "x"], ["y"])], {"x": ["n", 2]}, {"y": ["n", 2]})
    with pytest.raises(stub.TritonModelException, match="configuration expects 2 inputs, model provides 1"):
        serve(model, config({"x": [2], "q": [2]}, {"y": [2]}))


def test_completion_reads_the_model_only_when_something_is_missing(serving: ModuleType, stub: Any) -> None:
    """A complete config is left alone, even if there is no model; an incomplete one needs the file."""
    complete = config({"x": [2]}, {"y": [2]})
    completer = serving.TritonPythonModel.auto_complete_config
    assert completer(SimpleNamespace(as_dict=lambda: complete)).as_dict() is complete
    with pytest.raises(stub.TritonModelException, match=r"failed to stat file /nowhere/model\.onnx"):
        completer(SimpleNamespace(as_dict=lambda: config({}, {})))


def test_completion_fills_in_from_the_file(
    serving: ModuleType, stub: Any, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch size, scheduler, inputs and outputs."""
    model = build([("Add", ["x", "x"], ["y"])], {"x": ["n", 2]}, {"y": ["n", 2]})
    (tmp_path / "model.onnx").write_bytes(model)
    monkeypatch.setattr(stub, "get_model_dir", lambda: str(tmp_path))
    bare: dict[str, Any] = {"name": "m", "max_batch_size": 0, "input": [], "output": []}
    serving.TritonPythonModel.auto_complete_config(SimpleNamespace(as_dict=lambda: bare))
    assert bare["max_batch_size"] == 4
    assert bare["dynamic_batching"] == {}
    assert bare["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [2]}]


def test_the_entry_file_works_from_any_folder(stub: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded by path, as Triton does, without the rest of aitune, and the working directory is off the path."""
    path = Path(importlib.import_module(PACKAGE).__file__ or "").parent / "model.py"
    before = list(sys.modules)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    spec = importlib.util.spec_from_file_location("model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in set(sys.modules) - set(before):
        monkeypatch.delitem(sys.modules, name)
    assert module.TritonPythonModel.__module__ == "aitune_onnxruntime_backend.serving"
    assert "" not in sys.path


def test_finalize_lets_the_session_go(double: Any) -> None:
    """The instance cannot be used afterwards."""
    double.finalize()
    assert not hasattr(double, "_session")
