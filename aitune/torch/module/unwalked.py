"""A word about tensors that a walk does not reach."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Set
from weakref import WeakSet

import torch

from aitune.torch.module.containers import ATOMS
from aitune.torch.module.leaf_values import type_name

__all__ = ["HiddenTensorWarning", "warn_of_hidden_tensors"]


class HiddenTensorWarning(UserWarning):
    """An object among the samples holds tensors, and nothing was said about how to reach them."""


_ATOMS = frozenset(ATOMS)
_told: WeakSet[type] = WeakSet()


def warn_of_hidden_tensors(leaf: object) -> None:
    """Warns, once for each class, that a leaf holds tensors of its own."""
    cls = type(leaf)
    if cls in _ATOMS or isinstance(leaf, (type, torch.nn.Module)) or cls in _told:
        return
    if any(isinstance(part, torch.Tensor) for part in _parts(leaf)):
        _told.add(cls)
        advice = "register its class with Locator.register_user_type, or leave it out with Locator.ignore_type"
        if isinstance(leaf, Set):
            advice = "put them into a list, since a set has no order"
        warnings.warn(
            f"a {type_name(cls)} among the samples holds tensors that are not seen; {advice}",
            HiddenTensorWarning,
            stacklevel=4,
        )


def _parts(leaf: object) -> Iterable[object]:
    if isinstance(leaf, Set):
        return leaf
    values: list[object] = list(getattr(leaf, "__dict__", {}).values())
    for base in type(leaf).__mro__:
        slots = getattr(base, "__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        values += [getattr(leaf, name, None) for name in names]
    return values
