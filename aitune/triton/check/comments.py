"""Comments of a config, attached to the fields they belong to, so that they survive a change of format."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field

from aitune.triton.check.tree import Node

__all__ = ["Comments", "Notes", "collect"]

_WORDS = re.compile(r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|#[^\n]*""")


@dataclass(slots=True)
class Notes:
    """Comments of one field: on lines before it, on its own line, on lines after it (at the end of its block)."""

    before: list[str] = field(default_factory=list)
    beside: str = ""
    after: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Comments:
    """All comments of a text.

    Attributes:
        notes: By the offset at which the field (or the message in a list) begins.
        end: Those after the last field, or of a text without fields.
    """

    notes: dict[int, Notes] = field(default_factory=dict)
    end: list[str] = field(default_factory=list)

    def of(self, start: int | None) -> Notes:
        """Comments of the field that begins there; none for what stands in no file."""
        return self.notes.get(start, Notes()) if start is not None else Notes()


def collect(text: str, root: Node) -> Comments:
    """Find every comment of a text and the field it is about."""
    anchors = sorted(set(_anchors(root)))
    comments = Comments()
    for match in _WORDS.finditer(text):
        if match.group().startswith("#"):
            _attach(text, anchors, comments, match.start(), match.group()[1:].strip())
    return comments


def _anchors(root: Node) -> list[int]:
    found: list[int] = []
    for node in root.walk():
        for occurrences in node.fields.values():
            for occurrence in occurrences:
                if occurrence.name is not None:
                    found.append(occurrence.name[0])
                found += [item.span[0] for item in occurrence.items if item.span and isinstance(item.value, Node)]
    return found


def _attach(text: str, anchors: list[int], comments: Comments, start: int, words: str) -> None:
    index = bisect.bisect_left(anchors, start)
    line_start = text.rfind("\n", 0, start) + 1
    alone = not text[line_start:start].strip()
    if not alone and index and anchors[index - 1] >= line_start:
        here = [anchor for anchor in anchors[:index] if anchor >= line_start]
        first = next((anchor for anchor in here if text[anchor] != "-"), here[0])  # the field behind a YAML dash
        note = comments.notes.setdefault(first, Notes())
        note.beside = f"{note.beside}; {words}" if note.beside else words
    elif index < len(anchors) and not _closes(text, start, anchors[index]):
        comments.notes.setdefault(anchors[index], Notes()).before.append(words)
    elif index < len(anchors) and index:
        comments.notes.setdefault(anchors[index - 1], Notes()).after.append(words)
    else:
        comments.end.append(words)


def _closes(text: str, start: int, end: int) -> bool:
    """Whether a block ends between a comment and the next field: a bracket says so, or less indentation."""
    deeper = _column(text, start) > _column(text, end)
    return deeper or any(char in "}]>" for char in _WORDS.sub("", text[start:end]))


def _column(text: str, offset: int) -> int:
    """Indentation of the line."""
    line = text[text.rfind("\n", 0, offset) + 1 :]
    return len(line) - len(line.lstrip(" \t"))
