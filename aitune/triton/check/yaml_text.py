"""Reading a config from YAML: the plain part of it that configs need, with positions so that comments survive.

Mappings and sequences by indentation, sequences of scalars in brackets, ``{}``, quoted and plain scalars, comments.
Anchors, tags, aliases, block scalars and several documents are refused: nobody writes a config with them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from aitune.errors import RepositoryError
from aitune.triton.check.grammar import MESSAGES, Field, MessageType
from aitune.triton.check.plain import scalar
from aitune.triton.check.scalars import MAX_DIGITS
from aitune.triton.check.tree import Item, Node, Occurrence, Value, entry_type

__all__ = ["from_yaml"]

_KEY = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)'|([A-Za-z_][A-Za-z0-9_.-]*))\s*:(?=\s|$)""")
_SCALAR = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s,\[\]{}#"'&*!|>%@`][^,\[\]{}]*""")
_COMMENT = re.compile(r"""^((?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^"'#]|(?<=\S)#)*?)(?:(?:^|(?<=\s))#.*)?$""")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+|0x[0-9a-fA-F]+)")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?\.?(?:inf|nan)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    start: int
    indent: int
    text: str


def from_yaml(text: str, name: str) -> Node:
    """A config from YAML.

    Args:
        text: The file's characters.
        name: What errors call it.

    Raises:
        RepositoryError: If it is not such YAML, or not a config; the message has the line.
    """
    return _Reader(text, name).read()


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._lines = list(self._split(text))
        self._at = 0

    def read(self) -> Node:
        root = Node("ModelConfig")
        if self._lines and not (len(self._lines) == 1 and self._lines[0].text == "{}"):
            self._mapping(root, self._lines[0].indent)
        if self._at < len(self._lines) and self._lines[self._at].text != "{}":
            raise self._error("the indentation fits nothing above")
        return root

    def _split(self, text: str) -> list[_Line]:
        found, start = [], 0
        for number, line in enumerate(text.split("\n"), 1):
            match = _COMMENT.match(line.rstrip("\r"))
            body = (match.group(1) if match else line).rstrip()
            if body.strip() and body.strip() != "---":
                indent = len(body) - len(body.lstrip(" "))
                if body[indent] == "\t":
                    raise RepositoryError(f"{self._name}:{number}: YAML is indented with blanks, not tabs")
                found.append(_Line(number, start + indent, indent, body[indent:]))
            start += len(line) + 1
        return found

    def _error(self, message: str) -> RepositoryError:
        line = self._lines[min(self._at, len(self._lines) - 1)]
        return RepositoryError(f"{self._name}:{line.number}: {message}")

    def _mapping(self, node: Node, indent: int) -> None:
        """Lines ``key: …`` at one indentation."""
        while self._at < len(self._lines) and self._lines[self._at].indent == indent:
            line = self._lines[self._at]
            match = _KEY.match(line.text)
            if match is None:
                raise self._error(f"expected 'field: value', got {line.text!r}")
            key = _key(match)
            described = node.type.fields.get(key)
            if described is None:
                raise self._error(f"{node.type.name} has no field {key!r}")
            if node.given(key):
                raise self._error(f"{key!r} is given twice")
            rest = line.text[match.end() :].strip()
            occurrence = Occurrence((line.start, line.start + match.end()), None)
            node.fields[key] = [occurrence]
            self._field(node, described, occurrence, rest, indent)

    def _field(self, node: Node, described: Field, occurrence: Occurrence, rest: str, indent: int) -> None:
        if described.is_map:
            self._at += 1
            node.fields[described.name] = []
            self._map(node, described, rest, indent)
        elif described.is_message and described.repeated:
            self._at += 1
            if rest not in ("", "[]"):
                raise self._error(f"{described.name} must be a list, one '- ' an element")
            self._sequence(node, described, occurrence, indent)
        elif described.is_message:
            child = self._child(described.type, node, described.name, occurrence)
            self._at += 1
            self._block(child, rest, indent)
        else:
            occurrence.items = [Item(value, occurrence.name) for value in self._scalars(described, rest, indent)]

    def _child(self, kind: str | MessageType, parent: Node, label: str, occurrence: Occurrence) -> Node:
        child = Node(kind, parent, label)
        occurrence.items.append(Item(child))
        return child

    def _block(self, child: Node, rest: str, indent: int) -> None:
        """The inside of a message: on the lines below, or ``{}``."""
        if rest not in ("", "{}"):
            self._at -= 1
            raise self._error(f"{child.type.name} must be written on the lines below, got {rest!r}")
        if not rest and self._at < len(self._lines) and self._lines[self._at].indent > indent:
            self._mapping(child, self._lines[self._at].indent)

    def _sequence(self, node: Node, described: Field, occurrence: Occurrence, indent: int) -> None:
        """Elements ``- key: …``; the dash counts as two blanks of indentation."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not (line.text == "-" or line.text.startswith("- ")) or line.indent < indent:
                return
            child = Node(described.type, node, f"{described.name}[{len(occurrence.items)}]")
            occurrence.items.append(Item(child, (line.start, line.start + 1)))
            inner = line.text[1:].lstrip()
            if inner in ("", "{}"):
                self._at += 1
                self._block(child, inner, line.indent)
                continue
            shift = len(line.text) - len(inner)
            self._lines[self._at] = _Line(line.number, line.start + shift, line.indent + shift, inner)
            self._mapping(child, line.indent + shift)

    def _map(self, node: Node, described: Field, rest: str, indent: int) -> None:
        if rest not in ("", "{}"):
            raise self._error(f"{described.name} must be a mapping on the lines below")
        kind = entry_type(described)
        if self._at >= len(self._lines) or (inner := self._lines[self._at].indent) <= indent:
            return
        while self._at < len(self._lines) and self._lines[self._at].indent == inner:
            line = self._lines[self._at]
            match = _KEY.match(line.text) or re.match(r"()()([0-9]+)\s*:(?=\s|$)", line.text)
            if match is None:
                raise self._error(f"expected 'key: value', got {line.text!r}")
            occurrence = Occurrence((line.start, line.start + match.end()), None)
            entry = self._child(kind, node, f"{described.name}[{json.dumps(_key(match))}]", occurrence)
            entry.set("key", scalar(kind.fields["key"].type, _key(match), f"{self._name}:{line.number}"))
            node.fields[described.name].append(occurrence)
            self._entry(entry, kind.fields["value"], line.text[match.end() :].strip(), inner)

    def _entry(self, entry: Node, described: Field, rest: str, indent: int) -> None:
        if described.type in MESSAGES:
            child = Node(described.type, entry, "value")
            entry.set("value", child)
            self._at += 1
            self._block(child, rest, indent)
        else:
            entry.set("value", self._scalars(described, rest, indent)[0])

    def _scalars(self, described: Field, rest: str, indent: int) -> list[Value]:
        """The values of a field that is no message; the line, and those of a list below it, are used up."""
        line = self._lines[self._at]
        where = f"{self._name}:{line.number}: {described.name}"
        if not described.repeated:
            words = [rest]
        elif rest:
            words = self._flow(rest)
        else:
            words = []
            while self._at + 1 < len(self._lines) and self._lines[self._at + 1].text.startswith("- "):
                if self._lines[self._at + 1].indent < indent:
                    break
                self._at += 1
                words.append(self._lines[self._at].text[2:].strip())
        values = [scalar(described.type, self._word(word, described.type), where) for word in words]
        self._at += 1
        return values

    def _flow(self, rest: str) -> list[str]:
        """``[a, b]`` or a single scalar."""
        if not rest.startswith("["):
            return [rest]
        if not rest.endswith("]"):
            raise self._error("a list in brackets must end on its line")
        words = [match.group().strip() for match in _SCALAR.finditer(rest[1:-1])]
        if re.sub(r"[\s,]", "", _SCALAR.sub("", rest[1:-1])):
            raise self._error(f"cannot read the list {rest!r}")
        return words

    def _word(self, word: str, kind: str) -> object:
        if word.startswith('"'):
            try:
                text: object = json.loads(word)
            except json.JSONDecodeError as error:
                raise self._error(f"cannot read the text {word}") from error
            return text
        if word.startswith("'") and word.endswith("'") and len(word) > 1:
            return word[1:-1].replace("''", "'")
        if not _SCALAR.fullmatch(word):
            raise self._error(f"cannot read {word!r}" if word else "a value is missing")
        if kind == "string":
            return word
        if word in ("true", "false", "True", "False"):
            return word.lower() == "true"
        if _NUMBER.fullmatch(word):
            if len(word) > MAX_DIGITS:
                raise self._error("the number is out of range")
            return int(word, 0) if "x" in word else int(word)
        return float(word.lower().replace(".inf", "inf").replace(".nan", "nan")) if _REAL.fullmatch(word) else word


def _key(match: re.Match[str]) -> str:
    double, single, plain = match.groups()
    if double is not None and match.group().startswith('"'):
        return str(json.loads(f'"{double}"'))
    return single.replace("''", "'") if single is not None and match.group().startswith("'") else plain
