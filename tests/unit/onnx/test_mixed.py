"""Eight bits where that costs little: which products are left as they are, and how few."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aitune.errors import SourceError
from aitune.numerics import Array
from aitune.onnx.mixed import agrees, fewest_left_out, products, worst_first
from aitune.onnx.recipes import make
from aitune.onnx.session import OnnxRunner

Write = Callable[..., Path]
Answers = Sequence[tuple[dict[str, Array], dict[str, Array]]]

WIDTH = 32
X = {"x": np.random.default_rng(3).normal(size=(16, WIDTH)).astype(np.float32)}


def chain(build: Write, huge: Sequence[int], *, gemm: bool = False, named: bool = True) -> Path:
    """Six products; before the ``huge`` ones a column is made a thousand times larger, and after them it is not seen.

    That is what the inputs of some products of real transformers look like: one scale for all leaves the rest no steps.
    """
    generator = np.random.default_rng(0)
    nodes: list[Any] = []
    stored: dict[str, Array] = {"one": np.ones(WIDTH, np.float32)}
    last = "x"
    for number in range(6):
        weight = generator.normal(size=(WIDTH, WIDTH)).astype(np.float32)
        before = last
        if number in huge:
            stored[f"large{number}"] = np.array([2000.0] + [1.0] * (WIDTH - 1), np.float32)
            weight[0] /= 2000.0
            before = f"spread{number}"
            nodes.append(helper.make_node("Mul", [last, f"large{number}"], [before], name=f"mul{number}"))
        attributes: dict[str, Any] = {"transB": 1} if gemm else {}
        stored[f"w{number}"] = np.ascontiguousarray(weight.T) if gemm else weight
        name = f"product{number}" if named else ""
        operator = "Gemm" if gemm else "MatMul"
        nodes.append(helper.make_node(operator, [before, f"w{number}"], [f"p{number}"], name=name, **attributes))
        last = "y" if number == 5 else f"n{number}"
        nodes.append(helper.make_node("LayerNormalization", [f"p{number}", "one"], [last]))
    ports = [("x", TensorProto.FLOAT, ("N", WIDTH))], [("y", TensorProto.FLOAT, ("N", WIDTH))]
    return build(nodes, *ports, [numpy_helper.from_array(array, name) for name, array in stored.items()])


def requests_file(folder: Path, *requests: dict[str, Array]) -> Path:
    """Requests as a recipe is given them."""
    path = folder / "requests.npz"
    np.savez(path, **{f"{name}#{number}": array for number, one in enumerate(requests) for name, array in one.items()})
    return path


def kept(path: Path) -> list[str]:
    """The products that are still computed in float."""
    return [node.name for node in onnx.load(path).graph.node if node.op_type in ("MatMul", "Gemm")]


@pytest.mark.parametrize("gemm", [False, True])
def test_the_products_that_lose_most_are_found_first(build: Write, gemm: bool) -> None:
    """By running the model once; each loses what quantising it alone shows."""
    model = onnx.load(chain(build, (1, 4), gemm=gemm))
    found = products(model)
    assert [one.name for one in found] == [f"product{number}" for number in range(6)]
    assert set(worst_first(model, found, [X])[:2]) == {"product1", "product4"}


@pytest.mark.parametrize("gemm", [False, True])
def test_only_the_worst_products_stay_as_they_are(build: Write, tmp_path: Path, gemm: bool) -> None:
    """Everything in eight bits is wrong; all but the two are right, and the file says which."""
    source = chain(build, (1, 4), gemm=gemm)
    answers: Answers = [(X, OnnxRunner(source).run(X))]
    dynamic, mixed = tmp_path / "dynamic.onnx", tmp_path / "mixed.onnx"
    make("int8-dynamic", source, dynamic)
    make("int8-mixed", source, mixed, requests_file(tmp_path, X))
    assert not agrees(dynamic, answers)
    assert agrees(mixed, answers)
    assert sorted(name.removesuffix("_MatMul") for name in kept(mixed)) == ["product1", "product4"]


def test_one_row_far_from_the_others_is_seen_wherever_it_is(build: Write) -> None:
    """The scale is that of the whole activation; a huge row that is exact by itself does not hide what others lose."""
    model = onnx.load(chain(build, ()))
    found = products(model)
    for row in (0, 290):
        request = {"x": np.random.default_rng(5).normal(size=(300, WIDTH)).astype(np.float32)}
        request["x"][row] *= 3000
        assert worst_first(model, found, [request])[0] == "product0"
    request["x"][:] = np.nan
    assert sorted(worst_first(model, found, [request])) == [one.name for one in found]


def test_what_a_dynamic_file_quantises_besides_products_may_be_what_is_wrong(build: Write, tmp_path: Path) -> None:
    """An embedding with a huge row loses all others where it is quantised, too: the products alone are right."""
    generator = np.random.default_rng(0)
    table = generator.normal(size=(50, WIDTH)).astype(np.float32)
    table[0] *= 3000
    stored = {"table": table, "one": np.ones(WIDTH, np.float32)}
    stored |= {name: generator.normal(size=(WIDTH, WIDTH)).astype(np.float32) for name in ("w0", "w1")}
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"]),
        helper.make_node("LayerNormalization", ["e", "one"], ["n"]),
        helper.make_node("MatMul", ["n", "w0"], ["p"], name="product0"),
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("MatMul", ["r", "w1"], ["y"], name="product1"),
    ]
    ports = [("ids", TensorProto.INT64, ("N",))], [("y", TensorProto.FLOAT, ("N", WIDTH))]
    source = build(nodes, *ports, [numpy_helper.from_array(array, name) for name, array in stored.items()])
    ids = {"ids": np.arange(1, 20)}
    mixed = tmp_path / "mixed.onnx"
    make("int8-mixed", source, mixed, requests_file(tmp_path, ids))
    assert agrees(mixed, [(ids, OnnxRunner(source).run(ids))])
    assert kept(mixed) == []


def test_nodes_without_a_name_are_told_apart(build: Write, tmp_path: Path) -> None:
    """The quantiser is told names, so they get some."""
    source = chain(build, (2,), named=False)
    mixed = tmp_path / "mixed.onnx"
    make("int8-mixed", source, mixed, requests_file(tmp_path, X))
    assert len(kept(mixed)) == 1


def test_there_is_no_mixed_file_where_it_has_no_use(build: Write, relu: Write, tmp_path: Path) -> None:
    """Nothing to leave out, too much to leave out, nothing to quantise, nothing to ask: each with its reason."""
    target, requests = tmp_path / "made.onnx", requests_file(tmp_path, X)
    with pytest.raises(SourceError, match="int8-dynamic answers well enough"):
        make("int8-mixed", chain(build, ()), target, requests)
    with pytest.raises(SourceError, match="even with half of its 6 products left as they are"):
        make("int8-mixed", chain(build, range(6)), target, requests)
    with pytest.raises(SourceError, match="no two products of float32 with constant matrices"):
        make("int8-mixed", relu(name="relu.onnx"), target, requests_file(tmp_path, {"x": np.ones((1, 4), np.float32)}))
    with pytest.raises(SourceError, match="needs requests of numbers"):
        make("int8-mixed", chain(build, ()), target)
    with pytest.raises(SourceError, match="answers none of the requests"):
        make("int8-mixed", chain(build, ()), target, requests_file(tmp_path, {"x": np.ones((1, 5), np.float32)}))
    assert not target.exists()


def test_as_few_as_needed_are_left_out() -> None:
    """For every number that may be needed; half of them is the end."""
    for count in (2, 3, 7, 36):
        for needed in range(count + 1):
            asked: list[int] = []

            def good(left_out: int, asked: list[int] = asked, needed: int = needed) -> bool:
                asked.append(left_out)
                return left_out >= needed

            found = fewest_left_out(count, good)
            assert found == (needed if needed <= count // 2 else None)
            assert len(asked) <= 2 * count.bit_length() + 1
            assert max(asked, default=0) <= count // 2


def test_products_that_cannot_be_in_eight_bits_are_left_alone(build: Write, tmp_path: Path) -> None:
    """Scaled, transposed, of constants, of two activations, and of three axes, which no kernel takes."""
    generator = np.random.default_rng(0)
    stored = {name: generator.normal(size=(4, 4)).astype(np.float32) for name in ("k", "w", "w2")}
    stored["deep"] = generator.normal(size=(2, 4, 4)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["k", "w"], ["k2"], name="constant"),
        helper.make_node("Gemm", ["x", "w"], ["a"], alpha=0.5, name="scaled"),
        helper.make_node("Gemm", ["a", "w"], ["b"], transA=1, name="transposed"),
        helper.make_node("MatMul", ["b", "deep"], ["c"], name="deep"),
        helper.make_node("MatMul", ["c", "k2"], ["d"], name="both"),
        helper.make_node("MatMul", ["d", "w"], ["e"], name="node_0"),
        helper.make_node("MatMul", ["e", "w2"], ["y"]),
    ]
    ports = [("x", TensorProto.FLOAT, (4, 4))], [("y", TensorProto.FLOAT, (2, 4, 4))]
    path = build(nodes, *ports, [numpy_helper.from_array(array, name) for name, array in stored.items()])
    model = onnx.load(path)
    assert [one.name for one in products(model)] == [node.name for node in model.graph.node[-2:]]
    assert len({node.name for node in model.graph.node}) == len(nodes)
    x = {"x": generator.normal(size=(4, 4)).astype(np.float32)}
    try:
        make("int8-mixed", path, tmp_path / "mixed.onnx", requests_file(tmp_path, x))
    except SourceError as error:
        pytest.fail(error.message)
    assert agrees(tmp_path / "mixed.onnx", [(x, OnnxRunner(path).run(x))])
