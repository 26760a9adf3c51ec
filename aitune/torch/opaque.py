"""Objects that hold tensors where no path leads to them: they can be neither inputs nor outputs of a graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import torch

from aitune.torch.module.containers import ATOMS, STEPS, AccessPath, Kind, children, kind_of
from aitune.torch.module.locator import Locator

__all__ = ["holds_tensors", "is_cache", "left_out"]

_MOST_OBJECTS = 10_000
_CACHES = "transformers.cache_utils"


def is_cache(value: object) -> bool:
    """Whether an object is a cache of transformers, which ``forward`` changes."""
    return any(base.__module__ == _CACHES and base.__name__ == "Cache" for base in type(value).__mro__)


def holds_tensors(value: object) -> bool:
    """Whether a tensor sits anywhere inside an object, however deep; modules and classes are not looked into."""
    seen: set[int] = set()
    waiting = deque([value])
    while waiting and len(seen) < _MOST_OBJECTS:
        part = waiting.popleft()
        if isinstance(part, torch.Tensor):
            return True
        if id(part) in seen or isinstance(part, (*ATOMS, type, torch.nn.Module)):
            continue
        seen.add(id(part))
        waiting.extend(_parts(part))
    return False


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple | Set):
        return list(value)
    slots = [name for base in type(value).__mro__ for name in _names(getattr(base, "__slots__", ()))]
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in slots)]


def _names(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def left_out(result: Any, path: AccessPath = ()) -> Iterator[tuple[Locator, object]]:
    """Every object in what a module returned whose tensors no path leads to, with its place."""
    kind = kind_of(type(result))
    if kind >= Kind.LIST:
        for key, part in children(result, kind):
            yield from left_out(part, (*path, (key, STEPS[kind])))
    elif kind is not Kind.TENSOR and not isinstance(result, ATOMS) and holds_tensors(result):
        yield Locator(path, is_output=True), result
