"""Where the reader of config texts stands, and how it reports what it cannot take."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aitune.triton.check.finding import Edit
from aitune.triton.check.tokens import END, GLUED, SYMBOL, Token, Tokenizer
from aitune.triton.check.tree import Span
from aitune.triton.releases import Release

__all__ = ["Cursor", "Problem", "Stop"]

_ONE_WORD = re.compile(r"[A-Za-z0-9_./-]+")
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


class Stop(Exception):  # control flow inside this module, not an error
    """Nothing after this point can be understood."""


class Cursor:
    """The current token of a text, and the problems found so far."""

    def __init__(self, text: str, target: Release) -> None:
        self.text = text
        self.target = target
        self.tokens = Tokenizer(text)
        self.problems: list[Problem] = []
        self.token = Token(END, "", 0, 0)
        self.last_end = 0

    def advance(self) -> Token:
        """Go on to the next token; the one that is left comes back."""
        used = self.token
        self.last_end = used.end
        self.token = self.tokens.next()
        return used

    def jump(self, end: int) -> None:
        """Go on after ``end``."""
        self.tokens.seek(end)
        self.token = Token(SYMBOL, "", end, end)
        self.advance()

    def looking_at(self, *symbols: str) -> bool:
        """Whether the current token is one of these symbols."""
        return self.token.kind == SYMBOL and self.token.text in symbols

    def accept(self, *symbols: str) -> bool:
        """Go past one of these symbols, if it is there."""
        if self.looking_at(*symbols):
            self.advance()
            return True
        return False

    def problem(self, rule: str, path: str, span: Span, message: str, fix: str = "", *edits: Edit) -> None:
        """Report a fault and go on; with very many of them, give up."""
        if len(self.problems) >= _MAX_PROBLEMS:
            raise Stop
        self.problems.append(Problem(rule, path, span, message, fix, edits))

    def stop(self, rule: str, path: str, span: Span, message: str, fix: str = "", *edits: Edit) -> None:
        """Report and give up: what follows cannot be understood."""
        self.problem(rule, path, span, message, fix, *edits)
        raise Stop

    def unexpected(self, path: str, wanted: str) -> None:
        """Give up at the current token."""
        token = self.token
        span = (token.start, max(token.end, token.start + 1))
        if token.kind == END:
            self.stop("R23", path, (self.last_end, self.last_end), f"the file ends where {wanted} is expected")
        if token.text in ("\x00", "\x1a"):
            trailing = not self.text[token.start :].strip("\x00\x1a \n\r\t")
            edits = (Edit(token.start, len(self.text), ""),) if trailing else ()
            self.stop("R23", path, span, "a NUL or control byte stands in the file", "remove it", *edits)
        if token.text in ('"', "'"):
            self._unclosed_quote(path)
        if token.kind == GLUED:
            self.stop("R23", path, span, f"a blank is missing after the number {token.text}")
        self.stop("R23", path, span, f"found {token.text!r} where {wanted} is expected")

    def _unclosed_quote(self, path: str) -> None:
        start = self.token.start
        line_end = self.text.find("\n", start)
        rest = self.text[start : len(self.text) if line_end < 0 else line_end].rstrip()
        end = start + len(rest)
        edits = (Edit(end, end, rest[0]),) if _ONE_WORD.fullmatch(rest, 1) else ()
        fix = f"{rest}{rest[0]}" if edits else ""
        self.stop("R22", path, (start, end), "the quote opened here is not closed on its line", fix, *edits)
