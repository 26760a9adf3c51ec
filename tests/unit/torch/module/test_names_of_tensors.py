"""Names made from places: readable, unique, and independent of order."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from aitune.torch.module.locator import Locator, ObjectType
from aitune.torch.module.names import readable_name, unique_names

accessors = st.one_of(
    st.integers(0, 3), st.sampled_from(["a", "b", "a_b", "a_b_2", "é", "名", "", "x y", "1", ("a", "b")])
)
places = st.builds(
    lambda steps: Locator(tuple(steps)), st.lists(st.tuples(accessors, st.sampled_from(ObjectType)), max_size=3)
)


def names(data: object, prefix: str = "input", is_output: bool = False) -> list[str]:
    """The names of all leaves of some data."""
    return list(unique_names([place for place, _ in Locator.find_leaves(data, is_output=is_output)], prefix).values())


def test_names_are_the_bare_steps_of_the_path() -> None:
    """A parameter keeps its name; nesting is joined by underscores."""
    assert names({"input_ids": 1, "past": [{"key": 1}], "my key": 2}) == ["input_ids", "past_0_key", "my_key"]


def test_outputs_are_named_after_the_prefix_where_they_have_no_name() -> None:
    """A lone tensor is the prefix itself, an element of a tuple the prefix with its number."""
    assert names(1, "output", is_output=True) == ["output"]
    assert names((1, {"logits": 2}), "output", is_output=True) == ["output_0", "output_1_logits"]


def test_nested_and_spelled_out_names_do_not_collide() -> None:
    """The one spelled like the name gets it, whatever the order."""
    assert names({"a": {"b": 1}, "a_b": 2}) == ["a_b_2", "a_b"]
    assert names({"a_b": 2, "a": {"b": 1}}) == ["a_b", "a_b_2"]
    assert names({"a": {"b": 1}, "a_b": 2, "a_b_2": 3}) == ["a_b_3", "a_b", "a_b_2"]


def test_letters_beyond_ascii_are_spelled_without_marks_or_left_out() -> None:
    """Accents are dropped; what nothing remains of gets the prefix."""
    assert names({"é": 1, "名": 2, "": 3}) == ["e", "input_2", "input"]


def test_outputs_avoid_the_names_of_inputs() -> None:
    """Inputs and outputs share one namespace."""
    (place, _), *_ = Locator.find_leaves({"x": 1}, is_output=True)
    assert unique_names([place], "output", taken=["x", "x_2"]) == {place: "x_3"}


@given(st.lists(places, max_size=8, unique=True), st.randoms(use_true_random=False))
def test_names_are_unique_and_do_not_depend_on_order(found: list[Locator], shuffler: random.Random) -> None:
    """However the places are ordered, each gets the same name, and no two get one."""
    named = unique_names(found, "input")
    assert list(named) == found
    assert len(set(named.values())) == len(found)
    assert all(name.isascii() and name.isidentifier() for name in named.values())
    assert all(name.startswith(readable_name(place, "input")) for place, name in named.items())
    shuffled = found.copy()
    shuffler.shuffle(shuffled)
    assert unique_names(shuffled, "input") == named
