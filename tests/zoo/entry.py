"""One model of the zoo: how it is made, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

__all__ = ["Animal", "ids", "pixels", "values"]


@dataclass(frozen=True, kw_only=True)
class Animal:
    """A model with small random weights, and the verdict that is right for it.

    Attributes:
        name: Its name in the repository.
        make: Makes the module and its samples.
        verdict: ``"batched"``, ``"unbatched"``, or ``"refused"`` where nothing may be served.
        because: Part of the reason that must be given; empty where every reason will do.
        options: Further arguments of :func:`aitune.torch.tune`.
        quick: Whether it belongs to the subset that continuous integration runs.
    """

    name: str
    make: Callable[[], tuple[nn.Module, Any]]
    verdict: str = "batched"
    because: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    quick: bool = False


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def values(*shape: int) -> torch.Tensor:
    """Floats around zero, the same in every run."""
    return torch.randn(*shape, generator=_generator())


def pixels(*shape: int) -> torch.Tensor:
    """Floats between 0 and 1."""
    return torch.rand(*shape, generator=_generator())


def ids(high: int, *shape: int) -> torch.Tensor:
    """Whole numbers below ``high``, the same in every run."""
    return torch.randint(0, high, shape, generator=_generator())
