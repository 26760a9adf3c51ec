"""What is known about a module before its dynamic axes are learned, and a way to ask it for more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from aitune.torch.structure import Template
from aitune.torch.symbols import Place

__all__ = ["Asking", "Range", "Run", "Tensors"]

Tensors = tuple[torch.Tensor, ...]
Run = Callable[[Sequence[torch.Tensor]], Tensors | None]
"""Runs the module on flat tensors; None when it refuses them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Sizes a user wants for one axis, instead of those the samples had; None where nothing was said."""

    low: int | None = None
    typical: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What is known before the learning: the samples, the answers to them, and a way to ask for more.

    Attributes:
        names: Names of the inputs.
        template: How inputs are nested.
        samples: Flat inputs, per sample.
        answers: Flat outputs, per sample.
        run: Runs the module.
        ranges: What the user wants, by (input, axis).
        max_batch_size: Largest batch the user wants; None when nothing was said.
    """

    names: tuple[str, ...]
    template: Template
    samples: tuple[Tensors, ...]
    answers: tuple[Tensors, ...]
    run: Run
    ranges: Mapping[Place, Range] = field(default_factory=dict)
    max_batch_size: int | None = None

    def sizes(self, place: Place) -> tuple[int, ...]:
        """The size of one axis in every sample."""
        return tuple(sample[place[0]].shape[place[1]] for sample in self.samples)
