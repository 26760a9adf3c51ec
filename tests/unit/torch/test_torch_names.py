"""Names of tensors: readable, unique, stable, and the user's if the user wants."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitune.errors import UsageError
from aitune.torch.module.locator import Locator, ObjectType
from aitune.torch.names import input_names, output_names, renamed, symbol_name

accessors = st.one_of(
    st.integers(0, 3), st.sampled_from(["a", "b", "a_b", "a.b", "a_b_2", "é", "名", "", "x y", "-1", "1", ("a", "b")])
)
anywhere = st.builds(
    lambda steps: Locator(tuple(steps)), st.lists(st.tuples(accessors, st.sampled_from(ObjectType)), max_size=3)
)


def places(nested: Any) -> list[Locator]:
    """Where the leaves are."""
    return [place for place, _ in Locator.find_leaves(nested)]


@pytest.mark.parametrize(
    ("nested", "names"),
    [
        ({"a": {"b": 1}, "a_b": 2, "a.b": 3}, ("a.b", "a_b", "a_b_2")),
        ({"a b": 1, "a/b": 2}, ("a_b", "a_b_2")),
        ({"é": 1, "名": 2, "": 3}, ("e", "input_2", "input")),
        ({"a_b_2": 1, "a b": 2, "a_b": 3}, ("a_b_2", "a_b_3", "a_b")),
        ({"_x": 1, "7": 2, 7: 3}, ("_x", "input_7", "input_7_2")),
        ({"xs": (1, [2])}, ("xs.0", "xs.1.0")),
    ],
)
def test_input_names_never_collide(nested: Any, names: tuple[str, ...]) -> None:
    """Keys that look alike once they are names get a number (D36)."""
    found = input_names(places(nested))
    assert len(set(found)) == len(found)
    assert found == names


@given(st.lists(anywhere, max_size=8, unique=True), st.randoms(use_true_random=False))
def test_names_do_not_depend_on_order(found: list[Locator], shuffler: random.Random) -> None:
    """However the places are ordered, each gets the same name, no two get one, and every name is plain text."""
    named = dict(zip(found, input_names(found), strict=True))
    assert len(set(named.values())) == len(found)
    assert all(name.isascii() and name.replace(".", "").replace("-", "").isidentifier() for name in named.values())
    shuffled = found.copy()
    shuffler.shuffle(shuffled)
    assert dict(zip(shuffled, input_names(shuffled), strict=True)) == named


@pytest.mark.parametrize(
    ("nested", "names"),
    [
        (1, ("output",)),
        ((1, 2), ("output_0", "output_1")),
        ({"scores": 1, "aux": {"boxes": [2]}}, ("scores", "aux.boxes.0")),
        ([(1, 2)], ("output_0.0", "output_0.1")),
    ],
)
def test_output_names_are_keys_or_numbers(nested: Any, names: tuple[str, ...]) -> None:
    """Dict keys are names; positions are numbered."""
    assert output_names(places(nested)) == names


def test_an_output_never_has_the_name_of_an_input() -> None:
    """One namespace for both sides."""
    assert output_names(places({"x": 1, "x_out": 2}), ("x",)) == ("x_out_2", "x_out")


def test_a_user_renames_some_or_all() -> None:
    """A mapping renames some, a sequence all, a word the only one."""
    assert renamed(("a", "b"), {"b": "c"}, "output") == ("a", "c")
    assert renamed(("a", "b"), ["x", "y"], "output") == ("x", "y")
    assert renamed(("a",), "x", "output") == ("x",)
    assert renamed(("a", "b"), None, "output") == ("a", "b")


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"z": "c"}, "there is no output 'z' to rename"),
        (["x"], "1 output names were given for 2 outputs"),
        (["x", "x"], "'x' is used twice"),
        ({"a": "b"}, "'b' is used twice"),
        (["x", " "], "' ' is blank"),
    ],
)
def test_wishes_that_cannot_be_are_refused(wish: Any, message: str) -> None:
    """Unknown, too few, equal and blank names are named."""
    with pytest.raises(UsageError, match=message):
        renamed(("a", "b"), wish, "output")


def test_symbols_read_like_the_field() -> None:
    """Tokens have a sequence, images height and width, anything else the name of its input."""
    assert symbol_name("mask", 1, 2, floating=False) == "sequence"
    assert symbol_name("x.y", 1, 3, floating=True) == "x_y_dim1"
    assert symbol_name("image", 2, 4, floating=True) == "height"
