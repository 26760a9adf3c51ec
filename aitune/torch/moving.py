"""A batch that lies on another axis than the first one, moved to where Triton can batch it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from aitune.errors import BatchingError, NumericsError
from aitune.torch.execution import same
from aitune.torch.symbols import Symbol, resized

__all__ = ["NOTHING_MOVES", "Moves", "check_moved", "find_moves", "moved_places"]

Tensors = tuple[torch.Tensor, ...]
Run = Callable[[Sequence[torch.Tensor]], Tensors | None]
"""Runs the module on flat tensors; None when it refuses them."""

T = TypeVar("T")

_SIZES = (2, 3, 5)


@dataclass(frozen=True, slots=True)
class Moves:
    """Which axis is the batch, for the tensors where it is not axis 0.

    Attributes:
        inputs: Axis by index of the input.
        outputs: Axis by index of the output.
    """

    inputs: Mapping[int, int] = field(default_factory=dict)
    outputs: Mapping[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.inputs or self.outputs)

    def served(self, tensors: Sequence[torch.Tensor]) -> Tensors:
        """Inputs of the module, as they are served: batch first."""
        return _moved(tensors, self.inputs, to_front=True)

    def original(self, tensors: Sequence[torch.Tensor]) -> Tensors:
        """Inputs as they are served, as the module takes them."""
        return _moved(tensors, self.inputs, to_front=False)

    def answered(self, tensors: Sequence[torch.Tensor]) -> Tensors:
        """Outputs of the module, as they are served: batch first."""
        return _moved(tensors, self.outputs, to_front=True)

    def notes(self, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[str, ...]:
        """What was moved, for people."""
        sides = (("input", inputs, self.inputs), ("output", outputs, self.outputs))
        return tuple(
            f"the batch of {side} {names[index]!r} is moved from axis {axis} to axis 0"
            for side, names, axes in sides
            for index, axis in axes.items()
        )


NOTHING_MOVES = Moves()
"""For a module whose batch is where it should be, or that has none."""


def _moved(tensors: Sequence[torch.Tensor], axes: Mapping[int, int], *, to_front: bool) -> Tensors:
    return tuple(
        tensor if (axis := axes.get(index)) is None else tensor.movedim(*((axis, 0) if to_front else (0, axis)))
        for index, tensor in enumerate(tensors)
    )


def find_moves(symbols: Sequence[Symbol], sample: Sequence[torch.Tensor], run: Run) -> Moves:
    """The moves that bring the batch to axis 0 of every tensor; none where it is there already.

    Args:
        symbols: The dynamic sizes; the batch among them.
        sample: Inputs that the module accepts.
        run: Runs the module.

    Raises:
        BatchingError: If there is no batch, or an input or output has none.
    """
    batch = next((symbol for symbol in symbols if symbol.batch), None)
    if batch is None:
        raise BatchingError(
            "moving the batch axis was asked, and the module has none: no axis can have another size",
            hint="give samples of several batch sizes, or leave --move-batch-axis out",
        )
    answers = {}
    for size in _SIZES:
        answer = run(resized(sample, {batch.name: size}, [batch]))
        if answer is not None:
            answers[size] = answer
    axes = [_axis(index, answers) for index in range(len(next(iter(answers.values()), ())))]
    if len(answers) < 2 or None in axes:
        which = f"output {axes.index(None)} does not grow" if None in axes else "the module takes one batch size only"
        raise BatchingError(
            f"moving the batch axis was asked, and not every tensor has one: {which}",
            hint="leave --move-batch-axis out",
        )
    return Moves(
        inputs={index: axis for index, axis in batch.axes if axis != 0},
        outputs={index: axis for index, axis in enumerate(axes) if axis},
    )


def _axis(index: int, answers: Mapping[int, Tensors]) -> int | None:
    """The first axis of one output that has one row per row of the batch, at every size."""
    rank = min(answer[index].ndim for answer in answers.values())
    fitting = (
        axis for axis in range(rank) if all(answer[index].shape[axis] == size for size, answer in answers.items())
    )
    return next(fitting, None)


def moved_places(moves: Moves, places: Mapping[tuple[int, int], T]) -> dict[tuple[int, int], T]:
    """What is known by (input, axis), keyed by where that axis is after the move."""
    return {(index, _after(axis, moves.inputs.get(index))): value for (index, axis), value in places.items()}


def _after(axis: int, batch: int | None) -> int:
    if batch is None or axis > batch:
        return axis
    return 0 if axis == batch else axis + 1


def check_moved(moves: Moves, expected: Sequence[Tensors], found: Sequence[Tensors]) -> None:
    """Hold the answers of the module with its batch moved against those of the module itself.

    Raises:
        NumericsError: If they are not the same bit for bit.
    """
    for number, (plain, moved) in enumerate(zip(expected, found, strict=True)):
        for index, (one, other) in enumerate(zip(moves.answered(plain), moved, strict=True)):
            if not same(one, other):
                raise NumericsError(f"moving the batch axis changes output {index} for sample {number}")
