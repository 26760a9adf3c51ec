"""Edits of a config text that touch one field and leave everything around it as it is."""

from __future__ import annotations

import re

from aitune.triton.check.finding import Edit
from aitune.triton.check.source import Source
from aitune.triton.check.tree import Node

__all__ = ["dims_text", "remove_field", "replace_value", "set_field"]

_REST_OF_LINE = re.compile(r"[ \t]*[,;]?[ \t]*(?:#[^\n\r]*)?(?=\r?\n)")


def dims_text(dims: tuple[int, ...] | list[int]) -> str:
    """A shape as the config writes it.

    >>> dims_text((-1, 4))
    '[ -1, 4 ]'
    """
    return f"[ {', '.join(map(str, dims))} ]" if dims else "[ ]"


def set_field(source: Source | None, node: Node, name: str, text: str) -> tuple[Edit, ...]:
    """Make field ``name`` read ``text`` (``name: value``), wherever and however often it is written now.

    Returns:
        No edit when the message stands in no file.
    """
    if source is None:
        return ()
    written = [one for one in node.fields.get(name, ()) if one.whole is not None]
    if not written:
        return _insert(source, node, text)
    edits = []
    for index, occurrence in enumerate(written):
        start, end = occurrence.whole or (0, 0)
        edits.append(Edit(start, end, text) if index == 0 else Edit(*_with_gap(source, start, end), ""))
    return tuple(edits)


def remove_field(source: Source | None, node: Node, name: str) -> tuple[Edit, ...]:
    """Take field ``name`` out."""
    if source is None:
        return ()
    written = [one.whole for one in node.fields.get(name, ()) if one.whole is not None]
    return tuple(Edit(*_with_gap(source, start, end), "") for start, end in written)


def replace_value(source: Source | None, node: Node, name: str, text: str) -> tuple[Edit, ...]:
    """Put ``text`` where the value of a single scalar field stands."""
    spans = [item.span for item in node.items(name) if item.span is not None]
    return (Edit(spans[-1][0], spans[-1][1], text),) if source is not None and spans else ()


def _with_gap(source: Source, start: int, end: int) -> tuple[int, int]:
    """The span and what follows it: a separator and the blanks, or the whole line when nothing else stands on it."""
    text = source.text
    while end < len(text) and text[end] in " \t":
        end += 1
    if end < len(text) and text[end] in ",;":
        end += 1
    while end < len(text) and text[end] in " \t":
        end += 1
    line_start = text.rfind("\n", 0, start) + 1
    if not text[line_start:start].strip() and text[end : end + 1] in ("\n", "\r", ""):
        newline = text.find("\n", end)
        return line_start, len(text) if newline < 0 else newline + 1
    return start, end


def _insert(source: Source, node: Node, text: str) -> tuple[Edit, ...]:
    """After the last field of the message, on a line of its own when the fields have lines of their own."""
    ends = [one.whole for occurrences in node.fields.values() for one in occurrences if one.whole is not None]
    if not ends:
        return _insert_into_empty(source, node, text)
    start, end = max(ends, key=lambda span: span[1])
    line_start = source.text.rfind("\n", 0, start) + 1
    indent = source.text[line_start:start]
    rest = _REST_OF_LINE.match(source.text, end)
    if indent.strip() or rest is None:
        return (Edit(end, end, f" {text}"),)
    return (Edit(rest.end(), rest.end(), f"\n{indent}{text}"),)


def _insert_into_empty(source: Source, node: Node, text: str) -> tuple[Edit, ...]:
    if node.parent is None:
        return (Edit(len(source.text), len(source.text), f"{text}\n"),)
    if node.span is None:
        return ()
    at = node.span[0] + 1
    return (Edit(at, at, f" {text}"),)
