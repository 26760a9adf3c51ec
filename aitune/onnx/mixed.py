"""Eight bits where that costs little: the products that lose most by them stay as they are.

Dynamic quantisation gives every activation one scale. A product whose input has a few very large values, as in the
second half of a transformer's feed-forward block, then has few steps left for all others; a handful of such products
makes most of a model's error. They are found by running the model and computing every product both ways; then the
fewest of them are left out with which the answers are right.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from aitune.numerics import Array, Tolerance, compare
from aitune.numerics.tolerance import REDUCED
from aitune.onnx.session import OnnxRunner
from aitune.tuning.accuracy import cosine

__all__ = ["Product", "agrees", "fewest_left_out", "products", "worst_first"]

_MARGIN = 0.5
"""The share of what is allowed that is used. The scale is taken over a whole batch, so a row has two answers in two
batches: where each is off by no more than half, they are not farther apart than is allowed."""
_MOST_LEFT_OUT = 0.5
"""With more than this share of the products left out, little would be gained."""
_ROWS = 256
"""So many rows of an activation tell what a product loses."""
_AT_ONCE = 8
"""So many activations are held at a time."""

Tensors = Mapping[str, Array]
Answers = Sequence[tuple[Tensors, Tensors]]
"""Requests, each with the answer that is expected."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product of an activation with a constant matrix.

    Attributes:
        name: Name of the node.
        activation: Name of the tensor on its left.
        weight: The matrix on its right, shape (inner, outer), float32.
    """

    name: str
    activation: str
    weight: Array


def products(model: onnx.ModelProto) -> list[Product]:
    """The products of float32 with constant matrices that can be computed in eight bits, in the order of the graph.

    Nodes without a name are given one: that is how they are told to the quantiser.

    Args:
        model: Changed in place.
    """
    graph = model.graph
    names = {node.name for node in graph.node}
    free = (name for number in itertools.count() if (name := f"node_{number}") not in names)
    for node in graph.node:
        node.name = node.name or next(free)
    constants = {one.name: one for one in graph.initializer if one.data_type == onnx.TensorProto.FLOAT}
    return [
        Product(node.name, node.input[0], matrix)
        for node in graph.node
        if node.op_type in ("MatMul", "Gemm") and node.input[1] in constants and node.input[0] not in constants
        if (matrix := _matrix(node, numpy_helper.to_array(constants[node.input[1]]))) is not None
    ]


def _matrix(node: onnx.NodeProto, weight: Array) -> Array | None:
    """The matrix as MatMul has it; None for what the quantiser leaves alone, or makes what no kernel takes."""
    if node.op_type == "MatMul":
        return weight if weight.ndim == 2 else None
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    if given.get("alpha", 1.0) != 1.0 or given.get("beta", 1.0) != 1.0 or given.get("transA", 0):
        return None
    return weight.T if given.get("transB", 0) else weight


def worst_first(model: onnx.ModelProto, found: Sequence[Product], requests: Sequence[Tensors]) -> list[str]:
    """Names of the products, the one that loses most by eight bits first.

    Args:
        model: The model.
        found: Its products.
        requests: What it is run on.

    Raises:
        SourceError: If the model does not run with its activations as outputs.
    """
    losses = dict.fromkeys((one.name for one in found), 0.0)
    for start in range(0, len(found), _AT_ONCE):
        some = found[start : start + _AT_ONCE]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "showing.onnx"
            onnx.save(_showing(model, [one.activation for one in some]), path)
            with closing(OnnxRunner(path)) as runner:
                for request in requests:
                    shown = {**request, **runner.run(request)}
                    for one in some:
                        losses[one.name] = max(losses[one.name], _loss(shown[one.activation], one.weight))
    return sorted(losses, key=lambda name: -losses[name])


def fewest_left_out(count: int, good: Callable[[int], bool]) -> int | None:
    """How many have to be left out: none, or found by doubling and then halving the gap; None when half do not do.

    Args:
        count: How many there are.
        good: Whether leaving out so many is enough; asked for few numbers, because each is a model to be made.

    >>> [fewest_left_out(36, lambda left_out: left_out >= needed) for needed in (0, 3, 19)]
    [0, 3, None]
    """
    most = int(count * _MOST_LEFT_OUT)
    too_few, enough = -1, 0
    while not good(enough):
        if enough >= most:
            return None
        too_few, enough = enough, min(2 * enough or 1, most)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if good(middle) else (middle, enough)
    return enough


def agrees(path: Path, answers: Answers) -> bool:
    """Whether a model in eight bits gives the answers, by half of what is allowed.

    Args:
        path: The model.
        answers: Requests, each with the answer that is expected.

    Raises:
        SourceError: If ONNX Runtime refuses the model or fails on it.
    """
    allowed = REDUCED["int8"]
    tolerance = Tolerance(allowed.tolerance.rtol * _MARGIN, allowed.tolerance.atol * _MARGIN)
    least = 1 - (1 - allowed.cosine) * _MARGIN
    with closing(OnnxRunner(path)) as runner:
        for request, expected in answers:
            answer = runner.run(request)
            for name, dtype in runner.output_dtypes.items():
                floats = dtype.is_floating
                if not compare(answer[name], expected[name], dtype, tolerance=tolerance if floats else None).agrees:
                    return False
                angle = cosine(answer[name], expected[name], dtype) if floats else None
                if angle is not None and angle < least:
                    return False
    return True


def _showing(model: onnx.ModelProto, activations: Sequence[str]) -> onnx.ModelProto:
    """The model with these tensors as outputs, too."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    there = {port.name for port in (*model.graph.input, *model.graph.output)}
    for name in dict.fromkeys(activations):
        if name not in there:
            shown.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    return shown


def _loss(activation: Array, weight: Array) -> float:
    """How far the rows of a product in eight bits are off, as a share of their lengths, on average.

    As in ONNX Runtime's dynamic quantisation, the whole activation has one scale, and the matrix one a column. Rows
    count alike, however long they are: a single huge one must not hide what it does to the others.
    """
    if not activation.size:
        return 0.0
    low, high = min(float(activation.min()), 0.0), max(float(activation.max()), 0.0)
    if not math.isfinite(high - low):
        return math.inf
    step = (high - low) / 255 or 1.0
    zero = round(-low / step)
    rows = activation.reshape(-1, activation.shape[-1])[:_ROWS]
    seen = (np.clip(np.round(rows / step) + zero, 0, 255) - zero) * step
    steps = np.abs(weight).max(axis=0) / 127
    steps[steps == 0] = 1.0
    exact = rows @ weight
    off = seen @ (np.round(weight / steps) * steps) - exact
    lengths = np.linalg.norm(exact, axis=1)
    some = lengths > 0
    return float(np.mean(np.linalg.norm(off, axis=1)[some] / lengths[some])) if some.any() else 0.0
