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

from aitune.torch.module.containers import ATOMS, Kind, children, kind_of
from aitune.torch.module.errors import MissingAttributeError, MissingIndexError, MissingKeyError
from aitune.torch.module.leaves import FIRST_CYCLE_CHECK, refuse_cycle

__all__ = ["Axes", "Plan", "Resize", "isolated", "rebuild", "replace_part"]

Axes: TypeAlias = tuple[tuple[int, int], ...]
"""Axes to resize, each with its multiplier of the batch size."""

Plan: TypeAlias = "dict[object, Plan | Axes]"
"""The tensors to resize, as nested dicts along their paths."""

Resize: TypeAlias = Callable[[torch.Tensor, Axes], torch.Tensor]
"""Gives a new tensor that shares no memory with the old one."""

_Frame: TypeAlias = tuple[object, Kind, Iterator[tuple[object, object]], Plan, list[object], int]
_NO_PLAN: Plan = {}
_ATOMS = frozenset(ATOMS)


def isolated(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor that is part of no graph and still asks for a gradient where the tensor did."""
    if not tensor.requires_grad:
        return tensor.clone()
    if tensor.is_leaf:
        return copy.deepcopy(tensor)
    return tensor.detach().clone().requires_grad_()


class _Copier:
    """Copies leaves, each object once."""

    def __init__(self, resize: Resize) -> None:
        self.resize = resize
        self.tensors: dict[int, tuple[Axes, torch.Tensor]] = {}
        self.memo: dict[int, object] = {}

    def tensor(self, value: torch.Tensor, axes: Axes) -> torch.Tensor:
        done = self.tensors.get(id(value))
        if done is not None and done[0] == axes:
            return done[1]
        made = self.resize(value, axes) if axes else isolated(value)
        self.tensors[id(value)] = (axes, made)
        return made

    def leaf(self, value: object) -> object:
        return value if type(value) in _ATOMS else copy.deepcopy(value, self.memo)


def rebuild(root: object, plan: Plan | Axes, resize: Resize) -> object:
    """A copy of nested data with the tensors of a plan resized.

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
    if kind < Kind.LIST:
        return _rebuild_leaf(root, kind, plan, copier)
    tensor_kind, first_container, one_tensor = Kind.TENSOR, Kind.LIST, copier.tensor
    stack: list[_Frame] = []
    container, items, node, built, met = root, children(root, kind), _subplan(root, plan), list[object](), 0
    next_check = FIRST_CYCLE_CHECK
    while True:
        for key, value in items:
            below = node.get(key) if node else None
            if below is not None:
                met += 1
            child_kind = kind_of(type(value))
            if child_kind is tensor_kind and type(below) is not dict:
                built.append(one_tensor(value, below or ()))  # type: ignore[arg-type]  # the kind says it is a tensor
            elif child_kind < first_container:
                built.append(_rebuild_leaf(value, child_kind, below or (), copier))
            else:
                stack.append((container, kind, items, node, built, met))
                if len(stack) == next_check:
                    refuse_cycle([frame[0] for frame in stack])
                    next_check *= 2
                container, kind, items, built, met = value, child_kind, children(value, child_kind), [], 0
                node = _subplan(value, below or _NO_PLAN)
                break
        else:
            if met < len(node):
                _refuse_missing(container, kind, node)
            made = _assemble(container, kind, built)
            if not stack:
                return made
            container, kind, items, node, built, met = stack.pop()
            built.append(made)


def _rebuild_leaf(value: object, kind: Kind, plan: Plan | Axes, copier: _Copier) -> object:
    if isinstance(plan, dict) and plan:
        _refuse_missing(value, kind, plan)
    if isinstance(value, torch.Tensor):
        return copier.tensor(value, plan or ())  # type: ignore[arg-type]  # a plan that names parts was refused above
    if plan:
        raise _not_a_tensor(value)
    return copier.leaf(value)


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
    present = {key for key, _ in children(container, kind)} if kind >= Kind.LIST else set()
    missing = next(key for key in node if key not in present)
    error = {Kind.MAPPING: MissingKeyError, Kind.LIST: MissingIndexError, Kind.TUPLE: MissingIndexError}
    raise error.get(kind, MissingAttributeError)(
        f"a tensor was learned below {missing!r}, found a {type(container).__name__} without it",
        hint="give inputs that are built like the samples that were learned",
    )


def _assemble(old: object, kind: Kind, parts: list[object]) -> object:
    """A container of the type of the old one with other parts, in walking order."""
    cls = type(old)
    if cls is list:
        return parts
    if cls is dict:
        return dict(zip(old, parts, strict=True))  # type: ignore[call-overload]  # a dict by the line above
    if cls is tuple:
        return tuple(parts)
    if kind is Kind.TUPLE:
        return _with_items(cast("tuple[object, ...]", old), parts)
    if kind is Kind.LIST:
        new = copy.copy(cast("list[object]", old))
        new[:] = parts
        return new
    if kind is Kind.MAPPING:
        return _with_values(cast("Mapping[object, object]", old), parts)
    named = {str(key): part for (key, _), part in zip(children(old, kind), parts, strict=True)}
    return _with_fields(old, named) if kind is Kind.DATACLASS else _with_attributes(old, named)


def _with_items(old: tuple[object, ...], parts: list[object]) -> tuple[object, ...]:
    if all(new is was for new, was in zip(parts, old, strict=True)):
        return old
    make = getattr(old, "_make", None) or type(old)
    return cast("tuple[object, ...]", make(parts))


def _with_values(old: Mapping[object, object], parts: list[object]) -> Mapping[object, object]:
    values = dict(zip(old, parts, strict=True))
    if not isinstance(old, MutableMapping):
        make = cast("Callable[[object], Mapping[object, object]]", type(old))  # as read-only mappings are made
        return make(values)
    if type(old) is OrderedDict:
        return OrderedDict(values)
    new = copy.copy(old)
    for key, part in values.items():
        new[key] = part
    return new


def _with_fields(old: object, parts: dict[str, object]) -> object:
    """A dataclass instance made without its constructor, as a copy is: frozen and computed fields are no obstacle."""
    cls = type(old)
    new = object.__new__(cls)
    own = getattr(old, "__dict__", None)
    if own:
        new.__dict__.update(own)
    for name, part in parts.items():
        object.__setattr__(new, name, part)
    return new


def _with_attributes(old: object, parts: dict[str, object]) -> object:
    """A deep copy of a registered object that takes the parts made already instead of copying their originals."""
    memo: dict[int, object] = {id(getattr(old, name)): part for name, part in parts.items()}
    new = copy.deepcopy(old, memo)
    for name, part in parts.items():
        if getattr(new, name, None) is not part:
            setattr(new, name, part)
    return new


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
        fields = {field.name for field in dataclasses.fields(container)}  # type: ignore[arg-type]  # frozen, so a dataclass
        parts = {field: getattr(container, field) for field in fields if hasattr(container, field)}
        return _with_fields(container, {**parts, name: value})
    return container
