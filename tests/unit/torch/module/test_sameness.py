"""Equality and hash of metadata: an equivalence, whatever the leaves are."""

from __future__ import annotations

import enum
import itertools
from collections import UserDict
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aitune.torch.module.exact_sample_metadata import ExactSampleMetadata
from aitune.torch.module.leaf_values import Placeholder, leaf_key
from aitune.torch.module.locator import Locator, ObjectType
from aitune.torch.module.sample_metadata import SampleMetadata

PLACE = Locator((("v", ObjectType.DICT),))


def holding(value: object, phase: str | None = None) -> SampleMetadata:
    """Metadata with one leaf that is no tensor, however it might be walked."""
    return SampleMetadata((), ((PLACE, value),), strict=True, llm_phase=phase)


class Color(enum.Enum):
    """An enum without an equality of its own."""

    RED = 1
    BLUE = 2


class Mode(enum.IntEnum):
    """An enum that is an int."""

    FAST = 1


class Plain:
    """A class without an equality of its own."""


class Other(Plain):
    """Another one."""


class Picky:
    """Unhashable, with an equality that gives an answer, fails, or gives none."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def __eq__(self, other: object) -> bool:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # on purpose

    __hash__ = None  # type: ignore[assignment]  # on purpose


def act(x: object) -> object:
    """A function."""
    return x


SAME: list[tuple[Any, Any]] = [
    (1, True), (2, 2.0), (np.int64(3), 3), (Mode.FAST, 1), ("a", "a"), (None, None),
    ({1, 2}, frozenset({2, 1})), ({"a": 1}.keys(), {"a"}), ({"a": [1]}, UserDict({"a": [1]})),
    (np.arange(3), np.arange(3)), (np.array([object], object), np.array([object], object)),
    (torch.zeros(2, 3), torch.ones(9, 9)), ({torch.zeros(2)}, {torch.zeros(5)}),
    (Plain(), Plain()), (iter([1]), iter([2])), (lambda x: x + 1, lambda x: x + 1),
    (Color.RED, Color.RED), (torch.float32, torch.float32), (torch.device("cpu"), torch.device("cpu")),
    (Placeholder("object", f"{__name__}:Plain"), Plain()), ([1, (2, {3})], [1, (2, {3})]),
]  # fmt: skip
DIFFERENT: list[tuple[Any, Any]] = [
    (1, 2), (1, "1"), (None, 0), ([1], (1,)), ({1}, {2}), ({1}, [1]), ({"a": 1}, {"a": 2}),
    (np.arange(3), np.arange(4)), (np.arange(3), np.arange(3.0)), (np.arange(3), np.arange(3)[::-1]),
    (torch.zeros(2), torch.zeros(2, 1)), ({torch.zeros(2)}, {torch.zeros(2), torch.zeros(3)}),
    (Plain(), Other()), (lambda x: x + 1, lambda x: x + 2), (act, len), (int, float), (Color.RED, Color.BLUE),
    (torch.float32, torch.float16), (torch.contiguous_format, torch.channels_last), (np.arange(3), [0, 1, 2]),
    (Picky(False), Picky(False)), (Picky(ValueError("no")), Picky(1)), (Picky([]), Picky([])), (Picky(1), Plain()),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SAME)
def test_leaves_that_say_the_same_are_the_same(left: Any, right: Any) -> None:
    """Equal both ways round, with equal hashes."""
    one, other = holding(left), holding(right)
    assert one == other
    assert other == one
    assert hash(one) == hash(other)


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_leaves_that_say_different_things_are_different(left: Any, right: Any) -> None:
    """Unequal both ways round, equal to themselves, and hashable."""
    one, other = holding(left), holding(right)
    assert one != other
    assert other != one
    assert one == holding(left)
    assert len({one, other}) == 2


def test_an_object_with_an_equality_is_asked() -> None:
    """An unhashable object that says yes is the same leaf."""
    assert holding(Picky(True)) == holding(Picky(True))
    assert hash(holding(Picky(True))) == hash(holding(Picky(False)))


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, 1.0, "a", b"a", Color.RED, int])
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.tuples(inner),
        st.sets(scalars, max_size=2),
        st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        st.builds(lambda data: np.array(data, object), st.lists(inner, min_size=1, max_size=1)),
    ),
    max_leaves=4,
)


@given(values, values, values, *[st.sampled_from([None, "prefill", "decode"])] * 3)
def test_equality_is_an_equivalence(a: Any, b: Any, c: Any, p: str | None, q: str | None, r: str | None) -> None:
    """Reflexive, symmetric, transitive, and in step with the hash."""
    three = [holding(a, p), holding(b, q), holding(c, r)]
    assert all(one == one for one in three)
    for x, y, z in itertools.permutations(three):
        assert (x == y) == (y == x)
        assert x != y or hash(x) == hash(y)
        assert not (x == y and y == z) or x == z


@given(values)
def test_a_key_is_stable(value: Any) -> None:
    """The key of a value equals itself and can be hashed."""
    assert leaf_key(value) == leaf_key(value)
    hash(leaf_key(value))


def test_the_order_of_tensors_does_not_count() -> None:
    """The same places in another order are the same metadata, also beside other leaves."""
    one = SampleMetadata.from_inputs({"a": torch.zeros(1), "b": torch.zeros(1, 1), "n": 1, "m": 2}, strict=True)
    other = SampleMetadata.from_inputs({"m": 2, "b": torch.zeros(1, 1), "n": 1, "a": torch.zeros(1)}, strict=True)
    assert one == other
    assert hash(one) == hash(other)
    fewer = SampleMetadata.from_inputs({"a": torch.zeros(1), "b": torch.zeros(1, 1)}, strict=True)
    assert one != fewer


def test_a_subclass_is_another_kind_of_metadata() -> None:
    """Neither side calls the other equal."""

    class Special(SampleMetadata):
        pass

    inputs = {"x": torch.zeros(1)}
    assert SampleMetadata.from_inputs(inputs) != Special.from_inputs(inputs)
    assert Special.from_inputs(inputs) != SampleMetadata.from_inputs(inputs)
    assert type(Special.from_inputs(inputs)) is Special


def test_exact_metadata_tells_sizes_apart() -> None:
    """Equal shapes are equal, other sizes or leaves are not, and neither phase nor context batch size is looked at."""
    make = ExactSampleMetadata.from_inputs
    inputs = {"x": torch.zeros(1, 2), "n": 1, "cache_position": torch.tensor([0])}
    one = make(inputs)
    assert one == make(inputs)
    assert hash(one) == hash(make(inputs))
    assert one != make({**inputs, "x": torch.zeros(1, 3)})
    assert one != make({**inputs, "n": 2})
    assert one != SampleMetadata.from_inputs(inputs, strict=True)
    assert (one.llm_phase, one.strict, one.tensor_specs[0].batch_sizes) == ("", True, frozenset())
