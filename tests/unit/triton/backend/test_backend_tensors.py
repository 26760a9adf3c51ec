"""Arrays in, rows out, ragged inputs and states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from aitune.triton.backends.onnxruntime.plan import Plan
from aitune.triton.backends.onnxruntime.ragged import batch_input, scatter
from aitune.triton.backends.onnxruntime.signature import Signature, Tensor
from aitune.triton.backends.onnxruntime.tensors import as_scalar, joined, split, texts

SHAPES = [(1, 3), (2, 2)]


def test_one_array_is_joined_without_a_copy() -> None:
    """A batch of one is the common case."""
    array = np.ones((1, 2))
    assert joined([array]) is array
    assert joined([array, array]).shape == (2, 2)


def test_text_is_decoded_and_bytes_are_kept() -> None:
    """In the shape they came in."""
    decoded = texts(np.array([[b"a", "ü".encode()]], dtype=object))
    assert decoded.tolist() == [["a", "ü"]]
    kept = texts(np.array([b"\xff\xfe", b"a\x00b"], dtype=object))
    assert kept.dtype.kind == "S"
    assert kept.tolist() == [b"\xff\xfe", b"a\x00b"]


def test_bytes_that_would_lose_their_end_are_refused() -> None:
    """NumPy's byte strings drop trailing zeros."""
    with pytest.raises(ValueError, match="may not end with a zero byte"):
        texts(np.array([b"\xff\x00"], dtype=object))


def test_a_scalar_is_one_value_however_often_it_was_sent() -> None:
    """Equal rows agree; different ones, and none, do not."""
    assert as_scalar(np.array([[2.0], [2.0]]), "t").shape == ()
    for bad in (np.array([1, 2]), np.array([])):
        with pytest.raises(ValueError, match="input 't' is a scalar in the model"):
            as_scalar(bad, "t")


def test_rows_are_given_out_in_order_until_they_are_used_up() -> None:
    """What is left over is dropped; what is missing is named."""
    array = np.arange(8).reshape(4, 2)
    first, second = split(array, "y", [1, 2], (2,))
    assert_array_equal(np.concatenate([first, second]), array[:3])
    *_, last = split(array, "y", [3, 2], (2,))
    assert last == (
        "failed to split the output tensor 'y' in responses: expected batch size of at least 5 in model output, got 4"
    )


def test_a_scalar_output_takes_the_configured_dims() -> None:
    """Which is room for one row."""
    only, none = split(np.array(7), "m", [1, 1], (1,))
    assert_array_equal(only, [7])
    assert isinstance(none, str)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("BATCH_ELEMENT_COUNT", [3, 4]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT", [3, 7]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", [0, 3, 7]),
        ("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", [0, 0, 0, 0]),
        ("BATCH_ITEM_SHAPE", [[3], [2], [2]]),
        ("BATCH_ITEM_SHAPE_FLATTEN", [3, 2, 2]),
    ],
)
def test_batch_inputs_tell_how_requests_lie(kind: str, expected: list[Any]) -> None:
    """Two requests, of 1 x 3 and 2 x 2 elements."""
    made = batch_input({"kind": kind, "data_type": "TYPE_FP32"}, SHAPES)
    assert made.dtype == np.float32
    assert made.tolist() == expected


def test_the_first_kind_is_the_default_and_types_are_followed() -> None:
    """A config leaves out an enum's zero."""
    assert batch_input({"data_type": "TYPE_INT32"}, SHAPES).dtype == np.int32


def test_an_output_is_cut_as_its_source_was() -> None:
    """Sizes of -1 are the source's; too few elements are named."""
    pieces = scatter(np.arange(7), (-1, -1), SHAPES, "y")
    assert [piece.tolist() for piece in pieces if not isinstance(piece, str)] == [[[0, 1, 2]], [[3, 4], [5, 6]]]
    assert "expected at least 7 elements in model output, got 6" in scatter(np.arange(6), (-1, -1), SHAPES, "y")[1]


def plan(config: dict[str, Any], **inputs: Tensor) -> Plan:
    """A plan for a batching model."""
    made = {"name": "m", "max_batch_size": 8, "output": [{"name": "y", "dims": [-1]}], **config}
    return Plan(made, Signature(inputs=inputs, initializers={}, outputs={}))


def test_ragged_inputs_do_not_part_a_batch() -> None:
    """Different lengths lie end to end; the batch input comes along, and the output is cut again."""
    made = plan(
        {
            "input": [{"name": "x", "allow_ragged_batch": True}],
            "batch_input": [{"source_input": ["x"], "target_name": ["n"], "data_type": "TYPE_INT32"}],
            "batch_output": [{"source_input": ["x"], "target_name": ["y"]}],
        },
        x=Tensor("TYPE_FP32", (-1,)),
        n=Tensor("TYPE_INT32", (-1,)),
    )
    requests = [{"x": np.array([[1.0, 2.0]])}, {"x": np.array([[3.0]])}]
    assert made.groups(requests) == [[0, 1]]
    feeds = made.feeds(requests)
    assert feeds["x"].tolist() == [1, 2, 3]
    assert feeds["n"].tolist() == [2, 1]
    assert [part.tolist() for part in made.parts("y", feeds["x"], requests)] == [[[1, 2]], [[3]]]


def test_scalars_and_strings_are_prepared_for_the_model() -> None:
    """Requests with different scalars are run apart."""
    made = plan({}, x=Tensor("TYPE_STRING", (-1, 1)), t=Tensor("TYPE_FP32", ()))
    words = np.array([[b"a"]], dtype=object)
    requests = [{"x": words, "t": np.array([[value]], np.float32)} for value in (1, 2, 1)]
    assert made.groups(requests) == [[0, 2], [1]]
    feeds = made.feeds([requests[0], requests[2]])
    assert feeds["x"].tolist() == [["a"], ["a"]]
    assert feeds["t"].shape == ()


def test_requests_with_several_inputs_are_grouped_whatever_their_order() -> None:
    """A client may send its tensors in any order."""
    made = plan({}, a=Tensor("TYPE_FP32", (-1, 1)), b=Tensor("TYPE_FP32", (-1, -1)))
    one, two = np.ones((1, 1)), np.ones((1, 2))
    assert made.groups([{"a": one, "b": two}, {"b": two, "a": one}, {"a": one, "b": one}]) == [[0, 1], [2]]


def test_without_batching_an_output_is_passed_on() -> None:
    """A scalar takes the configured dims."""
    made = plan({"max_batch_size": 0, "output": [{"name": "y", "dims": [1, 1]}]}, x=Tensor("TYPE_FP32", (-1,)))
    array = np.ones(3)
    assert made.parts("y", array, [{}])[0] is array
    assert np.shape(made.parts("y", np.array(1.0), [{}])[0]) == (1, 1)


def test_a_model_without_inputs_makes_one_row_a_request() -> None:
    """There is nothing to count rows by."""
    assert [np.shape(part) for part in plan({}).parts("y", np.ones((2, 3)), [{}, {}])] == [(1, 3), (1, 3)]
