"""Shapes that a model is tried at."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tuning_fakes import interface

from aitune.errors import SourceError, UsageError
from aitune.records import DType, TensorSpec
from aitune.records.interface import Port
from aitune.tuning import ShapeRange, resolve_ranges, tensor_specs

IDS = TensorSpec("ids", DType.INT64, ("batch", "sequence"))
MASK = TensorSpec("mask", DType.INT64, ("batch", "sequence"))
IMAGE = TensorSpec("image", DType.FLOAT32, (None, 3, None, None))
FIXED = TensorSpec("anchors", DType.FLOAT32, (4, 3))
BOUNDS = {"min_shapes": {"ids": (1, 8)}, "max_shapes": {"ids": (8, 512)}}


def sample(**shapes: tuple[int, ...]) -> dict[str, Any]:
    """A recorded request of these shapes."""
    return {name: np.zeros(shape) for name, shape in shapes.items()}


def test_what_is_said_of_a_symbol_holds_for_every_input() -> None:
    """Equal symbols are equal sizes: the mask follows the ids."""
    ranges = resolve_ranges([IDS, MASK], **BOUNDS)
    for label, shape in {"smallest": (1, 8), "typical": (1, 64), "largest": (8, 512)}.items():
        assert ranges.shapes(label) == {"ids": shape, "mask": shape}
    assert ranges.max_batch_size == 8
    assert not ranges.guessed


def test_a_first_axis_that_nobody_names_is_tried_from_1_to_8() -> None:
    """A guess, and marked as one; no largest batch was named."""
    ranges = resolve_ranges([TensorSpec("x", DType.FLOAT32, ("batch", 4))])
    assert ranges.inputs == (ShapeRange(name="x", min_shape=(1, 4), typical_shape=(1, 4), max_shape=(8, 4)),)
    assert ranges.guessed
    assert ranges.max_batch_size is None


def test_other_dynamic_axes_need_a_range_and_all_are_listed() -> None:
    """One error names every axis without a range, and the hint is an option that can be copied."""
    with pytest.raises(
        UsageError, match="no range: axis 1 of 'ids' \\('sequence'\\), axis 2 of 'image', axis 3"
    ) as caught:
        resolve_ranges([IDS, IMAGE])
    assert "--min-shape ids=N,N" in caught.value.hint


def test_a_symbol_on_another_axis_too_is_not_guessed() -> None:
    """The first axis of a square is not a batch."""
    with pytest.raises(UsageError, match="axis 0 of 'a' \\('n'\\), axis 1 of 'a' \\('n'\\)"):
        resolve_ranges([TensorSpec("a", DType.FLOAT32, ("n", "n"))])


def test_the_geometric_middle_respects_what_both_ends_are_multiples_of() -> None:
    """An image between 224 and 640, both multiples of 32, is typically one too."""
    ranges = resolve_ranges([IMAGE], min_shapes={"image": (1, 3, 224, 224)}, max_shapes={"image": (4, 3, 640, 640)})
    assert ranges.shapes("typical")["image"] == (1, 3, 384, 384)


def test_a_largest_size_alone_is_enough() -> None:
    """The smallest is then 1."""
    ranges = resolve_ranges([IDS], max_shapes={"ids": (4, 16)})
    assert ranges.shapes("smallest")["ids"] == (1, 1)


def test_samples_give_the_range_and_the_middle_one_is_typical() -> None:
    """Three recorded requests: smallest and largest size per axis, the middle one by size in between."""
    samples = [sample(ids=shape, mask=shape) for shape in ((8, 128), (1, 8), (2, 32))]
    ranges = resolve_ranges([IDS, MASK], samples=samples)
    assert ranges.shapes("smallest")["ids"] == (1, 8)
    assert ranges.shapes("typical")["mask"] == (2, 32)
    assert ranges.shapes("largest")["ids"] == (8, 128)
    assert ranges.max_batch_size is None
    assert not ranges.guessed


def test_options_go_before_samples() -> None:
    """A wider or a narrower bound is what the user says, and the typical shape stays between."""
    samples = [sample(ids=(2, 32))]
    ranges = resolve_ranges([IDS], samples=samples, max_shapes={"ids": (8, 16)}, min_shapes={"ids": (1, 4)})
    assert ranges.shapes("typical")["ids"] == (2, 16)
    typical = resolve_ranges([IDS], samples=samples, typical_shapes={"ids": (4, 64)})
    assert typical.shapes("largest")["ids"] == (4, 64)


def test_fixed_axes_are_what_the_file_says() -> None:
    """And an input without a free first axis takes no batch."""
    ranges = resolve_ranges([IDS, FIXED], **BOUNDS)
    assert ranges.shapes("largest")["anchors"] == (4, 3)
    changed = ranges.with_first_axis(["ids"], 1, 2, 3)
    assert changed.shapes("largest") == {"ids": (3, 512), "anchors": (4, 3)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_shapes": {"idz": (1, 8)}}, "min shape is given for 'idz', which is no input; inputs are 'ids', 'mask'"),
        ({"max_shapes": {"ids": (8,)}}, r"max shape of input 'ids' is \(8,\), and the file declares 2 axes"),
        ({"max_shapes": {"ids": (8, 0)}}, r"\(8, 0\), which does not fit \(batch, sequence\) on axis 1"),
        ({"max_shapes": {"ids": (8, 9), "mask": (8, 7)}}, "'ids' and 'mask' give 'sequence' two sizes, 9 and 7"),
        ({"min_shapes": {"ids": (1, 9)}, "max_shapes": {"ids": (8, 5)}}, "need 1 <= min <= typical <= max"),
    ],
)
def test_options_that_contradict_the_file_or_each_other(options: Any, message: str) -> None:
    """Each is a usage error that names input, axis and sizes."""
    with pytest.raises(UsageError, match=message):
        resolve_ranges([IDS, MASK], **options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (sample(ids=(1, 8)), "sample 0 lacks input 'mask', it has 'ids'"),
        (sample(ids=(1, 8), mask=(1, 9)), "sample 0 gives 'sequence' two sizes, 8 and 9"),
        (sample(ids=(8,), mask=(1, 8)), r"sample 0 of input 'ids' is \(8,\), and the file declares 2 axes"),
        (sample(ids=(0, 8), mask=(0, 8)), "does not fit"),
    ],
)
def test_samples_that_do_not_fit_the_file(given: Any, message: str) -> None:
    """Each is a source error that names sample and input."""
    with pytest.raises(SourceError, match=message):
        resolve_ranges([IDS, MASK], samples=[given])


def test_a_fixed_axis_cannot_be_given_another_size() -> None:
    """Neither by an option nor by a sample."""
    with pytest.raises(UsageError, match=r"max shape of input 'anchors' is \(5, 3\), which does not fit \(4, 3\)"):
        resolve_ranges([FIXED], max_shapes={"anchors": (5, 3)})
    with pytest.raises(SourceError, match="sample 0 of input 'anchors'"):
        resolve_ranges([FIXED], samples=[sample(anchors=(5, 3))])


PORTS = [
    (Port(name="s", kind="sequence"), "output 's' is a sequence, and a server takes tensors only"),
    (Port(name="f", element_type="FLOAT8E4M3FN", shape=(1,)), "output 'f' holds FLOAT8E4M3FN"),
    (Port(name="r", dtype=DType.INT8), "output 'r' does not declare how many axes it has"),
    (Port(name="z", dtype=DType.INT8, shape=(2, 0)), r"output 'z' declares the shape \(2, 0\)"),
]


@pytest.mark.parametrize(("port", "message"), PORTS)
def test_a_port_that_no_contract_can_hold(port: Port, message: str) -> None:
    """Kind, element type, rank and empty axes: each refusal names the port."""
    with pytest.raises(SourceError, match=re.escape(message) if "(" not in message else message):
        tensor_specs([port], "output")


def test_a_blank_symbol_is_an_unnamed_axis() -> None:
    """Some exporters write an empty name."""
    port = Port(name="x", dtype=DType.INT8, shape=("", "n", 3, None))
    assert tensor_specs([port], "input")[0].shape == (None, "n", 3, None)


def test_a_question_mark_is_no_symbol() -> None:
    """Some exporters write it for every size they do not know, which does not make them equal."""
    face = interface({"x": ("?", 3, "?", " ")}, {"y": ("?", "n")})
    assert tensor_specs(face.inputs, "input")[0].shape == (None, 3, None, None)
    assert tensor_specs(face.outputs, "output")[0].shape == (None, "n")
