"""The words of protobuf's text format, as the C++ reader inside Triton cuts them."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

__all__ = ["END", "FLOAT", "GLUED", "IDENTIFIER", "INTEGER", "STRING", "SYMBOL", "Token", "Tokenizer", "unescape"]

IDENTIFIER = "identifier"
INTEGER = "integer"
FLOAT = "float"
STRING = "string"
GLUED = "glued"
"""A number with a letter or a dot right behind it."""
SYMBOL = "symbol"
END = "end"

_SKIP = re.compile(r"(?:[ \t\r\n\v\f]+|#[^\n\x00]*)+")
_TOKEN = re.compile(
    r"""
    (?P<identifier>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?
      | (?!0[0-9xX])[0-9]+(?:[eE][+-]?[0-9]+[fF]?|[fF]))
  | (?P<integer>0[xX][0-9a-fA-F]+ | 0[0-7]+(?![0-9]) | (?!0[0-9])[0-9]+)
  | (?P<string>"(?:[^"\\\n\x00]|\\[^\n\x00])*" | '(?:[^'\\\n\x00]|\\[^\n\x00])*')
    """,
    re.VERBOSE,
)
_GLUED = re.compile(r"[A-Za-z_.]")
_ESCAPE = re.compile(
    rb"""\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U(00[01][0-9a-fA-F]{5})|([abfnrtv\\?'"])|(.?))""",
    re.DOTALL,
)
_SIMPLE = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
    b"\\": b"\\", b"?": b"?", b"'": b"'", b'"': b'"',
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Token:
    """One word.

    Attributes:
        kind: One of the constants of this module.
        text: The characters as they stand in the file; one character for a symbol.
        start: Offset of its first character.
        end: Offset after its last character.
    """

    kind: str
    text: str
    start: int
    end: int


class Tokenizer:
    """Cuts a text into tokens, one at a time, skipping blanks and ``#`` comments."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def next(self) -> Token:
        """The next token; `END` again and again after the last."""
        skipped = _SKIP.match(self._text, self._at)
        start = skipped.end() if skipped else self._at
        if start >= len(self._text):
            self._at = start
            return Token(END, "", start, start)
        found = _TOKEN.match(self._text, start)
        kind, end = (found.lastgroup or SYMBOL, found.end()) if found else (SYMBOL, start + 1)
        if kind in (INTEGER, FLOAT) and _GLUED.match(self._text, end):
            kind = GLUED
        self._at = end
        return Token(kind, self._text[start:end], start, end)

    def seek(self, offset: int) -> None:
        """Go on from ``offset``."""
        self._at = offset


class BadEscapeError(ValueError):
    """A backslash in a string that means nothing."""


def unescape(literal: str) -> str:
    """The characters that a quoted string stands for; bytes that are not UTF-8 become lone surrogates.

    Raises:
        BadEscapeError: With the offending escape as its argument.
    """
    body = literal[1:-1]
    if "\\" not in body:
        return body
    data = _ESCAPE.sub(_replace, body.encode("utf-8", "surrogateescape"))
    return data.decode("utf-8", "surrogateescape")


def _replace(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, short, long, simple, _ = match.groups()
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    if short is not None or long is not None:
        code = int(short or long, 16)
        return chr(code).encode("utf-8", "surrogatepass") if code <= sys.maxunicode else b"?"
    if simple is not None:
        return _SIMPLE[simple]
    raise BadEscapeError(match.group().decode("utf-8", "replace"))
