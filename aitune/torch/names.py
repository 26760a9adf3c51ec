"""Readable, stable and unique tensor names from the places where tensors sit."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence

from aitune.errors import UsageError
from aitune.torch.module.locator import Locator

__all__ = ["input_names", "output_names", "renamed", "symbol_name"]

_ODD = re.compile(r"[^A-Za-z0-9_\-]+")


def input_names(places: Sequence[Locator]) -> tuple[str, ...]:
    """One name per input: the parameter of ``forward``, and the keys below it after dots.

    >>> from aitune.torch.module.locator import Locator
    >>> input_names([place for place, _ in Locator.find_leaves({"ids": 1, "image": {"left": 2, "right": [3]}})])
    ('ids', 'image.left', 'image.right.0')
    """
    return _unique(places, [_joined(place, "input") for place in places])


def output_names(places: Sequence[Locator], taken: Sequence[str] = ()) -> tuple[str, ...]:
    """One name per output: its keys, ``output`` for a bare tensor, ``output_0``… for what has no keys.

    A name that is an input's already gets ``_out`` after it.

    >>> from aitune.torch.module.locator import Locator
    >>> output_names([place for place, _ in Locator.find_leaves((1, {"scores": 2}))])
    ('output_0', 'output_1.scores')
    """
    raw = [_joined(place, "output") for place in places]
    return _unique(places, [f"{name}_out" if name in taken else name for name in raw], taken)


def renamed(names: Sequence[str], wish: Sequence[str] | Mapping[str, str] | None, what: str) -> tuple[str, ...]:
    """The names a user wants.

    Args:
        names: The names so far.
        wish: All new names in order, or a mapping from some of the names so far; None keeps all.
        what: ``"input"`` or ``"output"``, for messages.

    Raises:
        UsageError: If there are too few or too many, one is unknown or blank, or two are equal.
    """
    if wish is None:
        return tuple(names)
    if isinstance(wish, Mapping):
        unknown = [name for name in wish if name not in names]
        if unknown:
            raise UsageError(f"there is no {what} {unknown[0]!r} to rename", hint=f"valid names: {', '.join(names)}")
        result = tuple(wish.get(name, name) for name in names)
    else:
        result = (wish,) if isinstance(wish, str) else tuple(wish)
    if len(result) != len(names):
        raise UsageError(
            f"{len(result)} {what} names were given for {len(names)} {what}s", hint=f"they are: {', '.join(names)}"
        )
    blank = [name for name in result if not isinstance(name, str) or not name.strip()]
    twice = sorted({name for name in result if result.count(name) > 1})
    if blank or twice:
        problem = f"the name {blank[0]!r} is blank" if blank else f"the name {twice[0]!r} is used twice"
        raise UsageError(f"{what} names must be distinct words: {problem}")
    return result


def symbol_name(name: str, axis: int, rank: int, *, floating: bool) -> str:
    """A readable symbol for a dynamic axis of an input, from the habits of the field; it proves nothing.

    >>> symbol_name("input_ids", 1, 2, floating=False), symbol_name("image", 3, 4, floating=True)
    ('sequence', 'width')
    """
    if axis == 1 and rank == 2 and not floating:
        return "sequence"
    if floating and rank == 4 and axis in (2, 3):
        return ("height", "width")[axis - 2]
    return f"{_ODD.sub('_', name).strip('_') or 'input'}_dim{axis}"


def _joined(place: Locator, kind: str) -> str:
    """The steps of a path joined by dots, in letters, digits, underscores and hyphens; not unique yet."""
    steps = [step for step in map(_plain, place.accessors) if step]
    if not steps:
        return kind
    if steps[0][0] in "0123456789-":
        steps[0] = f"{kind}_{steps[0]}"
    return ".".join(steps)


def _plain(accessor: object) -> str:
    """A step without accents and blanks, one that has none as it is; empty where nothing remains."""
    if isinstance(accessor, str) and accessor.isascii() and accessor.isidentifier():
        return accessor
    ascii_text = unicodedata.normalize("NFKD", str(accessor)).encode("ascii", "ignore").decode("ascii")
    return _ODD.sub("_", ascii_text).strip("_")


def _unique(places: Sequence[Locator], wanted: Sequence[str], taken: Sequence[str] = ()) -> tuple[str, ...]:
    """The wanted names, with a number after those that would be there twice.

    The names depend on the set of places alone, not on their order: the one that is spelled like the name, or else the
    less nested one, gets it.
    """
    used = set(taken)
    names: dict[Locator, str] = {}
    for place, name in sorted(
        zip(places, wanted, strict=True),
        key=lambda pair: (pair[1] != pair[0].path, pair[0].depth, repr(pair[0].access_path)),
    ):
        names[place] = _free(name, used)
        used.add(names[place])
    return tuple(names[place] for place in places)


def _free(name: str, used: Collection[str]) -> str:
    if name not in used:
        return name
    number = 2
    while f"{name}_{number}" in used:
        number += 1
    return f"{name}_{number}"
