"""A module seen as a function from a flat list of tensors to a flat list of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from aitune.torch.forward import Forward
from aitune.torch.module.locator import Locator
from aitune.torch.moving import NOTHING_MOVES, Moves
from aitune.torch.structure import Template

__all__ = ["FlatModule"]


class FlatModule(nn.Module):
    """Wraps a module so that exporters of any kind see only tensors, by position, in and out.

    Args:
        module: The user's module.
        forward: What its ``forward`` takes.
        template: How its arguments are put together from the tensors.
        results: Where the tensors sit in what it returns.
        changed: Indices of inputs that the module changes in place; it is given a copy of these.
        moves: Where the batch is to be moved to axis 0.
    """

    def __init__(
        self,
        module: nn.Module,
        forward: Forward,
        template: Template,
        results: Sequence[Locator] = (),
        changed: Sequence[int] = (),
        moves: Moves = NOTHING_MOVES,
    ) -> None:
        super().__init__()
        self.module = module
        self.signature = forward
        self.template = template
        self.results = tuple(results)
        self.changed = frozenset(changed)
        self.moves = moves
        self.training = False

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors among what the module returns."""
        result = self.original(*tensors)
        found: list[torch.Tensor] = [locator.get_value(result) for locator in self.results]  # type: ignore[misc]  # learned as tensors
        return self.moves.answered(found) if self.moves else tuple(found)

    def original(self, *tensors: torch.Tensor) -> object:
        """What the module itself returns."""
        given = [tensor.clone() if index in self.changed else tensor for index, tensor in enumerate(tensors)]
        if self.moves:
            given = list(self.moves.original(given))
        args, kwargs = self.signature.arguments(self.template.put_together(given))
        return self.module(*args, **kwargs)
