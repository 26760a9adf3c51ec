"""Copies of nested Python data in which some tensors are replaced, and containers with one part replaced.

A copy shares nothing that can change with the original: containers are made anew with their types kept, tensors are
copied once however often they occur, and a tensor that is to be replaced is never copied as a whole.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import TypeAlias, cast

import torch

from aitune.torch.module.containers import (
    ATOMS,
    DATACLASS,
    LIST,
    MAPPING,
    TENSOR,
    TUPLE,
    Kind,
    attributes,
    children,
    common_kinds,
    kind_of,
)
from aitune.torch.module.errors import MissingAttributeError, MissingIndexError, MissingKeyError
from aitune.torch.module.leaves import FIRST_CYCLE_CHECK, refuse_cycle

__all__ = ["Axes", "Plan", "Resize", "isolated", "rebuild", "replace_part"]

Axes: TypeAlias = tuple[tuple[int, int], ...]
"""Axes to resize, each with its multiplier of the batch size."""

Plan: TypeAlias = "dict[object, Plan | Axes]"
"""The tensors to resize, as nested dicts along their paths."""

Resize: TypeAlias = Callable[[torch.Tensor, Axes], torch.Tensor]
"""Gives a new tensor that shares no memory with the old one."""

_Parts: TypeAlias = list[tuple[object, object]]
_Frame: TypeAlias = tuple[object, Kind, Iterator[tuple[object, object]], _Parts, Plan, list[object], int]
_NO_PARTS: _Parts = []
_NO_PLAN: Plan = {}
_ATOMS = frozenset(ATOMS)


def isolated(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor that is part of no graph and still asks for a gradient where the tensor did."""
    if not tensor.requires_grad:
        return tensor.clone()
    if tensor.is_leaf:
        return copy.deepcopy(tensor)
    return tensor.detach().clone().requires_grad_()


def rebuild(root: object, plan: Plan | Axes, resize: Resize) -> object:
    """A copy of nested data with the tensors of a plan resized.

    What is done once per leaf or container is spelled out in this one function: it is what making a batch costs.

    Args:
        root: Nested data, never changed.
        plan: Which tensors to resize; axes alone where the root is the tensor.
        resize: Makes the new tensor of one that the plan names.

    Raises:
        MissingKeyError: If the data lacks a key of the plan.
        MissingIndexError: If the data lacks an index of the plan.
        MissingAttributeError: If something that is no tensor sits where the plan resizes one.
        CycleError: If a container holds itself.
    """
    copier = _Copier(resize)
    kind = kind_of(type(root))
    if kind < LIST:
        return copier.leaf(root, kind, plan)
    common, atoms, tensor, done, leaf = common_kinds.get, _ATOMS, TENSOR, copier.tensors, copier.leaf
    container, node, built, met = root, _subplan(root, plan), list[object](), 0
    parts = attributes(root, kind) if kind >= DATACLASS else _NO_PARTS
    items = children(root, kind, parts)
    stack: list[_Frame] = []
    next_check = FIRST_CYCLE_CHECK
    while True:
        for key, value in items:
            below = node.get(key, _NO_PLAN) if node else _NO_PLAN
            if below:
                met += 1
            cls = type(value)
            child = common(cls) or kind_of(cls)
            if child is tensor and type(below) is tuple:
                known = done.get(id(value))
                if known is None:
                    made = done[id(value)] = resize(value, below)  # type: ignore[arg-type]  # the kind says tensor
                    built.append(made)
                else:
                    built.append(_tied(known, resize(value, below)))  # type: ignore[arg-type]  # as above
            elif child < LIST:
                built.append(value if cls in atoms and not below else leaf(value, child, below))
            else:
                stack.append((container, kind, items, parts, node, built, met))
                if len(stack) == next_check:
                    refuse_cycle([frame[0] for frame in stack])
                    next_check *= 2
                container, kind, built, met = value, child, [], 0
                node = below if type(below) is dict else _subplan(value, below)
                if child is LIST or child is TUPLE:
                    items = enumerate(value)  # type: ignore[arg-type]  # the kind says it is a sequence
                elif child is MAPPING:
                    items = iter(value.items())  # type: ignore[attr-defined]  # the kind says it is a mapping
                else:
                    parts = attributes(value, child)
                    items = iter(parts)
                break
        else:
            if met < len(node):
                _refuse_missing(container, kind, node)
            cls = type(container)
            if cls is list:
                whole: object = built
            elif cls is dict:
                whole = dict(zip(container, built))  # type: ignore[call-overload]  # noqa: B905  # one for each key
            else:
                whole = tuple(built) if cls is tuple else _assemble(container, kind, parts, built)
            if not stack:
                return whole
            container, kind, items, parts, node, built, met = stack.pop()
            built.append(whole)


class _Copier:
    """Copies leaves, each object once.

    Args:
        resize: Makes the new tensor of one that the plan names.
    """

    def __init__(self, resize: Resize) -> None:
        self._resize = resize
        self.tensors: dict[int, torch.Tensor] = {}
        self._memo: dict[int, object] = {}

    def tensor(self, value: torch.Tensor, axes: Axes) -> torch.Tensor:
        """The tensor at its new size, the same one again where it occurs again."""
        made = self._resize(value, axes) if axes else isolated(value)
        return _tied(self.tensors.setdefault(id(value), made), made)

    def leaf(self, value: object, kind: Kind, below: Plan | Axes) -> object:
        """Any leaf; refuses one that the plan says is something else."""
        if isinstance(below, dict) and below:
            _refuse_missing(value, kind, below)
        if isinstance(value, torch.Tensor):
            return self.tensor(value, below if isinstance(below, tuple) else ())
        if below:
            raise _not_a_tensor(value)
        return value if type(value) in _ATOMS else copy.deepcopy(value, self._memo)


def _tied(known: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """What was made of a tensor when it was met first, unless it has another size now."""
    return known if known.shape == made.shape else made


def _subplan(value: object, below: Plan | Axes) -> Plan:
    if isinstance(below, dict):
        return below
    raise _not_a_tensor(value)


def _not_a_tensor(value: object) -> MissingAttributeError:
    return MissingAttributeError(
        f"a tensor is to be resized, found a {type(value).__name__} in its place",
        hint="give inputs that are built like the samples that were learned",
    )


def _refuse_missing(container: object, kind: Kind, node: Plan) -> None:
    """Says which part of the plan a container lacks."""
    present = {key for key, _ in children(container, kind)} if kind >= LIST else set()
    missing = next(key for key in node if key not in present)
    error = {MAPPING: MissingKeyError, LIST: MissingIndexError, TUPLE: MissingIndexError}
    raise error.get(kind, MissingAttributeError)(
        f"a tensor was learned below {missing!r}, found a {type(container).__name__} without it",
        hint="give inputs that are built like the samples that were learned",
    )


def _assemble(old: object, kind: Kind, parts: _Parts, built: list[object]) -> object:
    """A container of a type of its own like the old one that holds what was built, in walking order."""
    if kind is DATACLASS:
        return _with_fields(old, {part[0]: new for part, new in zip(parts, built)})  # noqa: B905  # alike
    if kind is TUPLE:
        return _with_items(cast("tuple[object, ...]", old), built)
    if kind is LIST:
        new = copy.copy(cast("list[object]", old))
        new[:] = built
        return new
    if kind is MAPPING:
        return _with_values(cast("Mapping[object, object]", old), built)
    return _with_attributes(old, parts, built)


def _with_items(old: tuple[object, ...], built: list[object]) -> tuple[object, ...]:
    if all(new is was for new, was in zip(built, old, strict=True)):
        return old
    make = getattr(old, "_make", None) or type(old)
    return cast("tuple[object, ...]", make(built))


def _with_values(old: Mapping[object, object], built: list[object]) -> Mapping[object, object]:
    values = dict(zip(old, built, strict=True))
    if not isinstance(old, MutableMapping):
        make = cast("Callable[[object], Mapping[object, object]]", type(old))  # as read-only mappings are made
        return make(values)
    if type(old) is OrderedDict:
        return OrderedDict(values)
    new = copy.copy(old)
    for key, part in values.items():
        new[key] = part
    return new


def _with_fields(old: object, fields: dict[object, object]) -> object:
    """A dataclass instance made without its constructor, as a copy is: frozen and computed fields are no obstacle."""
    new = object.__new__(type(old))
    own = getattr(old, "__dict__", None)
    if own is not None and len(own) == len(fields):
        state = vars(new)
        state.update(own)
        state.update(fields)  # type: ignore[arg-type]  # names, or the next line finds one too many
        if len(state) == len(own):
            return new
        state.clear()
    for name, value in (own or {}).items():
        if name not in fields:
            new.__dict__[name] = copy.deepcopy(value)
    for name, value in fields.items():
        object.__setattr__(new, str(name), value)
    return new


def _with_attributes(old: object, parts: _Parts, built: list[object]) -> object:
    """A deep copy of a registered object that takes what was built instead of copying the originals."""
    memo: dict[int, object] = {id(part): new for (_, part), new in zip(parts, built, strict=True)}
    made = copy.deepcopy(old, memo)
    for (name, _), new in zip(parts, built, strict=True):
        if getattr(made, str(name), None) is not new:
            setattr(made, str(name), new)
    return made


def replace_part(container: object, accessor: object, value: object, *, attribute: bool) -> object:
    """The container with one part replaced: itself where it can change, a new one of its type otherwise."""
    if attribute:
        return _replace_attribute(container, str(accessor), value)
    if isinstance(container, tuple):
        index = range(len(container))[cast("int", accessor)]
        return _with_items(container, [*container[:index], value, *container[index + 1 :]])
    if isinstance(container, Mapping) and not isinstance(container, MutableMapping):
        parts = [value if key == accessor else part for key, part in container.items()]
        return _with_values(container, parts)
    container[accessor] = value  # type: ignore[index]  # whatever can be indexed is welcome
    return container


def _replace_attribute(container: object, name: str, value: object) -> object:
    try:
        setattr(container, name, value)
    except dataclasses.FrozenInstanceError:
        return _with_fields(container, {**dict(attributes(container, DATACLASS)), name: value})
    return container
