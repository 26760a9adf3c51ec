"""A batch on another axis than the first, brought to where Triton can batch it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from aitune.errors import BatchingError, NumericsError
from aitune.torch.moving import Moves, check_moved, moved_places
from aitune.torch.observation import observe


def module(forward: Callable[..., Any]) -> nn.Module:
    """A module with this ``forward`` (``self`` first)."""
    return type("Model", (nn.Module,), {"forward": forward})()


def numbers(*shape: int) -> torch.Tensor:
    """The same numbers in every run of the tests."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_every_tensor_is_served_with_its_batch_first() -> None:
    """Inputs and outputs of a GRU, its state included; samples move along."""
    seen = observe(nn.GRU(4, 5), [numbers(7, 2, 4), numbers(9, 3, 4)], move_batch_axis=True)
    assert [spec.shape for spec in seen.inputs] == [("batch", "input_dim1", 4)]
    assert [spec.shape for spec in seen.outputs] == [(None, None, 5), (None, 1, 5)]
    assert [tuple(sample[0].shape) for sample in seen.samples] == [(2, 7, 4), (3, 9, 4)]
    assert "the batch of output 'output_1' is moved from axis 1 to axis 0" in seen.notes


def test_the_moved_module_is_the_module() -> None:
    """The same numbers, in another place."""
    gru = nn.GRU(4, 5)
    seen = observe(gru, numbers(7, 2, 4), move_batch_axis=True)
    x = numbers(3, 7, 4)
    every, last = gru(x.transpose(0, 1))
    moved = seen.flat(x)
    assert torch.equal(moved[0], every.transpose(0, 1))
    assert torch.equal(moved[1], last.transpose(0, 1))


def test_an_output_alone_may_have_to_move() -> None:
    """A batch-first GRU whose state comes out with the layers first."""
    seen = observe(nn.GRU(4, 5, batch_first=True), numbers(2, 7, 4), move_batch_axis=True)
    assert (seen.flat.moves.inputs, seen.flat.moves.outputs) == ({}, {1: 1})


def test_shapes_that_are_asked_for_move_along() -> None:
    """They are the module's own, as the samples are."""
    seen = observe(
        nn.GRU(4, 5),
        numbers(7, 2, 4),
        move_batch_axis=True,
        min_shapes={"input": (3, 1, 4)},
        max_shapes={"input": (9, 6, 4)},
    )
    assert [(one.name, one.low, one.high) for one in seen.symbols] == [("batch", 1, 6), ("input_dim1", 3, 9)]


def test_a_batch_on_axis_0_stays() -> None:
    """Nothing is wrapped where nothing has to move, and it is said."""
    seen = observe(nn.Linear(4, 3), numbers(2, 4), move_batch_axis=True)
    assert not seen.flat.moves
    assert "the batch lies on axis 0 of every tensor: nothing is moved" in seen.notes


def test_a_batch_elsewhere_is_said_where_nobody_asked() -> None:
    """The option is named where it would help."""
    notes = " ".join(observe(nn.GRU(4, 5), numbers(7, 2, 4)).notes)
    assert "the batch lies on axis 1 of input 'input' and axis 1 of output 'output_0'" in notes
    assert "--move-batch-axis" in notes


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (lambda self, x: x.reshape(2, 12), "the module has none"),
        (lambda self, x: (x.sum(0), x.sum()), "output 1 does not grow"),
    ],
)
def test_a_batch_that_is_not_there_cannot_move(forward: Callable[..., Any], reason: str) -> None:
    """A module of one size, and an output without rows."""
    with pytest.raises(BatchingError, match=reason):
        observe(module(forward), numbers(4, 6), move_batch_axis=True)


def test_places_move_with_their_axes() -> None:
    """The axes before the batch move up by one."""
    places = {(0, 0): "time", (0, 1): "batch", (0, 2): "features", (1, 0): "other"}
    moved = moved_places(Moves(inputs={0: 1}), places)
    assert moved == {(0, 1): "time", (0, 0): "batch", (0, 2): "features", (1, 0): "other"}


def test_other_numbers_after_a_move_are_found() -> None:
    """The comparison can fail."""
    moves = Moves(outputs={0: 1})
    check_moved(moves, [(numbers(2, 3),)], [(numbers(2, 3).T,)])
    with pytest.raises(NumericsError, match="changes output 0 for sample 0"):
        check_moved(moves, [(numbers(2, 3),)], [(numbers(2, 3).T + 1,)])
