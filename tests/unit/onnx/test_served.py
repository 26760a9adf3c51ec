"""Files that somebody already serves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from aitune.errors import SourceError
from aitune.onnx.served import read_served

WEIGHTS = np.arange(12, dtype=np.float32).tobytes()


def write(folder: Path, location: str, *, used: bool = True, keys: Mapping[str, str] | None = None) -> Path:
    """A MatMul whose weights lie at a location."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 3], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **(keys or {})}.items():
        weights.external_data.add(key=key, value=value)
    node = helper.make_node("MatMul", ["x", "w"], ["y"]) if used else helper.make_node("Relu", ["x"], ["y"])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "g", inputs, outputs, [weights])
    path = folder / "1" / "model.onnx"
    path.parent.mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def test_a_sound_file_is_read_as_ever(tmp_path: Path) -> None:
    """Nothing is looser than it must be."""
    path = write(tmp_path, "w.bin")
    (path.parent / "w.bin").write_bytes(WEIGHTS)
    found = read_served(path)
    assert (found.companions, found.source, found.outputs[0].shape) == (("w.bin",), "onnxruntime", ("n", 3))


def test_data_outside_the_folder_is_named_not_refused(tmp_path: Path) -> None:
    """Older releases load it; whether the target does is the checker's business."""
    path = write(tmp_path, "../w.bin")
    (tmp_path / "w.bin").write_bytes(WEIGHTS)
    found = read_served(path)
    assert (found.companions, found.outputs[0].shape) == (("../w.bin",), ("n", 3))


def test_a_constant_node_may_keep_its_data_outside(tmp_path: Path) -> None:
    """Shape inference answers where ONNX Runtime does not even open the graph."""
    path = write(tmp_path, "../w.bin")
    (tmp_path / "w.bin").write_bytes(WEIGHTS)
    model = onnx.load(path, load_external_data=False)
    constant = helper.make_node("Constant", [], ["w"], value=model.graph.initializer[0])
    model.graph.node.insert(0, constant)
    del model.graph.initializer[:]
    path.write_bytes(model.SerializeToString())
    found = read_served(path)
    assert (found.source, found.companions, found.outputs[0].shape) == ("shape_inference", ("../w.bin",), ("n", 3))


def test_data_that_no_node_reads_may_be_missing(tmp_path: Path) -> None:
    """ONNX Runtime never opens it."""
    assert read_served(write(tmp_path, "gone.bin", used=False)).companions == ("gone.bin",)


def test_a_length_of_zero_means_the_rest(tmp_path: Path) -> None:
    """A publisher writes the length; ONNX Runtime takes what the shape needs."""
    path = write(tmp_path, "w.bin", keys={"offset": "0", "length": "0"})
    (path.parent / "w.bin").write_bytes(WEIGHTS)
    assert read_served(path).inputs[0].name == "x"


@pytest.mark.parametrize("location", ["w.bin", "../gone.bin"])
def test_missing_data_is_refused(tmp_path: Path, location: str) -> None:
    """The message is the publisher's, which says what to do."""
    with pytest.raises(SourceError, match=r"model\.onnx"):
        read_served(write(tmp_path, location))


def test_a_file_without_external_data_is_refused_as_ever(tmp_path: Path) -> None:
    """There is nothing to be lenient about."""
    (tmp_path / "m.onnx").write_bytes(b"garbage")
    with pytest.raises(SourceError, match=r"m\.onnx"):
        read_served(tmp_path / "m.onnx")
