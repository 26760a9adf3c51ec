"""Which Python objects are walked into, how their parts are reached, and which are left alone.

A class has one :class:`Kind`. The order in which kinds are tried is part of the contract: ignored types, tensors, lists
and tuples, dicts, dataclasses, registered types, other mappings; everything else is a leaf. Classes are held weakly, so
that looking at an object never keeps its class alive.
"""

from __future__ import annotations

import dataclasses
import types
from collections import OrderedDict, UserDict
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, IntEnum
from functools import cached_property
from typing import NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, ref

import torch

from aitune.torch.config import config

__all__ = [
    "ATOMS",
    "AccessPath",
    "Kind",
    "ObjectType",
    "attributes",
    "children",
    "ignore_type",
    "kind_of",
    "narrows_to_tensors",
    "register_user_type",
    "unignore_type",
    "unregister_user_type",
]


class ObjectType(IntEnum):
    """How one step of a path is taken."""

    SEQUENCE = 0
    DICT = 1
    DATACLASS = 2
    USER_TYPE = 3

    # Enum hashes the member's name in Python; paths are hashed often enough for that to count.
    __hash__ = int.__hash__


AccessPath: TypeAlias = tuple[tuple[object, ObjectType], ...]


class Kind(IntEnum):
    """What a walk does with an object; from ``LIST`` on it walks into it."""

    LEAF = 1
    TENSOR = 2
    IGNORED = 3
    LIST = 4
    TUPLE = 5
    MAPPING = 6
    DATACLASS = 7
    USER = 8


# Members under names of their own: reading one off the class costs more than the comparison it is for.
LEAF, TENSOR, IGNORED, LIST, TUPLE, MAPPING, DATACLASS, USER = Kind

STEPS = {
    LIST: ObjectType.SEQUENCE,
    TUPLE: ObjectType.SEQUENCE,
    MAPPING: ObjectType.DICT,
    DATACLASS: ObjectType.DATACLASS,
    USER: ObjectType.USER_TYPE,
}
"""How the parts of a container are reached."""

ATOMS = (type(None), bool, int, float, complex, str, bytes)
"""Immutable leaves that need neither a look inside nor a copy."""

_COMMON = (*ATOMS, torch.Tensor, torch.nn.Parameter, list, tuple, dict, OrderedDict, UserDict)


class _Rule(Enum):
    """What was said about a class and, unless said otherwise below it, its subclasses."""

    WALK = "walk"
    WALK_TENSORS = "walk, and return tensors only"
    IGNORE = "ignore"
    PLAIN = "as if nothing had been said"


# Caches of transformers by name, so that transformers need not be imported: the fixed ones are walked for their
# tensors, the growing one is left out because its structure changes with every call.
_KNOWN = {
    ("transformers.cache_utils", "StaticCache"): _Rule.WALK_TENSORS,
    ("transformers.cache_utils", "StaticLayer"): _Rule.WALK_TENSORS,
    ("transformers.cache_utils", "DynamicCache"): _Rule.IGNORE,
}


class _ClassInfo(NamedTuple):
    """What is known about a class: its kind, and the attributes to walk where that goes by attribute."""

    kind: Kind
    names: tuple[str, ...]


_rules: WeakKeyDictionary[type, _Rule] = WeakKeyDictionary()
# Keyed by weak reference, and by hand: a WeakKeyDictionary takes three times as long to look something up.
_infos: dict[ref[type], _ClassInfo] = {}
common_kinds: dict[type, Kind] = {}
"""Kinds of the classes met most, which are never collected; other classes are looked up by :func:`kind_of`."""


def kind_of(cls: type) -> Kind:
    """The kind of a class."""
    return common_kinds.get(cls) or _info_of(cls).kind


def narrows_to_tensors(cls: type) -> bool:
    """Whether a registered class returns tensors only, itself or by its nearest registered ancestor."""
    return _rule_of(cls) is _Rule.WALK_TENSORS


def children(value: object, kind: Kind, parts: Iterable[tuple[object, object]] = ()) -> Iterator[tuple[object, object]]:
    """The parts of a container with the key, index or attribute name of each, in walking order.

    Args:
        value: The container.
        kind: Its kind.
        parts: Its :func:`attributes` where they were asked for before.
    """
    if kind is LIST or kind is TUPLE:
        return enumerate(value)  # type: ignore[arg-type]  # the kind says it is a sequence
    if kind is MAPPING:
        return iter(value.items())  # type: ignore[attr-defined]  # the kind says it is a mapping
    return iter(parts or attributes(value, kind))


def register_user_type(cls: type, only_tensors: bool = False) -> None:
    """Walks objects of a class and its subclasses by their public attributes.

    Args:
        cls: The class; ignoring it is taken back.
        only_tensors: Whether only tensors are returned from below such an object.
    """
    _say(cls, _Rule.WALK_TENSORS if only_tensors else _Rule.WALK)


def unregister_user_type(cls: type) -> None:
    """Takes :func:`register_user_type` back; no error where it was not registered."""
    if _rule_at(cls) in (_Rule.WALK, _Rule.WALK_TENSORS):
        _say(cls, None)


def ignore_type(cls: type) -> None:
    """Leaves objects of a class and its subclasses out, whatever they hold; registering it is taken back."""
    _say(cls, _Rule.IGNORE)


def unignore_type(cls: type) -> None:
    """Takes :func:`ignore_type` back; no error where it was not ignored."""
    if _rule_at(cls) is _Rule.IGNORE:
        _say(cls, None)


def _say(cls: type, rule: _Rule | None) -> None:
    if rule is not None:
        _rules[cls] = rule
    elif _known(cls) is not None:
        _rules[cls] = _Rule.PLAIN
    else:
        _rules.pop(cls, None)
    _forget()


def _forget() -> None:
    """Drops what was concluded from the rules; the common classes are concluded again."""
    _infos.clear()
    common_kinds.update({cls: _classify(cls) for cls in _COMMON})


def _known(cls: type) -> _Rule | None:
    return _KNOWN.get((cls.__module__, cls.__qualname__)) if config.enable_transformers_integration else None


def _rule_at(cls: type) -> _Rule | None:
    return _rules.get(cls) or _known(cls)


def _rule_of(cls: type) -> _Rule:
    """What was said about the class or its nearest ancestor about which something was said."""
    for base in cls.__mro__:
        rule = _rule_at(base)
        if rule is not None:
            return rule
    return _Rule.PLAIN


def _classify(cls: type) -> Kind:
    rule = _rule_of(cls)
    if rule is _Rule.IGNORE:
        return IGNORED
    tests = (
        (issubclass(cls, torch.Tensor), TENSOR),
        (issubclass(cls, list), LIST),
        (issubclass(cls, tuple), TUPLE),
        (issubclass(cls, (dict, UserDict)), MAPPING),
        (dataclasses.is_dataclass(cls), DATACLASS),
        (rule is not _Rule.PLAIN, USER),
        (issubclass(cls, Mapping), MAPPING),
    )
    return next((kind for holds, kind in tests if holds), LEAF)


def attributes(value: object, kind: Kind) -> list[tuple[object, object]]:
    """The attributes of a dataclass or registered object that are set; unset slots and fields are left out."""
    names = _info_of(type(value)).names
    if kind is USER and hasattr(value, "__dict__"):
        names = tuple(sorted({*names, *(name for name in vars(value) if not name.startswith("_"))}))
    try:
        return [(name, getattr(value, name)) for name in names]
    except AttributeError:
        return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


def _info_of(cls: type) -> _ClassInfo:
    info = _infos.get(ref(cls))
    if info is None:
        kind = _classify(cls)
        names = {DATACLASS: _field_names, USER: _public_names}.get(kind, _no_names)(cls)
        info = _infos[ref(cls, _forget_class)] = _ClassInfo(kind, names)
    return info


def _forget_class(key: ref[type]) -> None:
    _infos.pop(key, None)


def _no_names(cls: type) -> tuple[str, ...]:
    del cls
    return ()


def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


def _public_names(cls: type) -> tuple[str, ...]:
    """Public data attributes that the class itself provides, slots included, computed ones not."""
    nearest: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        nearest.update(vars(base))
    return tuple(sorted(name for name, what in nearest.items() if not name.startswith("_") and _is_data(what)))


def _is_data(what: object) -> bool:
    if isinstance(what, (property, cached_property, classmethod, staticmethod)) or callable(what):
        return False
    return isinstance(what, types.MemberDescriptorType) or not hasattr(type(what), "__get__")


_forget()
