"""Running ONNX files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from aitune.errors import SourceError, UsageError
from aitune.onnx.runtime import session_options, telling_line
from aitune.onnx.session import OnnxRunner
from aitune.tuning.runner import Runner

Write = Callable[..., Path]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
LEVELS = onnxruntime.GraphOptimizationLevel


def test_a_runner_gives_every_output_by_name(relu: Write) -> None:
    """The runner is the protocol's, and what it returns is not overwritten by the next call."""
    runner = OnnxRunner(relu())
    assert isinstance(runner, Runner)
    first = runner.run({"x": np.array([[1, -2, 3, -4]], np.float32)})
    runner.run({"x": np.zeros((2, 4), np.float32)})
    assert first["y"].tolist() == [[1, 0, 3, 0]]


def test_a_scalar_stays_a_scalar(relu: Write) -> None:
    """A rank-0 tensor goes in and comes out with rank 0."""
    found = OnnxRunner(relu(())).run({"x": np.array(-3, np.float32)})["y"]
    assert (type(found), found.shape, found.item()) == (np.ndarray, (), 0.0)


@pytest.mark.parametrize("shape", [(2, 4), (0, 4)])
def test_bfloat16_travels_as_raw_bits(relu: Write, shape: tuple[int, ...]) -> None:
    """B22: numpy has no bfloat16; the bits come back as they went in, also for no rows at all."""
    bits = np.arange(np.prod(shape), dtype=np.uint16).reshape(shape)
    found = OnnxRunner(relu(dtype=TensorProto.BFLOAT16)).run({"x": bits})["y"]
    assert found.dtype == np.uint16
    assert (found.shape, found.tolist()) == (shape, bits.tolist())


def test_bfloat16_beside_other_types(build: Write) -> None:
    """A cast from float to bfloat16 takes one and gives the other; strings cannot be passed along with them."""
    nodes = [
        helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16),
        helper.make_node("Identity", ["x"], ["z"]),
    ]
    outputs = [("y", TensorProto.BFLOAT16, ["N"]), ("z", FLOAT, ["N"])]
    found = OnnxRunner(build(nodes, [("x", FLOAT, ["N"])], outputs)).run({"x": np.array([1.0], np.float32)})
    assert (found["y"].tolist(), found["z"].tolist()) == ([0x3F80], [1.0])
    path = build(nodes, [("x", FLOAT, ["N"]), ("s", TensorProto.STRING, ["M"])], outputs)
    with pytest.raises(SourceError, match="has both BFLOAT16 and STRING tensors"):
        OnnxRunner(path)


def test_strings_are_bytes_on_our_side(relu: Write) -> None:
    """Text goes in and out as UTF-8 bytes, of any shape."""
    given = np.array([[b"a", "é".encode()], [b"", b"\0"]], dtype=object)
    found = OnnxRunner(relu(("N", 2), dtype=TensorProto.STRING)).run({"x": given})["y"]
    assert found.dtype == object
    assert found.tolist() == given.tolist()


def test_text_that_is_not_utf8_is_refused_in_both_directions(relu: Write, build: Write) -> None:
    """ONNX Runtime knows text only; bytes that are none are an error that names the input, or the output's fault."""
    runner = OnnxRunner(relu(["N"], dtype=TensorProto.STRING))
    with pytest.raises(SourceError, match=r"input 'x' holds text that is not UTF-8: b'\\xff'"):
        runner.run({"x": np.array([b"\xff"], object)})
    with pytest.raises(UsageError, match="input 'x' must hold bytes, got str"):
        runner.run({"x": np.array(["a"], object)})
    value = helper.make_tensor("c", TensorProto.STRING, [1], [b"\xff"])
    path = build([helper.make_node("Constant", [], ["y"], value=value)], [], [("y", TensorProto.STRING, [1])])
    with pytest.raises(SourceError, match="put out text that is not UTF-8"):
        OnnxRunner(path).run({})


def test_arrays_of_any_layout_and_byte_order_are_taken(relu: Write) -> None:
    """A transposed, read-only or big-endian array means its values, not its memory."""
    runner = OnnxRunner(relu((2, 3)))
    rows = np.arange(6, dtype=">f4").reshape(3, 2).T
    rows.setflags(write=False)
    assert runner.run({"x": rows})["y"].tolist() == [[0, 2, 4], [1, 3, 5]]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "lacks input 'x'"),
        ({"x": np.zeros((1, 4), np.float32), "q": np.zeros(1)}, "has the unknown input 'q'"),
        ({"x": np.zeros((1, 4))}, "input 'x' of type float32 must be held as numpy float32, got float64"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_by_name(relu: Write, inputs: Any, message: str) -> None:
    """Missing, unknown and mistyped inputs are found before ONNX Runtime is asked."""
    with pytest.raises(UsageError, match=message):
        OnnxRunner(relu()).run(inputs)


def test_a_closed_runner_says_so(relu: Write) -> None:
    """Closing twice does nothing, running after it is an error."""
    runner = OnnxRunner(relu())
    runner.close()
    runner.close()
    with pytest.raises(UsageError, match="is closed"):
        runner.run({"x": np.zeros((1, 4), np.float32)})


def test_inputs_with_an_initializer_may_be_given_or_left_out(build: Write) -> None:
    """B27: an overridable initializer is an optional input."""
    weights = helper.make_tensor("w", FLOAT, [1], [1.0])
    ports = [("x", FLOAT, ["N"]), ("w", FLOAT, [1])]
    path = build([helper.make_node("Add", ["x", "w"], ["y"])], ports, [("y", FLOAT, ["N"])], [weights])
    runner, x = OnnxRunner(path), np.array([1.0], np.float32)
    assert runner.run({"x": x})["y"].tolist() == [2.0]
    assert runner.run({"x": x, "w": np.array([5.0], np.float32)})["y"].tolist() == [6.0]


def test_what_fails_inside_is_one_line_without_paths(build: Write) -> None:
    """B02: a baked-in Reshape fails at another batch; the reason may go into a record, so it names no file."""
    target = helper.make_tensor("target", INT64, [2], [2, 4])
    node = helper.make_node("Reshape", ["x", "target"], ["y"])
    path = build([node], [("x", FLOAT, ["N", 4])], [("y", FLOAT, ["N", 4])], [target])
    runner = OnnxRunner(path)
    with pytest.raises(
        SourceError, match=r"^the model failed: .*Input shape:\{3,4\}, requested shape:\{2,4\}"
    ) as caught:
        runner.run({"x": np.zeros((3, 4), np.float32)})
    assert not any(word in caught.value.message for word in ("/onnx", str(path.parent), "\n"))
    with pytest.raises(SourceError, match=r"Got invalid dimensions for input: x .*index: 1 Got: 5 Expected: 4"):
        runner.run({"x": np.zeros((3, 5), np.float32)})


def test_a_tensor_that_no_array_can_hold_is_refused(relu: Write, build: Write) -> None:
    """A float8 tensor and a sequence cannot be handed over."""
    with pytest.raises(SourceError, match=r"input 'x' of .* is a tensor\(float8e4m3fn\), which no array can hold"):
        OnnxRunner(relu(dtype=TensorProto.FLOAT8E4M3FN, opsets=(("", 19),), ir=9))
    split = helper.make_node("SplitToSequence", ["x"], ["s"], axis=0)
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    with pytest.raises(SourceError, match=r"output 's' of .* is a seq\(tensor\(float\)\)"):
        OnnxRunner(build([split], [("x", FLOAT, ["N", 4])], [sequence]))


def test_settings_mean_what_triton_means_by_them() -> None:
    """R231-R243: names, booleans and Triton's own numbering of optimisation levels."""
    options = session_options(
        {
            "intra_op_thread_count": "3",
            "inter_op_thread_count": "-1",
            "execution_mode": "1",
            "enable_mem_arena": "False",
            "enable_mem_pattern": "off",
            "optimization.graph.level": "2",
        }
    )
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (3, 0)
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert (options.enable_cpu_mem_arena, options.enable_mem_pattern) == (False, False)
    assert options.graph_optimization_level == LEVELS.ORT_DISABLE_ALL


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("-1", LEVELS.ORT_ENABLE_BASIC),
        ("1", LEVELS.ORT_ENABLE_EXTENDED),
        ("0", LEVELS.ORT_ENABLE_ALL),
        ("99", LEVELS.ORT_ENABLE_ALL),
    ],
)
def test_graph_levels_are_tritons_numbers(value: str, level: Any) -> None:
    """R243: 0 and every unknown number mean all optimisations."""
    assert session_options({"optimization.graph.level": value}).graph_optimization_level == level


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threads": "1"}, "'threads' is no session setting"),
        ({"intra_op_thread_count": "two"}, "intra_op_thread_count must be a whole number, got 'two'"),
        ({"execution_mode": "2"}, "execution_mode must be 0"),
        ({"enable_mem_arena": "yes"}, "enable_mem_arena must be true or false, got 'yes'"),
    ],
)
def test_a_setting_that_triton_would_refuse_is_refused(settings: dict[str, str], message: str) -> None:
    """A bad key or value never becomes a silent default."""
    with pytest.raises(UsageError, match=message):
        session_options(settings)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (" \n", "no reason given"),
        (
            "[ONNXRuntimeError] : 1 : FAIL : Load model from a b.onnx failed:Protobuf parsing failed.",
            "Protobuf parsing failed",
        ),
        (
            "Exception during initialization: /o/c.cc:2 o::C::C(const T&)::<lambda()> Failed to construct",
            "Failed to construct",
        ),
        ("/o/a.cc:1 bool o::F(const std::map<int, int>&) const [E] : 1 : FAIL : bad", "[E] : 1 : FAIL : bad"),
        (
            "Non-zero status code returned while running Gather node. Name:'g' Status Message: out of range",
            "Gather 'g': out of range",
        ),
    ],
)
def test_the_telling_part_of_an_error_is_kept(text: str, line: str) -> None:
    """Codes, source positions and signatures say nothing to a user; the reason does."""
    assert telling_line(text) == line
