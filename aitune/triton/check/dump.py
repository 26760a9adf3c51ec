"""A config as text again: canonical protobuf text, YAML or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

from aitune.triton.check.comments import Comments
from aitune.triton.check.grammar import Field
from aitune.triton.check.source import printable
from aitune.triton.check.tree import Item, Node, Occurrence, Value

__all__ = ["to_json", "to_pbtxt", "to_plain", "to_yaml"]

_Style: TypeAlias = Callable[[Field, list[Value]], str]
_NONE = Comments()


def to_pbtxt(root: Node, comments: Comments = _NONE, added: str = "") -> str:
    """Protobuf text in a layout that people expect: one field a line, lists of scalars on one line.

    Args:
        root: The config.
        comments: What `collect` found.
        added: Comment beside fields that stand in no file, e.g. ``"filled in by the server"``.
    """
    lines = [*_pbtxt(root, comments, added, ""), *(f"# {line}".rstrip() for line in comments.end)]
    return "\n".join(lines) + "\n" if lines else ""


def to_yaml(root: Node, comments: Comments = _NONE) -> str:
    """YAML with the same names; texts are quoted, so that no reader takes them for anything else."""
    lines = [*_yaml(root, comments, ""), *(f"# {line}".rstrip() for line in comments.end)]
    return "\n".join(lines) + "\n" if lines else "{}\n"


def to_json(root: Node) -> str:
    """JSON as Triton's own endpoints write it, without the fields that were left out."""
    return json.dumps(to_plain(root), indent=2, ensure_ascii=False) + "\n"


def to_plain(root: Node) -> dict[str, object]:
    """Plain values: messages and maps as objects, enums by name, numbers that JSON lacks as texts."""
    found: dict[str, object] = {}
    for described, occurrences in _given(root):
        items = [item for occurrence in occurrences for item in occurrence.items]
        if described.is_map:
            found[described.name] = {str(key): _plain_entry(entry) for key, entry in root.map(described.name).items()}
        elif described.repeated:
            found[described.name] = [_plain(item.value) for item in items]
        else:
            found[described.name] = _plain(items[-1].value)
    return found


def _plain_entry(entry: Node) -> object:
    message = entry.message("value")
    if message is not None:
        return to_plain(message)
    return {} if entry.type.fields["value"].is_message else printable_text(entry.text("value"))


def _plain(value: Value) -> object:
    if isinstance(value, Node):
        return to_plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[_float(value)]
    return printable_text(value) if isinstance(value, str) else value


def printable_text(text: str) -> str:
    """The text without lone surrogates, which JSON files must not hold."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _given(root: Node) -> Iterator[tuple[Field, list[Occurrence]]]:
    """Fields with values, in the order in which they were first written."""
    for name, occurrences in root.fields.items():
        if any(occurrence.items for occurrence in occurrences):
            yield root.type.fields[name], occurrences


# -- protobuf text ----------------------------------------------------------------------------------------------------


def _pbtxt(node: Node, comments: Comments, added: str, indent: str) -> Iterator[str]:
    for described, occurrences in _given(node):
        if not described.is_message:
            yield from _scalar_lines(described, occurrences, comments, added, indent, _pbtxt_scalar)
            continue
        for occurrence in occurrences:
            for index, item in enumerate(occurrence.items):
                yield from _pbtxt_message(described, occurrence if not index else None, item, comments, added, indent)


def _scalar_lines(
    described: Field, occurrences: list[Occurrence], comments: Comments, added: str, indent: str, style: _Style
) -> Iterator[str]:
    notes = [comments.of(occurrence.name[0] if occurrence.name else None) for occurrence in occurrences]
    values = [item.value for occurrence in occurrences for item in occurrence.items]
    beside = "; ".join(note.beside for note in notes if note.beside)
    if added and all(occurrence.name is None for occurrence in occurrences):
        beside = added
    yield from _comment_lines([line for note in notes for line in note.before], indent)
    yield f"{indent}{style(described, values)}" + (f"  # {beside}" if beside else "")
    yield from _comment_lines([line for note in notes for line in note.after], indent)


def _pbtxt_scalar(described: Field, values: list[Value]) -> str:
    words = [_scalar(described, value) for value in values]
    return f"{described.name}: " + (f"[ {', '.join(words)} ]" if described.repeated else words[-1])


def _pbtxt_message(
    described: Field, occurrence: Occurrence | None, item: Item, comments: Comments, added: str, indent: str
) -> Iterator[str]:
    name_start = occurrence.name[0] if occurrence is not None and occurrence.name else None
    notes = [comments.of(name_start), comments.of(item.span[0] if item.span else None)]
    beside = "; ".join(note.beside for note in notes if note.beside) or (added if item.span is None else "")
    yield from _comment_lines([line for note in notes for line in note.before], indent)
    assert isinstance(item.value, Node)
    inner = list(_pbtxt(item.value, comments, "" if item.span is None else added, indent + "  "))
    yield f"{indent}{described.name} {{" + (" }" if not inner else "") + (f"  # {beside}" if beside else "")
    if inner:
        yield from inner
        yield f"{indent}}}"
    yield from _comment_lines([line for note in notes for line in note.after], indent)


def _comment_lines(lines: list[str], indent: str) -> Iterator[str]:
    for line in lines:
        yield f"{indent}# {printable(line)}".rstrip()


def _scalar(described: Field, value: Value) -> str:
    if described.type == "string":
        return _quoted(str(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return _float(value) if isinstance(value, float) else str(value)


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def _quoted(text: str) -> str:
    """A double-quoted text; bytes that are not UTF-8 and control characters as escapes."""
    pieces = []
    for char in text:
        code = ord(char)
        if 0xDC80 <= code <= 0xDCFF:
            pieces.append(f"\\{code - 0xDC00:03o}")
        elif char in '"\\':
            pieces.append(f"\\{char}")
        elif char == "\n":
            pieces.append("\\n")
        elif code < 0x20 or code == 0x7F:
            pieces.append(f"\\{code:03o}")
        else:
            pieces.append(char)
    return f'"{"".join(pieces)}"'


# -- YAML -------------------------------------------------------------------------------------------------------------


def _yaml(node: Node, comments: Comments, indent: str) -> Iterator[str]:
    for described, occurrences in _given(node):
        if not described.is_message:
            yield from _scalar_lines(described, occurrences, comments, "", indent, _yaml_scalar)
        elif described.is_map:
            yield from _yaml_map(node, described, occurrences, comments, indent)
        else:
            yield from _yaml_messages(described, occurrences, comments, indent)


def _yaml_scalar(described: Field, values: list[Value]) -> str:
    words = [
        json.dumps(printable_text(str(v))) if described.type == "string" else _scalar(described, v) for v in values
    ]
    return f"{described.name}: " + (f"[{', '.join(words)}]" if described.repeated else words[-1])


def _yaml_messages(described: Field, occurrences: list[Occurrence], comments: Comments, indent: str) -> Iterator[str]:
    first = True
    for occurrence in occurrences:
        for index, item in enumerate(occurrence.items):
            start = occurrence.name[0] if occurrence.name and not index else None
            notes = [comments.of(start), comments.of(item.span[0] if item.span else None)]
            yield from _comment_lines([line for note in notes for line in note.before], indent)
            beside = "; ".join(note.beside for note in notes if note.beside)
            mark = f"  # {beside}" if beside else ""
            assert isinstance(item.value, Node)
            inner = list(_yaml(item.value, comments, indent + ("    " if described.repeated else "  ")))
            if described.repeated:
                if first:
                    yield f"{indent}{described.name}:"
                yield from _yaml_element(inner, indent, mark)
            else:
                yield f"{indent}{described.name}:" + ("" if inner else " {}") + mark
                yield from inner
            first = False
            yield from _comment_lines([line for note in notes for line in note.after], indent)


def _yaml_element(inner: list[str], indent: str, mark: str) -> Iterator[str]:
    """``- `` before the first line that is no comment; comments before it go above."""
    if not inner:
        yield f"{indent}  - {{}}{mark}"
        return
    if mark:
        yield f"{indent}  #{mark.partition('#')[2]}"
    at = next(index for index, line in enumerate(inner) if not line.lstrip().startswith("#"))
    yield from (line[2:] for line in inner[:at])
    yield f"{indent}  - {inner[at].lstrip()}"
    yield from inner[at + 1 :]


def _yaml_map(
    node: Node, described: Field, occurrences: list[Occurrence], comments: Comments, indent: str
) -> Iterator[str]:
    yield f"{indent}{described.name}:"
    for entry in node.map(described.name).values():
        key = json.dumps(printable_text(str(entry.key)))
        start = next((o.name[0] for o in occurrences if o.name and any(i.value is entry for i in o.items)), None)
        notes = comments.of(start)
        yield from _comment_lines(notes.before, indent + "  ")
        mark = f"  # {notes.beside}" if notes.beside else ""
        message = entry.message("value")
        if message is None:
            value = "{}" if entry.type.fields["value"].is_message else json.dumps(printable_text(entry.text("value")))
            yield f"{indent}  {key}: {value}{mark}"
        else:
            inner = list(_yaml(message, comments, indent + "    "))
            yield f"{indent}  {key}:" + ("" if inner else " {}") + mark
            yield from inner
        yield from _comment_lines(notes.after, indent + "  ")
