"""Single values of the text format: what Triton's reader accepts for a type, and what was probably meant.

Every function takes the token that stands where a value is due and answers with the value, or raises `BadValueError`
with the rule, a message and, where there is one answer, the text that should stand there.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from aitune.triton.check.grammar import ENUMS, INTEGERS
from aitune.triton.check.tokens import FLOAT, IDENTIFIER, INTEGER, STRING, Token

__all__ = ["MAX_DIGITS", "TEMPLATE", "BadValueError", "boolean", "choice", "closest", "integer", "quote", "real"]

TEMPLATE = re.compile(
    r"\$\{[^}\n]{0,200}\}|\{\{[^}\n]{0,200}\}\}|\{%[^\n]{0,200}?%\}|\$[A-Za-z_][A-Za-z0-9_]*|@[A-Za-z_]+@|%[A-Za-z_]+%"
)
"""Placeholders of the template languages seen in config files."""

_TRUE = ("true", "True", "t")
_FALSE = ("false", "False", "f")
MAX_DIGITS = 1000
"""Far more than any field holds, and no more than Python converts: what comes after does not matter."""
_FLOAT_WORDS = {"inf": "inf", "infinity": "inf", "nan": "nan"}


class BadValueError(ValueError):
    """A value that the field cannot hold.

    Attributes:
        rule: Id of the rule that refuses it.
        message: What was found and what is expected.
        better: What should stand there, ``""`` when a person must decide.
    """

    def __init__(self, rule: str, message: str, better: str = "") -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.better = better


def integer(token: Token, kind: str, *, negative: bool = False) -> int:
    """A whole number of type ``kind``: decimal, hexadecimal (``0x8``) or octal (``010``)."""
    low, high = INTEGERS[kind]
    if token.kind != INTEGER:
        raise BadValueError("R19", f"{token.text!r} is not a whole number", _whole(token))
    value = _number(token.text)
    value = -value if negative else value
    if negative and low == 0:
        raise BadValueError("R19", f"a minus sign is refused here: the field holds {kind}, {low}..{high}")
    if not low <= value <= high:
        raise BadValueError("R19", f"{_short(token.text)} is out of range: the field holds {kind}, {low}..{high}")
    return value


def real(token: Token, *, negative: bool = False) -> float:
    """A floating-point number; whole decimal numbers, ``inf`` and ``nan`` count."""
    word = _FLOAT_WORDS.get(token.text.lower(), "") if token.kind == IDENTIFIER else ""
    decimal = token.kind == INTEGER and (token.text == "0" or not token.text.startswith("0"))
    if not (word or decimal or token.kind == FLOAT):
        raise BadValueError("R19", f"{token.text!r} is not a decimal number")
    value = float(word or token.text.rstrip("fF"))
    return -value if negative else value


def boolean(token: Token) -> bool:
    """A truth value as protobuf spells it."""
    if token.kind == INTEGER and _number(token.text) in (0, 1):
        return _number(token.text) == 1
    if token.kind == IDENTIFIER and token.text in _TRUE + _FALSE:
        return token.text in _TRUE
    word = token.text.strip("\"'").lower()
    better = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}.get(
        word, ""
    )
    raise BadValueError("R20", f"{token.text!r} is not true or false", better)


def choice(token: Token, kind: str, *, negative: bool = False) -> str:
    """A name of an enum; its number counts too, and becomes its text when it has no name."""
    values = ENUMS[kind]
    if token.kind == INTEGER:
        number = integer(token, "int32", negative=negative)
        return next((name for name, known in values.items() if known == number), str(number))
    if token.kind == IDENTIFIER and token.text in values and not negative:
        return token.text
    better = closest(token.text.strip("\"'").upper(), values)
    if token.kind == STRING:
        message = f"{token.text} must stand without quotes"
    else:
        message = f"{token.text!r} is not one of {', '.join(values)}"
    raise BadValueError("R17", message, better)


def closest(word: str, known: Iterable[str]) -> str:
    """The name somebody probably meant, ``""`` when none is near."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.8)
    if near:
        return near[0]
    ending = [name for name in names if name.endswith(f"_{word}")]
    return ending[0] if len(ending) == 1 else ""


def quote(text: str) -> str:
    """A text as a quoted string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _number(text: str) -> int:
    base = 16 if text[:2] in ("0x", "0X") else 8 if text.startswith("0") else 10
    digits = (text[2:] if base == 16 else text).lstrip("0") or "0"
    return int(digits[:MAX_DIGITS], base)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def _whole(token: Token) -> str:
    """The whole number that ``8.0`` or ``"8"`` means."""
    word = token.text.strip("\"'").rstrip("fF")
    if re.fullmatch(r"-?[0-9]{1,18}(\.0*)?", word) and token.kind in (FLOAT, STRING):
        return str(int(word.partition(".")[0]))
    return ""
