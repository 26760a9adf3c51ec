"""A reader of ``config.pbtxt`` with the verdict of Triton's own and the memory for positions that Triton's lacks.

Triton says "failed to read text proto" and no more. This reader accepts exactly what the server accepts, says where and
why it does not, and goes on after a fault whose meaning is clear, so that one run reports all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from aitune.triton.check import scalars
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
    Tokenizer,
    unescape,
)
from aitune.triton.check.tree import Item, Node, Occurrence, Span, Value, entry_type
from aitune.triton.releases import DEFAULT_RELEASE, Release, release

__all__ = ["Parsed", "Problem", "parse"]

_CLOSING = {"{": "}", "<": ">"}
_CURLY = re.compile("[\u201c\u201d\u201e\u2018\u2019\u201a]([^\u201c\u201d\u2018\u2019\n]*)[\u201c\u201d\u2018\u2019]")
_BARE = re.compile(r"[^\s{}\[\]<>,;#\"']+")
_ONE_WORD = re.compile(r"[A-Za-z0-9_./-]+")
_BOM = "\ufeff"
_WIDENED = ("priority_levels", "default_priority_level")
_MAX_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason why Triton refuses the text.

    Attributes:
        rule: Id of the rule.
        field: Path of the field, e.g. ``"input[0].dims"``.
        span: Where.
        message: What was found and what is expected.
        fix: What it should read, ``""`` when a person must decide.
        edits: Replacements that do it.
    """

    rule: str
    field: str
    span: Span
    message: str
    fix: str = ""
    edits: tuple[Edit, ...] = ()


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


class _Stop(Exception):  # control flow inside this module, not an error
    """Nothing after this point can be understood."""


class _Parser:
    def __init__(self, text: str, target: Release) -> None:
        self._text = text
        self._target = target
        self._tokens = Tokenizer(text)
        self._problems: list[Problem] = []
        self._token = Token(END, "", 0, 0)
        self._last_end = 0

    def parse(self, kind: str) -> Parsed:
        root = Node(kind)
        root.span = (0, 0)
        try:
            self._start()
            self._body(root, "")
        except _Stop:
            pass
        return Parsed(root, self._problems)

    def _start(self) -> None:
        if self._text.startswith(_BOM):
            self._tokens.seek(1)
            fix = "save the file as UTF-8 without a byte order mark"
            self._problem("R23", "", (0, 1), "a byte order mark stands before the first field", fix, Edit(0, 1, ""))
        elif "\x00" in self._text[:4] or self._text[:2] in ("\udcff\udcfe", "\udcfe\udcff"):
            self._stop("R23", "", (0, 1), "the file is not text: UTF-16, or binary", "save it as UTF-8")
        self._advance()

    # -- tokens -------------------------------------------------------------------------------------------------------

    def _advance(self) -> Token:
        used = self._token
        self._last_end = used.end
        self._token = self._tokens.next()
        return used

    def _jump(self, end: int) -> None:
        """Go on after ``end``."""
        self._tokens.seek(end)
        self._token = Token(SYMBOL, "", end, end)
        self._advance()

    def _looking_at(self, *symbols: str) -> bool:
        return self._token.kind == SYMBOL and self._token.text in symbols

    def _accept(self, *symbols: str) -> bool:
        if self._looking_at(*symbols):
            self._advance()
            return True
        return False

    # -- problems -----------------------------------------------------------------------------------------------------

    def _problem(self, rule: str, path: str, span: Span, message: str, fix: str = "", *edits: Edit) -> None:
        if len(self._problems) >= _MAX_PROBLEMS:
            raise _Stop
        self._problems.append(Problem(rule, path, span, message, fix, edits))

    def _stop(self, rule: str, path: str, span: Span, message: str, fix: str = "", *edits: Edit) -> None:
        """Report and give up: what follows cannot be understood."""
        self._problem(rule, path, span, message, fix, *edits)
        raise _Stop

    def _unexpected(self, path: str, wanted: str) -> None:
        """Give up at the current token."""
        token = self._token
        span = (token.start, max(token.end, token.start + 1))
        if token.kind == END:
            self._stop("R23", path, (self._last_end, self._last_end), f"the file ends where {wanted} is expected")
        if token.text in ("\x00", "\x1a"):
            trailing = not self._text[token.start :].strip("\x00\x1a \n\r\t")
            edits = (Edit(token.start, len(self._text), ""),) if trailing else ()
            self._stop("R23", path, span, "a NUL or control byte stands in the file", "remove it", *edits)
        if token.text in ('"', "'"):
            self._unclosed_quote(path)
        if token.kind == GLUED:
            self._stop("R23", path, span, f"a blank is missing after the number {token.text}")
        self._stop("R23", path, span, f"found {token.text!r} where {wanted} is expected")

    def _unclosed_quote(self, path: str) -> None:
        start = self._token.start
        line_end = self._text.find("\n", start)
        rest = self._text[start : len(self._text) if line_end < 0 else line_end].rstrip()
        end = start + len(rest)
        edits = (Edit(end, end, rest[0]),) if _ONE_WORD.fullmatch(rest, 1) else ()
        fix = f"{rest}{rest[0]}" if edits else ""
        self._stop("R22", path, (start, end), "the quote opened here is not closed on its line", fix, *edits)

    # -- structure ----------------------------------------------------------------------------------------------------

    def _body(self, node: Node, closing: str) -> None:
        """Fields up to ``closing``, which is left for the caller; up to the end of the file when that is empty."""
        while not self._looking_at("}", ">"):
            if self._token.kind == END:
                if not closing:
                    return
                start = (node.span or (0, 0))[0]
                self._stop("R23", node.path, (start, start + 1), "the brace opened here is never closed", "add a }")
            self._field(node)
        if self._token.text != closing:
            what = f"{closing!r}" if closing else "a field name or the end of the file"
            self._unexpected(node.path, what)

    def _field(self, node: Node) -> None:
        if self._token.kind != IDENTIFIER:
            self._bad_field_name(node)
            return
        name = self._advance()
        described = node.type.fields.get(name.text) or self._meant_field(node, name)
        if described is None:
            self._skip_value(f"{node.path}.{name.text}".lstrip("."))
            self._accept(",", ";")
            return
        self._check_release(node, name)
        path = f"{node.path}.{name.text}" if node.path else name.text
        self._separator(described, name, path)
        occurrence = Occurrence((name.start, name.end), None)
        self._check_repeated(node, described, name, path)
        if described.repeated and self._looking_at("["):
            self._list(node, described, occurrence, path)
        else:
            self._value(node, described, occurrence, path)
        occurrence.whole = (name.start, self._last_end)
        if not self._accept(",", ";"):
            return

    def _separator(self, described: Field, name: Token, path: str) -> None:
        """The colon: free before a message, demanded before a scalar."""
        if self._accept(":") or described.is_message:
            return
        if self._looking_at("="):
            edit = Edit(self._token.start, self._token.end, ":")
            self._problem(
                "R23", path, (self._token.start, self._token.end), "found '=' where ':' is expected", ":", edit
            )
            self._advance()
        elif self._token.kind in (INTEGER, FLOAT, STRING, IDENTIFIER) or self._looking_at("-", "["):
            edit = Edit(name.end, name.end, ":")
            message = f"a ':' is missing after {name.text!r}"
            self._problem("R23", path, (name.start, name.end), message, f"{name.text}:", edit)
        else:
            self._unexpected(path, "':'")

    def _list(self, node: Node, described: Field, occurrence: Occurrence, path: str) -> None:
        opening = self._advance()
        node.fields.setdefault(described.name, []).append(occurrence)
        if self._accept("]"):
            return
        while True:
            self._element(node, described, occurrence, path)
            if self._accept("]"):
                return
            comma = self._token
            if self._accept(","):
                if self._looking_at("]"):
                    edit = Edit(comma.start, comma.end, "")
                    span = (comma.start, comma.end)
                    self._problem("R21", path, span, "a comma stands after the last element", "remove the comma", edit)
            elif self._token.kind in (INTEGER, FLOAT, STRING, IDENTIFIER) or self._looking_at("{", "-"):
                edit = Edit(self._last_end, self._last_end, ",")
                span = (self._token.start, self._token.end)
                self._problem("R21", path, span, "a comma is missing before this element", ",", edit)
            elif self._token.kind == END:
                self._stop("R23", path, (opening.start, opening.end), "the bracket opened here is never closed", "]")
            else:
                self._unexpected(path, "',' or ']'")
            if self._accept("]"):
                return

    def _value(self, node: Node, described: Field, occurrence: Occurrence, path: str) -> None:
        self._element(node, described, occurrence, path)
        node.fields.setdefault(described.name, []).append(occurrence)

    def _element(self, node: Node, described: Field, occurrence: Occurrence, path: str) -> None:
        if described.is_message:
            occurrence.items.append(self._message(node, described, occurrence, path))
            return
        start = self._token.start
        value = self._scalar(described, path)
        if value is not None:
            occurrence.items.append(Item(value, (start, self._last_end)))

    def _message(self, node: Node, described: Field, occurrence: Occurrence, path: str) -> Item:
        if not self._looking_at("{", "<"):
            self._not_a_message(described, path)
        opening = self._advance()
        index = len(node.items(described.name))
        label = f"{described.name}[{index}]" if described.repeated else described.name
        kind = entry_type(described) if described.is_map else MESSAGES[described.type]
        child = Node(kind, node, label)
        child.span = (opening.start, opening.end)
        self._body(child, _CLOSING[opening.text])
        self._advance()
        child.span = (opening.start, self._last_end)
        if described.is_map:
            child.label = f"{described.name}[{child.key!r}]".replace("'", '"')
        return Item(child, child.span)

    # -- values -------------------------------------------------------------------------------------------------------

    def _scalar(self, described: Field, path: str) -> Value | None:
        """A value, or None when it was wrong, reported and skipped."""
        if described.type == "string":
            return self._string(path)
        placeholder = scalars.TEMPLATE.match(self._text, self._token.start)
        if placeholder is not None:
            message = f"{placeholder.group()} is an unfilled placeholder; Triton fills in nothing"
            self._problem(self._type_rule(described.type), path, placeholder.span(), message)
            self._jump(placeholder.end())
            return None
        start = self._token.start
        negative = self._looking_at("-") and described.type != "bool"
        if negative:
            self._advance()
        if self._token.kind in (SYMBOL, END, GLUED):
            self._unexpected(path, f"a value of type {described.type}")
        token = self._advance()
        try:
            value = self._convert(token, self._type_of(described), negative)
            self._check_value_release(described.type, value, path, token)
            return value
        except BadValueError as bad:
            edits = (Edit(start, token.end, bad.better),) if bad.better else ()
            message = bad.message
            if token.kind == IDENTIFIER and token.text.isupper() and bad.rule == "R19":
                message += "; it looks like an unfilled placeholder"
            self._problem(bad.rule, path, (start, token.end), message, bad.better, *edits)
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
        was_narrow = described.name in _WIDENED and not self._target.has("priority_uint64")
        return "uint32" if was_narrow else described.type

    @staticmethod
    def _type_rule(kind: str) -> str:
        return {"bool": "R20"}.get(kind, "R17" if kind in ENUMS else "R19")

    def _string(self, path: str) -> str | None:
        if self._token.kind != STRING:
            return self._not_a_string(path)
        parts: list[str] = []
        while self._token.kind == STRING:
            token = self._advance()
            try:
                parts.append(unescape(token.text))
            except BadEscapeError as bad:
                message = f"{bad} is not an escape that protobuf knows"
                fix = "write a backslash as \\\\"
                self._problem("R22", path, (token.start, token.end), message, fix)
        return "".join(parts)

    def _not_a_string(self, path: str) -> str | None:
        start = self._token.start
        curly = _CURLY.match(self._text, start)
        bare = _BARE.match(self._text, start)
        if curly is not None:
            meant, end, what = curly.group(1), curly.end(), "typographic quotes are not quotes"
        elif bare is not None and self._token.kind != END:
            meant, end, what = bare.group().rstrip(":"), bare.end(), "a text must stand in quotes"
        else:
            self._unexpected(path, "a quoted text")
            return None
        better = scalars.quote(meant)
        self._problem("R22", path, (start, end), what, better, Edit(start, end, better))
        self._jump(end)
        return meant

    # -- refusals -----------------------------------------------------------------------------------------------------

    def _check_release(self, node: Node, name: Token) -> None:
        key = f"{node.type.name}.{name.text}"
        if not self._target.knows_field(key):
            message = f"{name.text!r} is a field of a later release; Triton {self._target.name} refuses the file"
            self._problem(
                "R14", name.text, (name.start, name.end), message, "leave it out, or serve with a newer Triton"
            )

    def _check_value_release(self, kind: str, value: Value, path: str, token: Token) -> None:
        if kind in ENUMS and token.kind == IDENTIFIER and not self._target.knows_field(f"{kind}.{value}"):
            message = f"{value} is a value of a later release; Triton {self._target.name} refuses the file"
            self._problem("R17", path, (token.start, token.end), message)

    def _check_repeated(self, node: Node, described: Field, name: Token, path: str) -> None:
        """Given twice, or beside another member of its oneof."""
        span = (name.start, name.end)
        if not described.repeated and self._is_set(node, described):
            self._problem("R15", path, span, f"{name.text!r} is given twice; only repeated fields may be")
        if described.oneof:
            for other in node.type.fields.values():
                if other.oneof == described.oneof and other.name != described.name and node.given(other.name):
                    message = f"{name.text!r} and {other.name!r} exclude each other"
                    self._problem("R16", path, span, message, "keep one of them")

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
        self._problem("R14", path, (name.start, name.end), message, better, *edits)
        return node.type.fields.get(better)

    def _skip_value(self, path: str) -> None:
        """Past the value of an unknown field, so that the fields after it are still read."""
        self._accept(":")
        if self._looking_at("{", "<", "["):
            self._skip_brackets(path)
        elif self._token.kind == STRING:
            while self._token.kind == STRING:
                self._advance()
        else:
            self._accept("-")
            if self._token.kind in (SYMBOL, END, GLUED):
                self._unexpected(path, "a value")
            self._advance()

    def _skip_brackets(self, path: str) -> None:
        depth = 0
        opening = self._token
        while True:
            if self._token.kind == END:
                self._stop("R23", path, (opening.start, opening.end), "the brace opened here is never closed")
            depth += self._looking_at("{", "<", "[") - self._looking_at("}", ">", "]")
            self._advance()
            if depth == 0:
                return

    def _bad_field_name(self, node: Node) -> None:
        token = self._token
        if self._text.startswith("//", token.start):
            edit = Edit(token.start, token.start + 2, "#")
            line_end = self._text.find("\n", token.start)
            end = len(self._text) if line_end < 0 else line_end
            self._problem(
                "R23", node.path, (token.start, token.start + 2), "comments begin with '#', not '//'", "#", edit
            )
            self._jump(end)
            return
        if self._text.lstrip()[:1] == "{":
            self._stop("R23", "", (token.start, token.end), "the file is a JSON object; config.pbtxt is protobuf text")
        if token.kind == INTEGER:
            self._stop("R23", node.path, (token.start, token.end), "found a number where a field name is expected")
        self._unexpected(node.path, "a field name")

    def _not_a_message(self, described: Field, path: str) -> None:
        if described.is_map:
            wanted = "{ key: … value: … }"
        elif path.endswith("].value") and described.type == "ModelParameter" and self._token.kind == STRING:
            text = self._text[self._token.start : self._token.end]
            better = f"{{ string_value: {text} }}"
            span = (self._token.start, self._token.end)
            edit = Edit(span[0], span[1], better)
            self._stop("R24", path, span, "the value of a parameter is a message, not a text", f"value: {better}", edit)
        else:
            wanted = "'{'"
        self._unexpected(path, wanted)
