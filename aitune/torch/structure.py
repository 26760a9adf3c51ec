"""Nested arguments taken apart into tensors, and put together again while a module is traced.

Exporters take flat tensors. A :class:`Template` remembers everything else about the arguments: the containers and the
values that are no tensors, which become part of the graph.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from aitune.errors import SourceError
from aitune.torch.module.containers import Kind, children, kind_of
from aitune.torch.module.locator import Locator, ObjectType
from aitune.torch.opaque import holds_tensors, is_cache

__all__ = ["Template", "take_apart"]

_STEPS = {
    Kind.LIST: ObjectType.SEQUENCE,
    Kind.TUPLE: ObjectType.SEQUENCE,
    Kind.MAPPING: ObjectType.DICT,
    Kind.DATACLASS: ObjectType.DATACLASS,
}


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where the tensor with this index goes."""

    index: int


@dataclass(frozen=True, slots=True)
class _Branch:
    """A container: the object it was, its kind, and its parts by key."""

    like: Any
    kind: Kind
    parts: tuple[tuple[Any, Any], ...]

    def build(self, tensors: Sequence[torch.Tensor]) -> Any:
        """A new container of the same type around the given tensors."""
        parts = [(key, _build(part, tensors)) for key, part in self.parts]
        values = [value for _, value in parts]
        if self.kind is Kind.LIST:
            return values
        if self.kind is Kind.TUPLE:
            make = getattr(type(self.like), "_make", tuple)
            return make(values)
        if self.kind is Kind.MAPPING:
            return dict(parts)
        clone = copy.copy(self.like)
        for key, value in parts:
            object.__setattr__(clone, key, value)
        return clone


def _build(part: Any, tensors: Sequence[torch.Tensor]) -> Any:
    if isinstance(part, _Slot):
        return tensors[part.index]
    return part.build(tensors) if isinstance(part, _Branch) else part


@dataclass(frozen=True, slots=True)
class Template:
    """Arguments with a gap where each tensor was.

    Attributes:
        locators: Where each tensor sits, in the order of the walk.
        constants: (place, value) of every leaf that is no tensor.
        root: The containers.
    """

    locators: tuple[Locator, ...]
    constants: tuple[tuple[Locator, Any], ...]
    root: Any

    def put_together(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The arguments around other tensors."""
        return _build(self.root, tensors)


def take_apart(arguments: Any) -> tuple[Template, tuple[torch.Tensor, ...]]:
    """The tensors of nested arguments, and the template to put others in their place.

    Arrays of numpy count as tensors.

    Raises:
        SourceError: If a tensor sits in a container that cannot be built anew.
    """
    tensors: list[torch.Tensor] = []
    root = _strip(arguments, tensors, "the sample")
    leaves = list(_places(root, ()))
    locators = tuple(place for place, leaf in leaves if isinstance(leaf, _Slot))
    constants = tuple((place, leaf) for place, leaf in leaves if not isinstance(leaf, _Slot))
    return Template(locators, constants, root), tuple(tensors)


def _strip(value: Any, tensors: list[torch.Tensor], where: str) -> Any:
    """The template of a value, its tensors appended to ``tensors``."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        value = torch.from_numpy(np.ascontiguousarray(value))
    kind = kind_of(type(value))
    if kind is Kind.TENSOR:
        tensors.append(value)
        return _Slot(len(tensors) - 1)
    if kind < Kind.LIST or kind is Kind.USER:
        _refuse_opaque(value, where)
        return value
    parts = tuple((key, _strip(part, tensors, f"{where}[{key!r}]")) for key, part in children(value, kind))
    return _Branch(value, kind, parts)


def _refuse_opaque(value: Any, where: str) -> None:
    """Refuse an object whose tensors would silently become constants, or that ``forward`` changes."""
    if is_cache(value):
        raise SourceError(
            f"{where} is a {type(value).__name__}, which forward changes: it cannot become an input of a graph",
            hint="leave it out, and give use_cache=False where the model would make one",
        )
    if holds_tensors(value):
        raise SourceError(
            f"{where} is a {type(value).__name__} that holds tensors, which cannot become inputs of a graph",
            hint="pass dicts, lists, tuples or dataclasses, and build the object inside forward",
        )


def _places(part: Any, path: tuple[Any, ...]) -> Iterator[tuple[Locator, Any]]:
    """Every leaf of a template with its place; empty containers leave no trace."""
    if not isinstance(part, _Branch):
        yield Locator(path), part
        return
    for key, inner in part.parts:
        yield from _places(inner, (*path, (key, _STEPS[part.kind])))
