"""External data of ONNX files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from aitune.errors import SourceError
from aitune.onnx import runtime_view
from aitune.onnx.external import companions
from aitune.onnx.names import rename_values
from aitune.onnx.outline import read_outline
from aitune.onnx.reading import VIEWS, describe, read_interface
from aitune.onnx.wire import WireError, bytes_field

Write = Callable[..., Path]
FLOAT = TensorProto.FLOAT


def _tensor(location: str, name: str = "t") -> Any:
    tensor = TensorProto(name=name, data_type=FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def test_locations_are_found_wherever_a_tensor_can_stand(build: Write) -> None:
    """B19: initializers, sparse ones, attributes, lists, subgraphs, functions and training graphs are all searched."""
    inner = helper.make_graph([helper.make_node("Constant", [], ["c"], value=_tensor("sub/attr"))], "inner", [], [])
    inner.initializer.append(_tensor("sub/init"))
    branch = helper.make_node("If", ["x"], [], then_branch=inner)
    branch.attribute.add(name="many", type=11).graphs.append(
        helper.make_graph([helper.make_node("Constant", [], ["d"], value=_tensor("sub/deep"))], "deep", [], [])
    )
    node = helper.make_node("Constant", [], ["e"], value=_tensor("attr"))
    node.attribute.add(name="list", type=9).tensors.append(_tensor("list"))
    node.attribute.add(name="sparse", type=11).sparse_tensor.values.CopyFrom(_tensor("sparse attr"))
    path = build([branch, node], [("x", FLOAT, [1])], [], [_tensor("init", "w"), _tensor("init", "again")])
    model = onnx.load(str(path), load_external_data=False)
    sparse = model.graph.sparse_initializer.add()
    sparse.values.CopyFrom(_tensor("values", "s"))
    sparse.indices.CopyFrom(_tensor("indices"))
    function = model.functions.add(name="f", domain="d")
    function.node.append(helper.make_node("Constant", [], ["f"], value=_tensor("function")))
    default = function.attribute_proto.add(name="default", type=4)
    default.t.CopyFrom(_tensor("function default"))
    model.training_info.add().algorithm.initializer.append(_tensor("training"))
    path.write_bytes(model.SerializeToString())
    assert set(companions(path)) == {
        *("init", "attr", "list", "sparse attr", "values", "indices", "function", "function default", "training"),
        *("sub/attr", "sub/init", "sub/deep"),
    }
    assert "s" not in [port.name for port in read_interface(path, prefer=("declared",), external_data=False).inputs]


def test_graphs_nested_without_end_are_refused(build: Write) -> None:
    """A file made to exhaust the stack is refused like any other that is no model."""
    graph = helper.make_graph([], "leaf", [], [])
    for _ in range(30):
        graph = helper.make_graph([helper.make_node("If", ["x"], [], then_branch=graph)], "g", [], [])
    assert companions(build(graph.node, [], [])) == ()
    payload = b""
    for _ in range(120):
        payload = bytes_field(1, bytes_field(5, bytes_field(6, payload)))
    with pytest.raises(WireError, match="nested more than 100 deep"):
        read_outline(bytes_field(7, payload))


@pytest.mark.parametrize("view", VIEWS)
def test_a_model_with_its_data_beside_it_is_read_and_names_it(external: Write, view: str) -> None:
    """Companions come with the interface, relative and normalised."""
    path = external("./data/w.bin")
    assert read_interface(path, prefer=(view,)).companions == ("data/w.bin",)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("/etc/passwd", "is absolute"),
        ("../w.bin", "leaves the model's folder"),
        ("data/../../w.bin", "leaves the model's folder"),
        ("", "is empty"),
        ("a\0b", "has a zero byte"),
        ("model.onnx", "is the model file itself"),
    ],
)
def test_a_location_outside_the_folder_is_refused(external: Write, location: str, message: str) -> None:
    """B19: a file from elsewhere cannot make us read, copy or publish what does not belong to it."""
    path = external(location, data=None)
    for ask in (describe, companions):
        with pytest.raises(SourceError, match=f"{message}$"):
            ask(path)


def test_missing_data_says_which_file_and_which_tensor(external: Write) -> None:
    """B19: moving only the .onnx is the most common way to lose a model."""
    path = external(data=None)
    with pytest.raises(SourceError, match=r"external data 'w.bin' of .* does not exist \(initializer 'w' is in it\)"):
        describe(path)
    (path.parent / "renamed.bin").write_bytes(bytes(16))
    with pytest.raises(SourceError) as caught:
        describe(path)
    assert caught.value.hint == "put 'w.bin' beside the model under exactly this name"


def test_data_that_is_cut_short_says_by_how_much(external: Write) -> None:
    """B19: offset and length are held against the size of the file."""
    with pytest.raises(SourceError, match="is cut short: it has 12 bytes, and initializer 'w' ends at byte 16"):
        describe(external(data=bytes(12)))
    with pytest.raises(SourceError, match="it has 16 bytes, and initializer 'w' ends at byte 24"):
        describe(external(offset=8, length=16))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": "-4"}, "the offset '-4' of external initializer 'w'"),
        ({"offset": "zz"}, "the offset 'zz' .* is not a number >= 0"),
        ({"length": "12"}, r"has length 12, and FLOAT \[4\] needs 16"),
    ],
)
def test_an_unsound_range_is_refused(external: Write, entries: dict[str, str], message: str) -> None:
    """Numbers that contradict the tensor or are no numbers are refused before anything is read."""
    with pytest.raises(SourceError, match=message):
        describe(external(**entries))


def test_a_link_out_of_the_folder_is_refused_and_one_beside_the_real_model_is_not(
    external: Write, tmp_path: Path
) -> None:
    """A link may not lead data in from elsewhere; a download cache that links model and data alike may."""
    path = external()
    cache = tmp_path / "snapshot"
    cache.mkdir()
    (cache / "model.onnx").symlink_to(path)
    with pytest.raises(SourceError, match="does not exist"):
        describe(cache / "model.onnx")
    (cache / "w.bin").symlink_to(path.parent / "w.bin")
    assert describe(cache / "model.onnx").companions == ("w.bin",)
    (cache / "model.onnx").unlink()
    (cache / "model.onnx").write_bytes(path.read_bytes())
    with pytest.raises(SourceError, match="is a link that leaves the model's folder") as caught:
        describe(cache / "model.onnx")
    assert "cp -L" in caught.value.hint


def test_data_that_is_no_file_or_may_not_be_read_is_refused(external: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in the file's place, and a file without permission, are told apart."""
    path = external(data=None)
    (path.parent / "w.bin").mkdir()
    with pytest.raises(SourceError, match="is not a regular file"):
        describe(path)
    (path.parent / "w.bin").rmdir()
    (path.parent / "w.bin").write_bytes(bytes(16))
    monkeypatch.setattr("aitune.onnx.external.os.access", lambda *args: False)
    with pytest.raises(SourceError, match="cannot be read: permission denied"):
        describe(path)


def test_data_behind_a_file_cannot_be_read(external: Write) -> None:
    """A path that the system refuses is passed on with its reason."""
    path = external("data/w.bin", data=None)
    (path.parent / "data").write_bytes(b"a file")
    with pytest.raises(SourceError, match="cannot be read: not a directory"):
        describe(path)


def test_the_interface_is_read_without_the_data_when_asked(external: Write) -> None:
    """A checker can look at a model whose weights are elsewhere, and ONNX Runtime still says what the shapes are."""
    found = read_interface(external(data=None), external_data=False)
    assert (found.source, found.outputs[0].shape, found.companions) == ("onnxruntime", ("N", 4), ("w.bin",))


def test_small_external_tensors_still_shape_a_large_model(build: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Reshape whose target lies in another file gives the same shape when only the skeleton is loaded."""
    target = TensorProto(name="target", data_type=TensorProto.INT64, dims=[2], data_location=TensorProto.EXTERNAL)
    target.external_data.add(key="location", value="w.bin")
    target.external_data.add(key="offset", value="8")
    node = helper.make_node("Reshape", ["x", "target"], ["y"])
    path = build([node], [("x", FLOAT, ["N", 4])], [("y", FLOAT, None)], [target])
    (path.parent / "w.bin").write_bytes(bytes(8) + (2).to_bytes(8, "little") + (-1).to_bytes(8, "little", signed=True))
    monkeypatch.setattr(runtime_view, "WHOLE_BYTES", 0)
    assert describe(path).outputs[0].shape == (2, None)


def test_three_gigabytes_of_weights_are_described_and_renamed_without_reading_them(external: Write) -> None:
    """What protobuf could not hold never passes through it: the data stays a file beside the model."""
    elements = 3 << 28
    path = external(data=b"", dims=elements)
    with (path.parent / "w.bin").open("r+b") as file:
        file.truncate(4 * elements)  # a hole: no disk is used
    assert describe(path).outputs[0].shape == ("N", elements)
    rename_values(path, {"y": "sum"})
    found = describe(path)
    assert (found.outputs[0].name, found.companions) == ("sum", ("w.bin",))
    assert path.stat().st_size < 1000
