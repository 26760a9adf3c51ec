"""A reader of ``config.pbtxt`` with the verdict of Triton's own and the memory for positions that Triton's lacks.

Triton says "failed to read text proto" and no more. This reader accepts exactly what the server accepts, says where and
why it does not, and goes on after a fault whose meaning is clear, so that one run reports all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from aitune.triton.check import scalars
from aitune.triton.check.cursor import Cursor, Problem, Stop
from aitune.triton.check.finding import Edit
from aitune.triton.check.grammar import ENUMS, INTEGERS, MESSAGES, Field
from aitune.triton.check.scalars import BadValueError
from aitune.triton.check.tokens import (
    END,
    FLOAT,
    GLUED,
    IDENTIFIER,
    INTEGER,
    STRING,
    SYMBOL,
    BadEscapeError,
    Token,
    unescape,
)
from aitune.triton.check.tree import Item, Node, Occurrence, Value, entry_type
from aitune.triton.releases import DEFAULT_RELEASE, Release, release

__all__ = ["Parsed", "Problem", "parse"]

_CLOSING = {"{": "}", "<": ">"}
_CURLY = re.compile("[\u201c\u201d\u201e\u2018\u2019\u201a]([^\u201c\u201d\u2018\u2019\n]*)[\u201c\u201d\u2018\u2019]")
_BARE = re.compile(r"[^\s{}\[\]<>,;#\"']+")
_BOM = "\ufeff"
_WIDENED = ("priority_levels", "default_priority_level")


@dataclass(slots=True)
class Parsed:
    """A config as far as it could be read.

    Attributes:
        config: The tree; incomplete when there are problems.
        problems: Why Triton would refuse it; empty when it would not.
    """

    config: Node
    problems: list[Problem] = field(default_factory=list)


def parse(text: str, target: Release | None = None, kind: str = "ModelConfig") -> Parsed:
    """Read a text-format message.

    Args:
        text: The file's characters.
        target: The release that shall read it; newer fields are refused.
        kind: Which message it is.
    """
    return _Parser(text, target or release(DEFAULT_RELEASE)).parse(kind)


class _Parser(Cursor):
    def __init__(self, text: str, target: Release) -> None:
        super().__init__(text, target)
        self._counted: Counter[tuple[int, str]] = Counter()  # elements of a field so far, by node and name

    def parse(self, kind: str) -> Parsed:
        root = Node(kind)
        root.span = (0, 0)
        try:
            self._start()
            self._body(root, "")
        except Stop:
            pass
        return Parsed(root, self.problems)

    def _start(self) -> None:
        if self.text.startswith(_BOM):
            self.tokens.seek(1)
            fix = "save the file as UTF-8 without a byte order mark"
            self.problem("R23", "", (0, 1), "a byte order mark stands before the first field", fix, Edit(0, 1, ""))
        elif "\x00" in self.text[:4] or self.text[:2] in ("\udcff\udcfe", "\udcfe\udcff"):
            self.stop("R23", "", (0, 1), "the file is not text: UTF-16, or binary", "save it as UTF-8")
        self.advance()

    # -- structure ----------------------------------------------------------------------------------------------------

    def _body(self, node: Node, closing: str) -> None:
        """Fields up to ``closing``, which is left for the caller; up to the end of the file when that is empty."""
        while not self.looking_at("}", ">"):
            if self.token.kind == END:
                if not closing:
                    return
                start = (node.span or (0, 0))[0]
                self.stop("R23", node.path, (start, start + 1), "the brace opened here is never closed", "add a }")
            self._field(node)
        if self.token.text != closing:
            what = f"{closing!r}" if closing else "a field name or the end of the file"
            self.unexpected(node.path, what)

    def _field(self, node: Node) -> None:
        if self.token.kind != IDENTIFIER:
            self._bad_field_name(node)
            return
        name = self.advance()
        described = node.type.fields.get(name.text) or self._meant_field(node, name)
        if described is None:
            self._skip_value(f"{node.path}.{name.text}".lstrip("."))
            self.accept(",", ";")
            return
        self._check_release(node, name)
        path = f"{node.path}.{name.text}" if node.path else name.text
        self._separator(described, name, path)
        occurrence = Occurrence((name.start, name.end), None)
        self._check_repeated(node, described, name, path)
        if described.repeated and self.looking_at("["):
            self._list(node, described, occurrence, path)
        else:
            self._value(node, described, occurrence, path)
        occurrence.whole = (name.start, self.last_end)
        if not self.accept(",", ";"):
            return

    def _separator(self, described: Field, name: Token, path: str) -> None:
        """The colon: free before a message, demanded before a scalar."""
        if self.accept(":") or described.is_message:
            return
        if self.looking_at("="):
            edit = Edit(self.token.start, self.token.end, ":")
            self.problem("R23", path, (self.token.start, self.token.end), "found '=' where ':' is expected", ":", edit)
            self.advance()
        elif self.token.kind in (INTEGER, FLOAT, STRING, IDENTIFIER) or self.looking_at("-", "["):
            edit = Edit(name.end, name.end, ":")
            message = f"a ':' is missing after {name.text!r}"
            self.problem("R23", path, (name.start, name.end), message, f"{name.text}:", edit)
        else:
            self.unexpected(path, "':'")

    def _list(self, node: Node, described: Field, occurrence: Occurrence, path: str) -> None:
        opening = self.advance()
        node.fields.setdefault(described.name, []).append(occurrence)
        if self.accept("]"):
            return
        while True:
            self._element(node, described, occurrence, path)
            if self.accept("]"):
                return
            comma = self.token
            if self.accept(","):
                if self.looking_at("]"):
                    edit = Edit(comma.start, comma.end, "")
                    span = (comma.start, comma.end)
                    self.problem("R21", path, span, "a comma stands after the last element", "remove the comma", edit)
            elif self.token.kind in (INTEGER, FLOAT, STRING, IDENTIFIER) or self.looking_at("{", "-"):
                edit = Edit(self.last_end, self.last_end, ",")
                span = (self.token.start, self.token.end)
                self.problem("R21", path, span, "a comma is missing before this element", ",", edit)
            elif self.token.kind == END:
                self.stop("R23", path, (opening.start, opening.end), "the bracket opened here is never closed", "]")
            else:
                self.unexpected(path, "',' or ']'")
            if self.accept("]"):
                return

    def _value(self, node: Node, described: Field, occurrence: Occurrence, path: str) -> None:
        self._element(node, described, occurrence, path)
        node.fields.setdefault(described.name, []).append(occurrence)

    def _element(self, node: Node, described: Field, occurrence: Occurrence, path: str) -> None:
        if described.is_message:
            occurrence.items.append(self._message(node, described, occurrence, path))
            return
        start = self.token.start
        value = self._scalar(described, path)
        if value is not None:
            occurrence.items.append(Item(value, (start, self.last_end)))

    def _message(self, node: Node, described: Field, occurrence: Occurrence, path: str) -> Item:
        if not self.looking_at("{", "<"):
            self._not_a_message(described, path)
        opening = self.advance()
        index = self._counted[(id(node), described.name)]
        self._counted[(id(node), described.name)] += 1
        label = f"{described.name}[{index}]" if described.repeated else described.name
        kind = entry_type(described) if described.is_map else MESSAGES[described.type]
        child = Node(kind, node, label)
        child.span = (opening.start, opening.end)
        self._body(child, _CLOSING[opening.text])
        self.advance()
        child.span = (opening.start, self.last_end)
        if described.is_map:
            child.label = f"{described.name}[{child.key!r}]".replace("'", '"')
        return Item(child, child.span)

    # -- values -------------------------------------------------------------------------------------------------------

    def _scalar(self, described: Field, path: str) -> Value | None:
        """A value, or None when it was wrong, reported and skipped."""
        if described.type == "string":
            return self._string(path)
        placeholder = scalars.TEMPLATE.match(self.text, self.token.start)
        if placeholder is not None:
            message = f"{placeholder.group()} is an unfilled placeholder; Triton fills in nothing"
            self.problem(self._type_rule(described.type), path, placeholder.span(), message)
            self.jump(placeholder.end())
            return None
        start = self.token.start
        negative = self.looking_at("-") and described.type != "bool"
        if negative:
            self.advance()
        if self.token.kind in (SYMBOL, END, GLUED):
            self.unexpected(path, f"a value of type {described.type}")
        token = self.advance()
        try:
            value = self._convert(token, self._type_of(described), negative)
            self._check_value_release(described.type, value, path, token)
            return value
        except BadValueError as bad:
            edits = (Edit(start, token.end, bad.better),) if bad.better else ()
            message = bad.message
            if token.kind == IDENTIFIER and token.text.isupper() and bad.rule == "R19":
                message += "; it looks like an unfilled placeholder"
            self.problem(bad.rule, path, (start, token.end), message, bad.better, *edits)
            return None

    def _convert(self, token: Token, kind: str, negative: bool) -> Value:
        if kind in INTEGERS:
            return scalars.integer(token, kind, negative=negative)
        if kind in ("float", "double"):
            return scalars.real(token, negative=negative)
        if kind == "bool":
            return scalars.boolean(token)
        return scalars.choice(token, kind, negative=negative)

    def _type_of(self, described: Field) -> str:
        """The field's type in the target release."""
        was_narrow = described.name in _WIDENED and not self.target.has("priority_uint64")
        return "uint32" if was_narrow else described.type

    @staticmethod
    def _type_rule(kind: str) -> str:
        return {"bool": "R20"}.get(kind, "R17" if kind in ENUMS else "R19")

    def _string(self, path: str) -> str | None:
        if self.token.kind != STRING:
            return self._not_a_string(path)
        parts: list[str] = []
        while self.token.kind == STRING:
            token = self.advance()
            try:
                parts.append(unescape(token.text))
            except BadEscapeError as bad:
                message = f"{bad} is not an escape that protobuf knows"
                fix = "write a backslash as \\\\"
                self.problem("R22", path, (token.start, token.end), message, fix)
        return "".join(parts)

    def _not_a_string(self, path: str) -> str | None:
        start = self.token.start
        curly = _CURLY.match(self.text, start)
        bare = _BARE.match(self.text, start)
        if curly is not None:
            meant, end, what = curly.group(1), curly.end(), "typographic quotes are not quotes"
        elif bare is not None and self.token.kind != END:
            meant, end, what = bare.group().rstrip(":"), bare.end(), "a text must stand in quotes"
        else:
            self.unexpected(path, "a quoted text")
            return None
        better = scalars.quote(meant)
        self.problem("R22", path, (start, end), what, better, Edit(start, end, better))
        self.jump(end)
        return meant

    # -- refusals -----------------------------------------------------------------------------------------------------

    def _check_release(self, node: Node, name: Token) -> None:
        key = f"{node.type.name}.{name.text}"
        if not self.target.knows_field(key):
            message = f"{name.text!r} is a field of a later release; Triton {self.target.name} refuses the file"
            self.problem(
                "R14", name.text, (name.start, name.end), message, "leave it out, or serve with a newer Triton"
            )

    def _check_value_release(self, kind: str, value: Value, path: str, token: Token) -> None:
        if kind in ENUMS and token.kind == IDENTIFIER and not self.target.knows_field(f"{kind}.{value}"):
            message = f"{value} is a value of a later release; Triton {self.target.name} refuses the file"
            self.problem("R17", path, (token.start, token.end), message)

    def _check_repeated(self, node: Node, described: Field, name: Token, path: str) -> None:
        """Given twice, or beside another member of its oneof."""
        span = (name.start, name.end)
        if not described.repeated and self._is_set(node, described):
            self.problem("R15", path, span, f"{name.text!r} is given twice; only repeated fields may be")
        if described.oneof:
            for other in node.type.fields.values():
                if other.oneof == described.oneof and other.name != described.name and node.given(other.name):
                    message = f"{name.text!r} and {other.name!r} exclude each other"
                    self.problem("R16", path, span, message, "keep one of them")

    @staticmethod
    def _is_set(node: Node, described: Field) -> bool:
        """Whether protobuf sees a value: a plain scalar that holds its default counts as absent."""
        values = [item.value for item in node.items(described.name)]
        in_map = node.type.name.endswith(" entry")
        if not values or described.is_message or described.oneof or in_map:
            return bool(values)
        if described.type in ENUMS:
            return str(values[-1]) not in (next(iter(ENUMS[described.type])), "0")
        return bool(values[-1])

    def _meant_field(self, node: Node, name: Token) -> Field | None:
        """Report an unknown field; answer with the one that was probably meant, so that its value is still read."""
        better = scalars.closest(name.text, node.type.fields)
        path = f"{node.path}.{name.text}" if node.path else name.text
        message = f"{node.type.name} has no field {name.text!r}"
        edits = (Edit(name.start, name.end, better),) if better else ()
        self.problem("R14", path, (name.start, name.end), message, better, *edits)
        return node.type.fields.get(better)

    def _skip_value(self, path: str) -> None:
        """Past the value of an unknown field, so that the fields after it are still read."""
        self.accept(":")
        if self.looking_at("{", "<", "["):
            self._skip_brackets(path)
        elif self.token.kind == STRING:
            while self.token.kind == STRING:
                self.advance()
        else:
            self.accept("-")
            if self.token.kind in (SYMBOL, END, GLUED):
                self.unexpected(path, "a value")
            self.advance()

    def _skip_brackets(self, path: str) -> None:
        depth = 0
        opening = self.token
        while True:
            if self.token.kind == END:
                self.stop("R23", path, (opening.start, opening.end), "the brace opened here is never closed")
            depth += self.looking_at("{", "<", "[") - self.looking_at("}", ">", "]")
            self.advance()
            if depth == 0:
                return

    def _bad_field_name(self, node: Node) -> None:
        token = self.token
        if self.text.startswith("//", token.start):
            edit = Edit(token.start, token.start + 2, "#")
            line_end = self.text.find("\n", token.start)
            end = len(self.text) if line_end < 0 else line_end
            self.problem(
                "R23", node.path, (token.start, token.start + 2), "comments begin with '#', not '//'", "#", edit
            )
            self.jump(end)
            return
        if self.text.lstrip()[:1] == "{":
            self.stop("R23", "", (token.start, token.end), "the file is a JSON object; config.pbtxt is protobuf text")
        if token.kind == INTEGER:
            self.stop("R23", node.path, (token.start, token.end), "found a number where a field name is expected")
        self.unexpected(node.path, "a field name")

    def _not_a_message(self, described: Field, path: str) -> None:
        if described.is_map:
            wanted = "{ key: … value: … }"
        elif path.endswith("].value") and described.type == "ModelParameter" and self.token.kind == STRING:
            text = self.text[self.token.start : self.token.end]
            better = f"{{ string_value: {text} }}"
            span = (self.token.start, self.token.end)
            edit = Edit(span[0], span[1], better)
            self.stop("R24", path, span, "the value of a parameter is a message, not a text", f"value: {better}", edit)
        else:
            wanted = "'{'"
        self.unexpected(path, wanted)
