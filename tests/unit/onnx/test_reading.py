"""Interfaces of ONNX files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aitune.onnx
from aitune.errors import MissingDependencyError, SourceError, UsageError
from aitune.onnx import runtime_view
from aitune.onnx.reading import VIEWS, describe, read_interface
from aitune.records import DType
from aitune.records.interface import Interface

Write = Callable[..., Path]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
WEIGHTS = helper.make_tensor("w", FLOAT, [4], [1.0, 2.0, 3.0, 4.0])


def _shapes(interface: Interface) -> list[tuple[str, object]]:
    return [(port.name, port.shape) for port in (*interface.inputs, *interface.outputs)]


@pytest.mark.parametrize("view", VIEWS)
def test_names_types_and_sizes_are_read_by_every_view(relu: Write, view: str) -> None:
    """Whoever reads a plain file, the interface is the same but for who says so."""
    path = relu(("batch", 3, 0), producer_name="maker", producer_version="1")
    found = read_interface(path, prefer=(view,))
    assert (found.source, found.format, found.ir_version) == (view, "onnx", 8)
    assert (found.producer, found.opset_imports, found.companions) == ("maker 1", (("", 17),), ())
    assert [(port.name, port.dtype, port.element_type) for port in found.inputs] == [("x", DType.FLOAT32, "FLOAT")]
    assert _shapes(found) == [("x", ("batch", 3, 0)), ("y", ("batch", 3, 0))]


def test_a_shape_that_the_file_claims_and_a_reshape_pins_is_the_pinned_one(build: Write) -> None:
    """B02: the file says ``["N", 4]``; what runs is ``[1, 4]``, and that is what is recorded."""
    target = helper.make_tensor("target", INT64, [2], [1, -1])
    node = helper.make_node("Reshape", ["x", "target"], ["y"])
    path = build([node], [("x", FLOAT, ["N", 4])], [("y", FLOAT, ["N", 4])], [target])
    assert _shapes(describe(path))[1] == ("y", (1, 4))
    assert _shapes(read_interface(path, prefer=("shape_inference",)))[1] == ("y", (1, 4))
    assert _shapes(read_interface(path, prefer=("declared",)))[1] == ("y", ("N", 4))


@pytest.mark.parametrize("view", ["onnxruntime", "shape_inference"])
def test_an_output_without_a_shape_gets_the_inferred_one(relu: Write, view: str) -> None:
    """A file need not declare what can be inferred; made-up symbols do not count as names."""
    found = read_interface(relu(("N", None, -1, 0), None), prefer=(view,))
    assert _shapes(found) == [("x", ("N", None, None, 0)), ("y", ("N", None, None, 0))]


@pytest.mark.parametrize("view", VIEWS)
def test_a_scalar_and_an_unknown_rank_are_told_apart(relu: Write, view: str) -> None:
    """B09: ``[]`` from ONNX Runtime is a scalar only where the rank is known."""
    assert _shapes(read_interface(relu(()), prefer=(view,))) == [("x", ()), ("y", ())]
    assert _shapes(read_interface(relu(None), prefer=(view,))) == [("x", None), ("y", None)]


def test_an_undeclared_output_that_is_a_scalar_is_found_out(build: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scalar that the file does not declare is settled by onnx's inference, and unknown without it."""
    node = helper.make_node("ReduceMean", ["x"], ["y"], keepdims=0)
    path = build([node], [("x", FLOAT, ["N", 4])], [("y", FLOAT, None)])
    assert _shapes(describe(path))[1] == ("y", ())
    monkeypatch.delitem(sys.modules, "aitune.onnx.inferred_view")
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert _shapes(describe(path))[1] == ("y", None)


def test_an_unknown_rank_stays_unknown_when_inference_fails(build: Write) -> None:
    """What onnx holds against a file that ONNX Runtime loads does not matter."""
    nodes = [helper.make_node("FusedMatMul", ["x", "x"], ["y"], domain="com.microsoft")]
    path = build(nodes, [("x", FLOAT, None)], [("y", FLOAT, None)], opsets=(("", 17), ("com.microsoft", 1)))
    assert _shapes(describe(path)) == [("x", None), ("y", None)]


def test_inputs_with_an_initializer_stand_apart(build: Write) -> None:
    """What a caller may leave out is no input; before IR version 4 nobody can give it at all."""
    node = helper.make_node("Add", ["x", "w"], ["y"])
    ports = [("w", FLOAT, [4]), ("x", FLOAT, ["N", 4])], [("y", FLOAT, ["N", 4])]
    new, old = build([node], *ports, [WEIGHTS]), build([node], *ports, [WEIGHTS], name="old.onnx", ir=3)
    for view in VIEWS:
        found = read_interface(new, prefer=(view,))
        assert [[port.name for port in part] for part in (found.inputs, found.initializers)] == [["x"], ["w"]]
        assert found.initializers[0].shape == (4,)
        found = read_interface(old, prefer=(view,))
        assert ([port.name for port in found.inputs], found.initializers) == (["x"], ())


def test_an_input_that_no_node_uses_is_still_an_input(build: Write) -> None:
    """B14: ONNX Runtime demands every graph input, so every one is listed, in the file's order."""
    node = helper.make_node("Relu", ["a"], ["y"])
    path = build([node], [("b", FLOAT, [1]), ("a", FLOAT, ["N"])], [("y", FLOAT, ["N"])])
    assert [port.name for port in describe(path).inputs] == ["b", "a"]


@pytest.mark.parametrize("view", VIEWS)
def test_a_sequence_and_a_list_of_maps_are_not_tensors(build: Write, view: str) -> None:
    """B25: the kind says what Triton cannot carry, and there is no shape to misread."""
    split = helper.make_node("SplitToSequence", ["x"], ["s"], axis=0)
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    found = read_interface(build([split], [("x", FLOAT, ["N", 4])], [sequence]), prefer=(view,))
    assert found.outputs[0].kind == "sequence"
    assert (found.outputs[0].element_type, found.outputs[0].shape, found.outputs[0].dtype) == (
        "tensor(float)",
        None,
        None,
    )
    maps = onnx.ValueInfoProto(name="z")
    inner = maps.type.sequence_type.elem_type.map_type
    inner.key_type, inner.value_type.tensor_type.elem_type = INT64, FLOAT
    zipmap = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    path = build([zipmap], [("x", FLOAT, ["N", 2])], [maps], opsets=(("", 17), ("ai.onnx.ml", 1)))
    found = read_interface(path, prefer=(view,))
    assert (found.outputs[0].kind, found.outputs[0].element_type) == ("sequence", "map(int64,tensor(float))")
    assert found.opset_imports == (("", 17), ("ai.onnx.ml", 1))


@pytest.mark.parametrize("view", VIEWS)
def test_an_optional_input_is_not_a_tensor(build: Write, view: str) -> None:
    """An optional is its own kind, whatever it may hold."""
    inner = helper.make_tensor_type_proto(FLOAT, [3])
    optional = helper.make_value_info("o", helper.make_optional_type_proto(inner))
    path = build([helper.make_node("OptionalGetElement", ["o"], ["y"])], [optional], [("y", FLOAT, [3])])
    port = read_interface(path, prefer=(view,)).inputs[0]
    assert (port.kind, port.element_type, port.shape) == ("optional", "tensor(float)", None)


def test_a_sparse_and_a_nested_type_are_read_from_the_file(build: Write) -> None:
    """Kinds that no runtime here loads are still named as the file declares them."""
    sparse = helper.make_value_info("s", helper.make_sparse_tensor_type_proto(FLOAT, [3]))
    nested = onnx.ValueInfoProto(name="n")
    nested.type.sequence_type.elem_type.sequence_type.elem_type.tensor_type.elem_type = FLOAT
    untyped = onnx.ValueInfoProto(name="u")
    path = build([], [sparse, nested, untyped], [])
    found = read_interface(path, prefer=("declared",)).inputs
    assert [(port.kind, port.element_type, port.shape) for port in found] == [
        ("sparse_tensor", "FLOAT", (3,)),
        ("sequence", "seq(tensor(float))", None),
        ("tensor", "", None),
    ]


@pytest.mark.parametrize("word", ["FLOAT8E4M3FN", "INT4", "COMPLEX64"])
def test_an_element_type_without_a_contract_is_named_or_refused(relu: Write, word: str) -> None:
    """Types that Triton does not have come back without a DType; those ONNX Runtime lacks are its refusal."""
    path = relu(dtype=getattr(TensorProto, word), opsets=(("", 23),), ir=11)
    port = read_interface(path, prefer=("declared",)).inputs[0]
    assert (port.dtype, port.element_type) == (None, word)
    if word == "FLOAT8E4M3FN":
        assert describe(path).inputs[0] == port
    else:
        with pytest.raises(SourceError, match=r"complex64|uses the operator Identity of opset 23 with types"):
            describe(path)


def test_bfloat16_and_strings_have_a_dtype(relu: Write) -> None:
    """B22: BFLOAT16 is a type of the contract, and so is STRING."""
    assert describe(relu(dtype=TensorProto.BFLOAT16)).inputs[0].dtype is DType.BFLOAT16
    assert describe(relu(dtype=TensorProto.STRING)).outputs[0].dtype is DType.STRING


REFUSED = {
    r"has IR version 99, and ONNX Runtime \S+ reads up to \d+$": {"ir": 99},
    r"uses opset 99 of domain ai.onnx, and ONNX Runtime \S+ supports up to \d+$": {"opsets": (("", 99),)},
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_file_newer_than_the_runtime_is_refused_with_both_numbers(relu: Write, message: str) -> None:
    """B18: what the file has and what the runtime can do stand in one line."""
    with pytest.raises(SourceError, match=message) as caught:
        describe(relu(**REFUSED[message]))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("op", "domain", "opsets", "message"),
    [
        ("Foo", "my.dom", (("", 17), ("my.dom", 1)), "uses the operator my.dom:Foo, which ONNX Runtime does not have"),
        ("Foo", "my.dom", (("", 17),), "operators of the domain 'my.dom', which it does not import"),
        ("Foo", "", (("", 17),), "uses the operator Foo, which opset 17 does not have"),
        ("Relu", "", (("", 17),), "ONNX Runtime .* refuses model .*Relu"),
    ],
)
def test_an_operator_nobody_has_is_named(build: Write, op: str, domain: str, opsets: object, message: str) -> None:
    """A custom operator, a forgotten import and an invalid node are each one line with the name in it."""
    inputs = ["x"] if op == "Foo" else ["x", "x"]
    node = helper.make_node(op, inputs, ["y"], domain=domain)
    path = build([node], [("x", FLOAT, [1])], [("y", FLOAT, [1])], opsets=opsets)
    with pytest.raises(SourceError, match=message) as caught:
        describe(path)
    assert "\n" not in caught.value.message
    assert "/onnxruntime_src" not in caught.value.message


def test_two_values_of_one_name_are_refused_by_that_name(build: Write) -> None:
    """B15: the file an exporter makes when an output has the name of an internal value."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["y"], ["y"])]
    with pytest.raises(SourceError, match="defines the name 'y' twice"):
        describe(build(nodes, [("x", FLOAT, [1])], [("y", FLOAT, [1])]))


def test_shape_inference_refuses_an_invalid_model(build: Write) -> None:
    """Without ONNX Runtime, an operator of a domain that is not imported is still refused."""
    node = helper.make_node("Foo", ["x"], ["y"], domain="my.dom")
    path = build([node], [("x", FLOAT, [2, 3])], [("y", FLOAT, [2, 3])])
    with pytest.raises(SourceError, match=r"onnx .* refuses model .*No opset import for domain my.dom"):
        read_interface(path, prefer=("shape_inference",))


def _hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Make packages look as if they were not installed."""
    for name in list(sys.modules):
        if name.partition(".")[0] in packages or name in ("aitune.onnx.runtime_view", "aitune.onnx.inferred_view"):
            monkeypatch.delitem(sys.modules, name)
        if name in ("aitune.onnx.runtime", "aitune.onnx.session"):
            monkeypatch.delitem(sys.modules, name)
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


def test_without_onnxruntime_shape_inference_answers(relu: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without onnxruntime reads the interface with onnx, and the source says so."""
    _hide(monkeypatch, "onnxruntime")
    assert describe(relu()).source == "shape_inference"
    with pytest.raises(MissingDependencyError, match="'onnxruntime' is not installed") as caught:
        read_interface(relu(), prefer=("onnxruntime",))
    assert caught.value.hint.endswith("'aitune-triton[onnx]'")


def test_without_either_package_the_file_speaks_for_itself(relu: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with neither package still reads what the file declares."""
    _hide(monkeypatch, "onnxruntime", "onnx")
    found = describe(relu())
    assert (found.source, found.outputs[0].shape) == ("declared", ("N", 4))
    with pytest.raises(MissingDependencyError, match="'onnx' is not installed"):
        read_interface(relu(), prefer=("shape_inference",))


def test_the_door_turns_a_missing_package_into_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that needs onnxruntime is one clear line on a machine without it; an unknown name is no name."""
    _hide(monkeypatch, "onnxruntime")
    with pytest.raises(MissingDependencyError, match="'onnxruntime' is not installed"):
        _ = aitune.onnx.OnnxRunner
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = aitune.onnx.nothing
    assert "describe" in dir(aitune.onnx)


def test_an_unknown_view_is_a_usage_error(relu: Write) -> None:
    """A view that does not exist is named, and so is none at all."""
    with pytest.raises(UsageError, match="got guess"):
        read_interface(relu(), prefer=("guess",))
    with pytest.raises(UsageError, match="got none"):
        read_interface(relu(), prefer=())


def _large(build: Write, *, small: bool = False) -> Path:
    """A model with weights well over the size that a skeleton keeps, and a shape that depends on a small one."""
    weights = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    target = numpy_helper.from_array(np.array([-1, 8, 8], np.int64), "target")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Reshape", ["h", "target"], ["y"])]
    return build(nodes, [("x", FLOAT, ["N", 64])], [("y", FLOAT, None)], [weights, target])


def test_a_large_model_is_read_without_its_weights(build: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The skeleton of a model shows the same interface as the whole, at a fraction of its bytes."""
    path = _large(build)
    whole = describe(path)
    given = []
    original = runtime_view.open_session
    monkeypatch.setattr(runtime_view, "WHOLE_BYTES", 0)
    monkeypatch.setattr(
        runtime_view, "open_session", lambda path, *rest: given.append(len(rest[0])) or original(path, *rest)
    )
    assert describe(path) == whole
    assert whole.outputs[0].shape[1:] == (8, 8)
    assert given[0] < 1000 < path.stat().st_size


def test_a_large_model_with_a_broken_weight_is_refused(build: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ONNX Runtime would find when loading the weights is found without loading them."""
    path = _large(build)
    model = onnx.load(path)
    model.graph.initializer[0].raw_data = b"\0" * 16000
    path.write_bytes(model.SerializeToString())
    monkeypatch.setattr(runtime_view, "WHOLE_BYTES", 0)
    with pytest.raises(SourceError, match=r"initializer 'w' .* has 16000 bytes, and FLOAT \[64, 64\] needs 16384"):
        describe(path)


def test_a_model_whose_skeleton_is_refused_is_loaded_whole(build: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that wants its weights as constants decides nothing: the whole file does."""
    path = _large(build)
    whole = describe(path)
    monkeypatch.setattr(runtime_view, "WHOLE_BYTES", 0)
    monkeypatch.setattr(runtime_view, "skeleton", lambda *args, **kwargs: b"\x08\x08")
    assert describe(path) == whole
    with pytest.raises(SourceError):
        read_interface(path, external_data=False)


def test_reading_is_silent(relu: Write, capfd: pytest.CaptureFixture[str]) -> None:
    """ONNX Runtime's own log never reaches the terminal, not even for a model it refuses."""
    describe(relu())
    with pytest.raises(SourceError):
        describe(relu(ir=99))
    assert capfd.readouterr() == ("", "")
