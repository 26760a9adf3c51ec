r"""Text as protobuf's text format wants it: string literals and comments that no name can break out of.

>>> quote("it's"), quote('say "x"'), quote("a\nb")
('"it\'s"', '\'say "x"\'', '"a\\nb"')
>>> print(comment("tensor 'a\nb' stops it"))
# tensor 'a\nb' stops it
"""

from __future__ import annotations

import textwrap

from aitune.errors import RecordError

__all__ = ["comment", "printable", "quote", "quote_lines"]

_WIDTH = 118
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def quote(text: str) -> str:
    """The text as one string literal, quotes included.

    The quote that occurs less is not used. UTF-8 stays readable (R22); what cannot be seen is written in octal, byte
    by byte, because a hexadecimal escape has no certain end.

    Raises:
        RecordError: If the text has no UTF-8 form (a lone surrogate).
    """
    mark = "'" if text.count('"') > text.count("'") else '"'
    return mark + "".join(_escape(character, mark) for character in text) + mark


def quote_lines(text: str, width: int = 100) -> tuple[str, ...]:
    """The text as literals of at most ``width`` characters each; the parser joins neighbours (R22)."""
    pieces = [text[start : start + width] for start in range(0, len(text), width)]
    return tuple(quote(piece) for piece in pieces or [""])


def comment(text: str, indent: int = 0) -> str:
    """The text as comment lines of the given indent, wrapped; no character of it can end the comment."""
    prefix = " " * indent + "# "
    lines = textwrap.wrap(
        printable(text), _WIDTH - len(prefix), break_on_hyphens=False, break_long_words=False, drop_whitespace=True
    )
    return "\n".join((prefix + line).rstrip() for line in lines or [""])


def printable(text: str) -> str:
    """The text with everything that cannot be seen written as an escape, as Python would write it."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def _escape(character: str, mark: str) -> str:
    if character == mark:
        return "\\" + character
    if character in _SHORT:
        return _SHORT[character]
    if character.isprintable():
        return character
    try:
        return "".join(f"\\{byte:03o}" for byte in character.encode())
    except UnicodeEncodeError as error:
        raise RecordError(
            f"a name with the lone surrogate {character!r} has no UTF-8 form", hint="rename the tensor in the model"
        ) from error
