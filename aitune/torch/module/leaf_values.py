"""Equality, hash and names for values that are no tensors.

Two leaves are the same when their *keys* are equal, and a key is always hashable, so equality is an equivalence and
agrees with the hash whatever the values themselves do. Plain values are their own key. Containers are compared by
content, arrays by shape, dtype and bytes, tensors by rank, functions by their code, and objects whose class does not
say what equality means by their type: otherwise each call with a fresh object would look like a new one.
"""

from __future__ import annotations

import sys
import types
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any, cast

import torch

from aitune.torch.module.containers import ATOMS

__all__ = ["Placeholder", "leaf_key", "opaque", "type_name"]

_ATOMS = frozenset(ATOMS)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement, not by C


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Stands for a value that cannot be written down, and equals every value of which the same would be said.

    Attributes:
        kind: What it stands for: ``object``, ``function``, ``class``, ``enum``, ``array`` or ``tensor``.
        type_name: Module and name of the class, e.g. ``numpy:ndarray``.
        detail: What tells it from others of its kind, e.g. a name or a digest; may be empty.
    """

    kind: str
    type_name: str
    detail: str = ""

    def __str__(self) -> str:
        return f"<{self.kind} {self.type_name}{f' {self.detail}' if self.detail else ''}>"


class _Guarded:
    """A value of a class made in Python whose own equality is asked, but not trusted.

    Equal means that both sides say so and the hashes agree; one that fails or gives no answer means "different".
    """

    __slots__ = ("_hash", "value")

    def __init__(self, value: object) -> None:
        self.value = value
        try:
            self._hash = hash(value)
        except TypeError:
            self._hash = hash(type(value))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        theirs = other.value if isinstance(other, _Guarded) else other
        if self.value is theirs:
            return True
        if self._hash != hash(other):
            return False
        try:
            return bool(self.value == theirs) and bool(theirs == self.value)
        except (TypeError, ValueError, RuntimeError, AttributeError):
            return False


def leaf_key(value: object) -> object:
    """A hashable stand-in for a value, equal for values that are the same leaf."""
    cls = type(value)
    if cls in _ATOMS:
        return value
    if isinstance(value, (list, tuple)):
        return ("list" if isinstance(value, list) else "tuple", tuple(leaf_key(part) for part in value))
    if isinstance(value, Mapping):
        return ("mapping", frozenset((leaf_key(key), leaf_key(part)) for key, part in value.items()))
    if isinstance(value, Set):
        return ("set", frozenset(Counter(leaf_key(part) for part in value).items()))
    return opaque(value) or _Guarded(value)


def opaque(value: object) -> Placeholder | None:
    """The placeholder of a value compared by what can be said about it; None where it is compared as it is."""
    cls = type(value)
    if cls is Placeholder:
        return cast("Placeholder", value)
    if isinstance(value, torch.Tensor):
        return Placeholder("tensor", type_name(cls), f"rank {value.dim()}")
    if isinstance(value, type):
        return Placeholder("class", type_name(value))
    if isinstance(value, Enum):
        return None if isinstance(value, (int, str)) else Placeholder("enum", type_name(cls), value.name)
    if isinstance(value, types.FunctionType):
        return Placeholder("function", f"{value.__module__}:{value.__qualname__}", _code_digest(value.__code__))
    if is_array(value):
        return _array_placeholder(cast("Any", value))
    if cls.__eq__ is object.__eq__ and (cls.__flags__ & _HEAP_TYPE or isinstance(value, Iterator)):
        return Placeholder("object", type_name(cls))
    return None


def type_name(cls: type) -> str:
    """Module and qualified name of a class, e.g. ``collections:OrderedDict``."""
    return f"{cls.__module__}:{cls.__qualname__}"


def is_array(value: object) -> bool:
    """Whether a value is a numpy array; numpy is not imported to find out."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_array_scalar(value: object) -> bool:
    """Whether a value is a numpy scalar; numpy is not imported to find out."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def _array_placeholder(array: Any) -> Placeholder:
    """By shape, dtype and content; the elements of an object array are compared one by one."""
    if array.dtype.hasobject:
        content = repr([leaf_key(part) for part in array.ravel().tolist()]).encode()
    else:
        content = array.tobytes()
    digest = blake2b(content, digest_size=16).hexdigest()
    return Placeholder("array", type_name(type(array)), f"{list(array.shape)} {array.dtype.str} {digest}")


def _code_digest(code: types.CodeType) -> str:
    """Tells functions of one name apart by what they do, nested ones included."""
    plain = [part for part in code.co_consts if not isinstance(part, types.CodeType)]
    nested = [_code_digest(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    text = repr((code.co_names, code.co_varnames, plain, nested)).encode()
    return blake2b(code.co_code + text, digest_size=8).hexdigest()
