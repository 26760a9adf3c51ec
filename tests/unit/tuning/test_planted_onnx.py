"""The batching proof on real ONNX graphs in ONNX Runtime: planted faults must be refused, sound models proved."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from tuning_fakes import OrtRunner, onnx_bytes, specs_of

from aitune.numerics import Array, observe_domains
from aitune.records.evidence import Batching
from aitune.tuning import prove_batching, resolve_ranges

X = {"x": ("batch", 4)}
Y = {"y": ("rows", "columns")}
NODE = helper.make_node
GENERATOR = np.random.default_rng(20)
Case = Callable[[], bytes]


def weights(*shape: int, dtype: Any = np.float32) -> Array:
    """Random weights of the size that trained ones have."""
    return (GENERATOR.standard_normal(shape) / np.sqrt(shape[0])).astype(dtype)


def ints(*values: int) -> Array:
    """A constant for a shape or an axis."""
    return np.array(values, np.int64)


def coupled() -> bytes:
    """Each value as a share of its column: x / x.sum(0)."""
    nodes = [NODE("ReduceSum", ["x", "axis"], ["total"]), NODE("Div", ["x", "total"], ["y"])]
    return onnx_bytes(nodes, X, Y, {"axis": ints(0)})


def doubled() -> bytes:
    """reshape(-1, 2)."""
    return onnx_bytes([NODE("Reshape", ["x", "shape"], ["y"])], X, Y, {"shape": ints(-1, 2)})


def nonzero() -> bytes:
    """Indices of large values: as many rows as the data has."""
    nodes = [
        NODE("Greater", ["x", "half"], ["large"]),
        NODE("NonZero", ["large"], ["found"]),
        NODE("Transpose", ["found"], ["y"]),
    ]
    return onnx_bytes(nodes, X, {"y": (np.int64, ("hits", 2))}, {"half": np.array(0.5, np.float32)})


def normalized_in_training() -> bytes:
    """Batch normalization with the statistics of the batch."""
    nodes = [
        NODE("ReduceMean", ["x"], ["mean"], axes=[0]),
        NODE("Sub", ["x", "mean"], ["centred"]),
        NODE("Mul", ["centred", "centred"], ["square"]),
        NODE("ReduceMean", ["square"], ["variance"], axes=[0]),
        NODE("Add", ["variance", "epsilon"], ["more"]),
        NODE("Sqrt", ["more"], ["deviation"]),
        NODE("Div", ["centred", "deviation"], ["y"]),
    ]
    return onnx_bytes(nodes, X, Y, {"epsilon": np.array(1e-5, np.float32)})


def row_position() -> bytes:
    """Adds 0.01 * arange(rows)."""
    nodes = [
        NODE("Shape", ["x"], ["rows"], start=0, end=1),
        NODE("Squeeze", ["rows"], ["count"]),
        NODE("Range", ["zero", "count", "one"], ["numbers"]),
        NODE("Cast", ["numbers"], ["floats"], to=TensorProto.FLOAT),
        NODE("Mul", ["floats", "little"], ["steps"]),
        NODE("Unsqueeze", ["steps", "axis"], ["column"]),
        NODE("Add", ["x", "column"], ["y"]),
    ]
    constants = {"zero": np.array(0, np.int64), "one": np.array(1, np.int64), "axis": ints(1),
                 "little": np.array(0.01, np.float32)}  # fmt: skip
    return onnx_bytes(nodes, X, Y, constants)


def mixing_from_8_on() -> bytes:
    """Rows lean on their mean once there are eight of them."""
    nodes = [
        NODE("Shape", ["x"], ["rows"], start=0, end=1),
        NODE("GreaterOrEqual", ["rows", "eight"], ["many"]),
        NODE("ReduceMean", ["x"], ["mean"], axes=[0]),
        NODE("Sub", ["x", "mean"], ["mixed"]),
        NODE("Where", ["many", "mixed", "x"], ["y"]),
    ]
    return onnx_bytes(nodes, X, Y, {"eight": ints(8)})


def running_total() -> bytes:
    """CumSum over the rows."""
    return onnx_bytes([NODE("CumSum", ["x", "axis"], ["y"])], X, Y, {"axis": np.array(0, np.int64)})


def pinned_by_reshape() -> bytes:
    """Declares a batch and flattens it all into one row (B02)."""
    return onnx_bytes([NODE("Reshape", ["x", "shape"], ["y"])], X, {"y": ("batch", 4)}, {"shape": ints(1, -1)})


def pinned_by_split() -> bytes:
    """Splits the batch into the two rows it was traced with (B02)."""
    nodes = [NODE("Split", ["x", "sizes"], ["a", "b"], axis=0), NODE("Concat", ["b", "a"], ["y"], axis=0)]
    return onnx_bytes(nodes, X, Y, {"sizes": ints(1, 1)})


def quantized_by_batch() -> bytes:
    """Dynamic quantisation: one scale for all rows together."""
    nodes = [
        NODE("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        NODE("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    return onnx_bytes(nodes, X, Y)


def random_noise() -> bytes:
    """Dropout that was left on, so to say."""
    nodes = [NODE("RandomUniformLike", ["x"], ["noise"], dtype=TensorProto.FLOAT), NODE("Add", ["x", "noise"], ["y"])]
    return onnx_bytes(nodes, X, Y)


def sequence_first() -> bytes:
    """A GRU whose first axis is time, both axes free (B11)."""
    nodes = [NODE("GRU", ["x", "w", "r"], ["out"], hidden_size=5), NODE("Squeeze", ["out", "axis"], ["y"])]
    constants = {"w": weights(1, 15, 4), "r": weights(1, 15, 5), "axis": ints(1)}
    return onnx_bytes(nodes, {"x": ("time", "people", 4)}, {"y": ("time", "people", 5)}, constants)


def attention_over_the_batch() -> bytes:
    """Every row looks at every other."""
    nodes = [
        NODE("Transpose", ["x"], ["turned"], perm=[1, 0]),
        NODE("MatMul", ["x", "turned"], ["scores"]),
        NODE("Softmax", ["scores"], ["shares"], axis=1),
        NODE("MatMul", ["shares", "x"], ["y"]),
    ]
    return onnx_bytes(nodes, X, Y)


def second_output_without_batch() -> bytes:
    """One output is sound, the other returns a weight."""
    nodes = [NODE("MatMul", ["x", "w"], ["y"]), NODE("Identity", ["w"], ["weights"])]
    return onnx_bytes(nodes, X, {**Y, "weights": (4, 3)}, {"w": weights(4, 3)})


def scalar_output() -> bytes:
    """A mean over everything."""
    return onnx_bytes([NODE("ReduceMean", ["x"], ["y"], keepdims=0)], X, {"y": ()})


def scalar_input() -> bytes:
    """A temperature for all rows."""
    return onnx_bytes([NODE("Mul", ["x", "t"], ["y"])], {**X, "t": ()}, Y)


def batch_on_axis_1() -> bytes:
    """Seven steps of a batch."""
    return onnx_bytes([NODE("Relu", ["x"], ["y"])], {"x": (7, "batch", 4)}, {"y": (7, "batch", 4)})


REFUSED: dict[Case, str] = {
    coupled: r"row \d of output 'y' depends on the other rows in a batch of 5",
    doubled: "output 'y' has 10 rows for batch 5",
    nonzero: r"output 'y' has \d+ rows for batch 5",
    normalized_in_training: r"row \d of output 'y' depends on the other rows in a batch of 5: \S+ there and 0 alone",
    row_position: r"row \d of output 'y' depends on its position in a batch of 5",
    mixing_from_8_on: r"row \d of output 'y' depends on the other rows in a batch of 8",
    running_total: r"row \d of output 'y' depends on its position in a batch of 5",
    pinned_by_reshape: "output 'y' has 1 rows for batch 5",
    pinned_by_split: "batch 5 does not run: .*Split",
    quantized_by_batch: r"row \d of output 'y' depends on the other rows in a batch of 5",
    random_noise: "two equal runs of batch 5 differ in output 'y'",
    sequence_first: r"row \d of output 'y' depends on its position in a batch of 5",
    attention_over_the_batch: r"row \d of output 'y' depends on the other rows in a batch of 5",
    second_output_without_batch: "output 'weights' has a fixed first axis of 4",
    scalar_output: "output 'y' is a scalar",
    scalar_input: "input 't' is a scalar",
    batch_on_axis_1: r"input 'x' has a fixed first axis of 7 \(its dynamic axis is 1",
}


def perceptron() -> bytes:
    """Wide enough that batched kernels round differently."""
    nodes = [
        NODE("MatMul", ["x", "a"], ["h"]),
        NODE("Relu", ["h"], ["r"]),
        NODE("MatMul", ["r", "b"], ["s"]),
        NODE("Softmax", ["s"], ["y"], axis=1),
    ]
    return onnx_bytes(nodes, {"x": ("batch", 512)}, Y, {"a": weights(512, 1024), "b": weights(1024, 1000)})


def convolution() -> bytes:
    """An image model, pooled."""
    nodes = [
        NODE("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]),
        NODE("Relu", ["h"], ["r"]),
        NODE("GlobalAveragePool", ["r"], ["p"]),
        NODE("Flatten", ["p"], ["y"]),
    ]
    return onnx_bytes(nodes, {"x": ("batch", 3, 16, 16)}, Y, {"w": weights(8, 3, 3, 3)})


def half_precision() -> bytes:
    """float16 in and out."""
    constants = {"w": weights(256, 64, dtype=np.float16)}
    half = np.float16
    return onnx_bytes([NODE("MatMul", ["x", "w"], ["y"])], {"x": (half, ("batch", 256))},
                      {"y": (half, ("batch", 64))}, constants)  # fmt: skip


def masked_tokens() -> bytes:
    """Token embeddings, mean over the mask, and the best class: two inputs, a free axis, two outputs."""
    nodes = [
        NODE("Gather", ["table", "ids"], ["tokens"]),
        NODE("Cast", ["mask"], ["weight"], to=TensorProto.FLOAT),
        NODE("Unsqueeze", ["weight", "last"], ["wide"]),
        NODE("Mul", ["tokens", "wide"], ["kept"]),
        NODE("ReduceSum", ["kept", "middle"], ["pooled"], keepdims=0),
        NODE("LayerNormalization", ["pooled", "scale"], ["embedding"], axis=-1),
        NODE("ArgMax", ["embedding"], ["label"], axis=1, keepdims=0),
    ]
    constants = {"table": weights(100, 32), "last": ints(2), "middle": ints(1), "scale": np.ones(32, np.float32)}
    ids = (np.int64, ("batch", "sequence"))
    return onnx_bytes(nodes, {"ids": ids, "mask": ids},
                      {"embedding": ("batch", 32), "label": (np.int64, ("batch",))}, constants)  # fmt: skip


PROVED: tuple[Case, ...] = (perceptron, convolution, half_precision, masked_tokens)


def judge(model: bytes, *, max_batch_size: int = 8) -> Batching:
    """The verdict on a graph, every free inner axis from 5 to 12."""
    inputs, outputs = specs_of(model)
    low, high = ({spec.name: tuple(dim if isinstance(dim, int) else size if axis else first
                                   for axis, dim in enumerate(spec.shape)) for spec in inputs}
                 for first, size in ((1, 5), (8, 12)))  # fmt: skip
    ranges = resolve_ranges(inputs, min_shapes=low, max_shapes=high)
    domains = observe_domains(inputs, ranges.shapes("typical"))
    return prove_batching(OrtRunner(model), inputs, outputs, domains, ranges, max_batch_size=max_batch_size)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.__name__)
def test_a_planted_fault_is_refused(case: Case) -> None:
    """The verdict is no, and its sentence names the tensor and the fault."""
    verdict = judge(case())
    assert not verdict.proved
    assert re.search(REFUSED[case], verdict.reason), verdict.reason


@pytest.mark.parametrize("case", PROVED, ids=lambda case: case.__name__)
@pytest.mark.parametrize("largest", [8, 33])
def test_a_sound_model_is_proved(case: Case, largest: int) -> None:
    """Rounding of batched kernels is no reason to refuse."""
    verdict = judge(case(), max_batch_size=largest)
    assert verdict.proved, verdict.reason
