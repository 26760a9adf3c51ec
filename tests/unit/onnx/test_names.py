"""Renaming values of ONNX files and repairing shared names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aitune.errors import SourceError, UsageError
from aitune.onnx import names as names_module
from aitune.onnx.names import rename_values, repair_duplicates
from aitune.onnx.reading import describe
from aitune.onnx.session import OnnxRunner

Write = Callable[..., Path]
FLOAT = TensorProto.FLOAT
TWO = numpy_helper.from_array(np.array([2.0], np.float32), "two")


def _run(path: Path, **inputs: list[float]) -> dict[str, Any]:
    found = OnnxRunner(path).run({name: np.array(value, np.float32) for name, value in inputs.items()})
    return {name: array.tolist() for name, array in found.items()}


def _chain(build: Write) -> Path:
    """``y = relu(x * two)``, ``z = y + two``; ``h`` is internal."""
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
        helper.make_node("Add", ["y", "two"], ["z"]),
    ]
    return build(nodes, [("x", FLOAT, ["N"])], [("y", FLOAT, ["N"]), ("z", FLOAT, ["N"])], [TWO])


def test_inputs_and_outputs_are_renamed_wherever_they_are_used(build: Write) -> None:
    """An output that other nodes read keeps feeding them under its new name."""
    path = _chain(build)
    path.chmod(0o640)
    rename_values(path, {"x": "input", "y": "middle"})
    assert _run(path, input=[1.0, -1.0]) == {"middle": [2.0, 0.0], "z": [4.0, 2.0]}
    assert path.stat().st_mode & 0o777 == 0o640
    assert [item.name for item in path.parent.iterdir()] == ["model.onnx"]


def test_two_names_can_be_exchanged(build: Write) -> None:
    """All renames happen at once."""
    path = _chain(build)
    rename_values(path, {"y": "z", "z": "y"})
    assert _run(path, x=[1.0]) == {"z": [2.0], "y": [4.0]}


def test_an_internal_value_gives_way_to_a_new_name(build: Write) -> None:
    """A chosen name that an internal value or a weight already has is free all the same."""
    path = _chain(build)
    rename_values(path, {"y": "h", "z": "two"})
    assert _run(path, x=[1.0]) == {"h": [2.0], "two": [4.0]}


def test_references_from_subgraphs_follow(build: Write) -> None:
    """A branch that reads an outer value reads it under the new name, and its own values step aside."""
    then = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["t"])], "then", [], [helper.make_tensor_value_info("t", FLOAT, ["N"])]
    )
    other = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["e"])], "else", [], [helper.make_tensor_value_info("e", FLOAT, ["N"])]
    )
    node = helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other)
    path = build([node], [("flag", TensorProto.BOOL, []), ("x", FLOAT, ["N"])], [("y", FLOAT, ["N"])])
    rename_values(path, {"x": "t", "y": "e"})
    found = OnnxRunner(path).run({"flag": np.array(True), "t": np.array([-1.0], np.float32)})
    assert found["e"].tolist() == [-2.0]


def test_notes_about_quantisation_follow() -> None:
    """An annotation that names a tensor names it by its new name."""
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], [])
    note = graph.quantization_annotation.add(tensor_name="x")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="y")
    names_module._substitute(graph, {"x": "a", "y": "b"})
    assert (note.tensor_name, note.quant_parameter_tensor_names[0].value) == ("a", "b")


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"h": "other"}, "'h' is no input or output of"),
        ({"x": "y"}, "two inputs or outputs of .* would be called 'y'"),
        ({"x": "a", "y": "a"}, "would be called 'a'"),
        ({"x": " "}, "the new name of 'x' is blank"),
    ],
)
def test_a_rename_that_cannot_be_is_refused(build: Write, mapping: dict[str, str], message: str) -> None:
    """An unknown name, a clash and a blank leave the file as it was."""
    path = _chain(build)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=message):
        rename_values(path, mapping)
    assert path.read_bytes() == before


def test_weights_in_another_file_are_not_touched(external: Write) -> None:
    """Renaming neither reads nor moves external data: it works while the data is elsewhere."""
    path = external(data=None)
    rename_values(path, {"x": "input"})
    (path.parent / "w.bin").write_bytes(np.ones(4, np.float32).tobytes())
    assert describe(path).companions == ("w.bin",)
    assert _run(path, input=[[1.0, 2.0, 3.0, 4.0]]) == {"y": [[2.0, 3.0, 4.0, 5.0]]}


def _collision(build: Write, **model: Any) -> Path:
    """What the PyTorch exporter makes of an output called ``embedding`` when a lookup is called so too."""
    table = numpy_helper.from_array(np.array([[1.0], [5.0]], np.float32), "table")
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["embedding"]),
        helper.make_node("Mul", ["embedding", "two"], ["scaled"]),
        helper.make_node("Add", ["scaled", "embedding"], ["embedding"]),
    ]
    ids, out = ("ids", TensorProto.INT64, ["N"]), ("embedding", FLOAT, ["N", 1])
    return build(nodes, [ids], [out], [table, TWO], **model)


def test_an_output_that_shares_its_name_with_an_internal_value_is_repaired(build: Write) -> None:
    """B15: the file would not load; after the repair it does, and the output has the name the user chose."""
    path = _collision(build)
    with pytest.raises(SourceError, match="defines the name 'embedding' twice"):
        describe(path)
    assert repair_duplicates(path) == {"embedding": "embedding_1"}
    found = OnnxRunner(path).run({"ids": np.array([0, 1], np.int64)})
    assert found["embedding"].tolist() == [[3.0], [15.0]]
    assert repair_duplicates(path) == {}


def test_a_repair_is_atomic(build: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails leaves the old file and nothing else."""
    path = _collision(build)
    before = path.read_bytes()

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aitune.records.fingerprints.os.replace", fail)
    with pytest.raises(OSError, match="No space left"):
        repair_duplicates(path)
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == ["model.onnx"]


def test_the_hint_about_a_shape_goes_with_its_value(build: Write) -> None:
    """The declared shape of the internal value stays with it, so that it does not contradict the output's."""
    path = _collision(build)
    model = onnx.load(path)
    model.graph.value_info.append(helper.make_tensor_value_info("embedding", FLOAT, ["N", 1]))
    path.write_bytes(model.SerializeToString())
    repair_duplicates(path)
    assert [value.name for value in onnx.load(path).graph.value_info] == ["embedding_1"]
    model.graph.value_info.append(helper.make_tensor_value_info("embedding", FLOAT, ["M"]))
    path.write_bytes(model.SerializeToString())
    repair_duplicates(path)
    assert not onnx.load(path).graph.value_info


def test_an_output_defined_first_is_told_by_nobody_using_it(build: Write) -> None:
    """Of two definitions the one that is read is internal; the other can only be the output."""
    nodes = [
        helper.make_node("Add", ["x", "two"], ["y"]),
        helper.make_node("Mul", ["x", "two"], ["y"]),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    path = build(nodes, [("x", FLOAT, ["N"])], [("y", FLOAT, ["N"]), ("z", FLOAT, ["N"])], [TWO])
    assert repair_duplicates(path) == {"y": "y_1"}
    assert _run(path, x=[3.0]) == {"y": [5.0], "z": [6.0]}


def test_a_weight_and_a_value_in_a_branch_are_repaired_too(build: Write) -> None:
    """A weight with the output's name is renamed, and a branch that reads it follows; a branch's own value stays."""
    uses = helper.make_graph(
        [helper.make_node("Add", ["x", "y"], ["t"])], "then", [], [helper.make_tensor_value_info("t", FLOAT, ["N"])]
    )
    owns = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "else", [], [helper.make_tensor_value_info("y", FLOAT, ["N"])]
    )
    passes = helper.make_graph([], "pass", [], [helper.make_tensor_value_info("y", FLOAT, ["N"])])
    weight = numpy_helper.from_array(np.array([7.0], np.float32), "y")
    nodes = [
        helper.make_node("If", ["flag"], ["a"], then_branch=uses, else_branch=owns),
        helper.make_node("If", ["flag"], ["b"], then_branch=passes, else_branch=passes),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    path = build(nodes, [("flag", TensorProto.BOOL, []), ("x", FLOAT, ["N"])], [("y", FLOAT, ["N"])], [weight])
    assert repair_duplicates(path) == {"y": "y_1"}
    graph = onnx.load(path).graph
    then, other = (attribute.g for attribute in sorted(graph.node[0].attribute, key=lambda item: item.name)[::-1])
    assert list(then.node[0].input) == ["x", "y_1"]
    assert (list(other.node[0].output), other.output[0].name) == (["y"], "y")
    assert graph.node[1].attribute[0].g.output[0].name == "y_1"
    assert list(graph.node[2].output) == ["y"]


def test_internal_values_that_share_a_name_are_separated(build: Write) -> None:
    """Two internal values of one name become two, each read by those who meant it."""
    nodes = [
        helper.make_node("Add", ["x", "two"], ["h"]),
        helper.make_node("Relu", ["h"], ["a"]),
        helper.make_node("Mul", ["x", "two"], ["h"]),
        helper.make_node("Add", ["a", "h"], ["y"]),
    ]
    path = build(nodes, [("x", FLOAT, ["N"])], [("y", FLOAT, ["N"])], [TWO])
    assert repair_duplicates(path) == {"h": "h_1"}
    assert _run(path, x=[3.0]) == {"y": [11.0]}


def test_a_clash_that_cannot_be_decided_is_refused(build: Write) -> None:
    """An input with the name of an output, and a weight stored twice, have no right answer."""
    clash = build([helper.make_node("Relu", ["x"], ["x"])], [("x", FLOAT, ["N"])], [("x", FLOAT, ["N"])])
    with pytest.raises(SourceError, match="defines the name 'x' twice, and which is meant cannot be told"):
        repair_duplicates(clash)
    twice = build([helper.make_node("Add", ["x", "two"], ["y"])], [("x", FLOAT, [1])], [("y", FLOAT, [1])], [TWO, TWO])
    with pytest.raises(SourceError, match="defines the name 'two' twice"):
        repair_duplicates(twice)


def test_a_file_with_training_graphs_or_a_broken_message_is_refused(relu: Write) -> None:
    """What would be left inconsistent, and what onnx cannot decode, is not touched."""
    path = relu()
    model = onnx.load(path)
    model.training_info.add()
    path.write_bytes(model.SerializeToString())
    with pytest.raises(SourceError, match="holds training graphs"):
        rename_values(path, {"x": "a"})
    path.write_bytes(relu().read_bytes() + b"\x32\x04\x08\x80\x80")
    with pytest.raises(SourceError, match="is cut short"):
        rename_values(path, {"x": "a"})
    path.write_bytes(relu().read_bytes() + b"\x72\x02\x0a\x09")
    with pytest.raises(SourceError, match="cannot be decoded"):
        rename_values(path, {"x": "a"})
