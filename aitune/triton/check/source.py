"""The text of a config file, read so that every byte survives and every character has a line and a column."""

from __future__ import annotations

import bisect
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from aitune.errors import RepositoryError

__all__ = ["MAX_BYTES", "Source", "read_source"]

MAX_BYTES = 8 << 20
"""Larger files are not parsed: a config is text that a person or a renderer wrote."""

_ESCAPE = "surrogateescape"


@dataclass(frozen=True, slots=True)
class Source:
    """A text with positions.

    Bytes that are not UTF-8 (a Latin-1 comment, say; Triton accepts it) are kept as lone surrogates, so that
    `to_bytes` gives back the file byte for byte.

    Attributes:
        name: What reports call the file.
        text: Its characters.
    """

    name: str
    text: str
    _starts: list[int] = field(init=False, repr=False, compare=False)
    _shown: dict[int, str] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        starts = [0]
        find = self.text.find
        end = find("\n")
        while end >= 0:
            starts.append(end + 1)
            end = find("\n", end + 1)
        object.__setattr__(self, "_starts", starts)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """A line without its end; bytes that are not UTF-8 show as U+FFFD."""
        shown = self._shown.get(number)
        if shown is None:  # one long line may be asked for by thousands of findings
            start = self._starts[number - 1]
            end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
            shown = self._shown[number] = printable(self.text[start:end].rstrip("\r"))
        return shown

    @property
    def to_bytes(self) -> bytes:
        """The file again."""
        return self.text.encode("utf-8", _ESCAPE)


def printable(text: str) -> str:
    """Text that can be printed anywhere: no lone surrogate, no control character."""
    shown = text.encode("utf-8", _ESCAPE).decode("utf-8", "replace")
    return "".join(
        " " if char == "\t" else char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in shown
    )


def decode(data: bytes) -> str:
    """Characters of a config file; nothing is lost."""
    return data.decode("utf-8", _ESCAPE)


def read_source(path: Path, name: str) -> Source:
    """The text of a regular file.

    Raises:
        RepositoryError: If it cannot be opened, is not a regular file, or is larger than `MAX_BYTES`.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise RepositoryError(f"{name} is not a regular file")
            if status.st_size > MAX_BYTES:
                raise RepositoryError(f"{name} has {status.st_size} bytes; a config is text of at most {MAX_BYTES}")
            return Source(name, decode(opened.read(MAX_BYTES + 1)))
    except OSError as error:
        raise RepositoryError(f"{name} cannot be read: {(error.strerror or str(error)).lower()}") from error
