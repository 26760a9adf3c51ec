"""Names for tensors, made from their places."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

from aitune.torch.module.locator import Locator

__all__ = ["readable_name", "unique_names"]

_ODD = re.compile(r"[^0-9A-Za-z_]+")


def unique_names(locators: Iterable[Locator], prefix: str, taken: Collection[str] = ()) -> dict[Locator, str]:
    """One name for each place, readable, and none given twice.

    The names depend on the set of places alone, not on their order. Where two places want one name, the one that is
    spelled like it, or else the less nested one, gets it, and the other a number behind it.

    Args:
        locators: The places.
        prefix: Name of a lone tensor, and beginning of names that would start with a digit, e.g. ``"output"``.
        taken: Names given already, e.g. those of the inputs while the outputs are named.

    >>> from aitune.torch.module.locator import Locator
    >>> places = [place for place, _ in Locator.find_leaves({"a": {"b": 1}, "a_b": 2, "c": [3]})]
    >>> unique_names(places, "input")
    {a["b"]: 'a_b_2', a_b: 'a_b', c[0]: 'c_0'}
    """
    places = list(dict.fromkeys(locators))
    wanted = {place: readable_name(place, prefix) for place in places}
    used = set(taken)
    names: dict[Locator, str] = {}
    for place in sorted(places, key=lambda place: (wanted[place] != place.path, place.depth, repr(place.access_path))):
        names[place] = _free(wanted[place], used)
        used.add(names[place])
    return {place: names[place] for place in places}


def readable_name(locator: Locator, prefix: str) -> str:
    """The steps of a path joined by underscores, in letters, digits and underscores; not unique yet."""
    parts = [part for part in (_plain(accessor) for accessor in locator.accessors) if part]
    if not parts or parts[0][0].isdigit():
        parts.insert(0, prefix)
    return "_".join(parts)


def _plain(accessor: object) -> str:
    text = str(accessor)
    if text.isascii() and text.isidentifier():
        return text
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    return _ODD.sub("_", ascii_text).strip("_")


def _free(name: str, used: Collection[str]) -> str:
    if name not in used:
        return name
    number = 2
    while f"{name}_{number}" in used:
        number += 1
    return f"{name}_{number}"
