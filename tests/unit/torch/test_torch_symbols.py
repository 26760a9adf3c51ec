"""Dynamic sizes: which to show an exporter, which to compare at, and how tensors get them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aitune.torch.symbols import Symbol, resized, sizes_apart, tied, verified_sizes


def symbol(name: str, *seen: int, batch: bool = False, axes: tuple[tuple[int, int], ...] = ((0, 0),)) -> Symbol:
    """A symbol that was seen at some sizes."""
    return Symbol(
        name=name, axes=axes, seen=seen, low=1 if batch else min(seen), high=max(seen), typical=seen[0], batch=batch
    )


def test_rows_are_taken_in_turn() -> None:
    """A larger size repeats the rows from the first, a smaller one cuts, an equal one is the same tensor."""
    x = torch.arange(3)
    one = symbol("n", 3)
    assert resized([x], {"n": 7}, [one])[0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert resized([x], {"n": 2}, [one])[0].tolist() == [0, 1]
    assert resized([x], {"n": 3}, [one])[0] is x


def test_a_symbol_resizes_every_axis_that_has_it() -> None:
    """Axes of one size stay of one size."""
    both = symbol("s", 2, axes=((0, 1), (1, 0)))
    shapes = [tuple(t.shape) for t in resized([torch.zeros(1, 2), torch.zeros(2)], {"s": 5}, [both])]
    assert shapes == [(1, 5), (5,)]


@given(st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=4), min_size=1, max_size=4))
def test_an_exporter_is_never_shown_a_one(sizes: list[list[int]]) -> None:
    """0 and 1 would be taken for constants (B01), whatever the samples had."""
    symbols = [symbol(f"s{number}", *seen, batch=number == 0) for number, seen in enumerate(sizes)]
    assert min(sizes_apart(symbols).values()) >= 2


def test_an_exporter_is_shown_sizes_apart() -> None:
    """Equal sizes would be taken for one, and a size that is a constant elsewhere for that constant."""
    chosen = sizes_apart([symbol("batch", 4, 4, batch=True), symbol("h", 32, 64), symbol("w", 32, 64)], fixed=[2])
    assert chosen == {"batch": 3, "h": 64, "w": 32}


def test_sizes_are_compared_at_both_ends_and_between() -> None:
    """Smallest, middle, largest, and each alone at its ends; the middle keeps the step that all sizes share."""
    plans = verified_sizes([symbol("batch", 1, 8, batch=True), symbol("h", 32, 64, 96)])
    assert {"batch": 1, "h": 32} in plans
    assert {"batch": 4, "h": 64} in plans
    assert {"batch": 8, "h": 96} in plans
    assert {"batch": 1, "h": 32} in plans
    assert {"batch": 8, "h": 32} in plans
    assert len(plans) == len({tuple(plan.items()) for plan in plans})


@pytest.mark.parametrize(("seen", "middle"), [((8, 128), 64), ((16, 32), 24), ((7, 9), 8), ((5, 6), 5), ((32, 96), 64)])
def test_the_middle_keeps_the_step_where_it_can(seen: tuple[int, ...], middle: int) -> None:
    """Half way, rounded to a multiple of what both sizes are multiples of, if that lies between."""
    assert {"h": middle} in verified_sizes([symbol("h", *seen)])


def test_without_dynamic_axes_there_is_one_run() -> None:
    """A fixed module is compared as well."""
    assert verified_sizes([]) == ({},)


def test_symbols_that_were_always_equal_can_be_tied() -> None:
    """One symbol remains, the batch if it is among them."""
    merged = tied([symbol("h", 2, 4), symbol("batch", 2, 4, batch=True, axes=((1, 0),)), symbol("w", 3, 5)])
    assert [(one.name, one.axes) for one in merged] == [("batch", ((0, 0), (1, 0))), ("w", ((0, 0),))]


def test_a_batch_of_the_samples_is_not_shown_again() -> None:
    """A number of rows that is written into ``forward`` would look like the batch."""
    assert sizes_apart([symbol("batch", 2, batch=True)])["batch"] == 3
    assert sizes_apart([symbol("batch", 2, 3, 5, 4, batch=True)])["batch"] >= 2
