"""How long work says how far it is; the command line draws it, the library is silent.

The same shape as ``aitune.tuning.Progress``, stated here because this room does not know that one.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["SILENT", "Progress"]


class Progress(Protocol):
    """One line of work at a time: ``start``, any number of ``advance`` and ``note``, ``done``."""

    def start(self, what: str, total: int | None) -> None:
        """A piece of work begins; ``total`` is its number of steps, None when nobody knows."""
        ...

    def advance(self, n: int = 1) -> None:
        """``n`` more steps are done."""
        ...

    def note(self, text: str) -> None:
        """Something a person may want to read while waiting, one line."""
        ...

    def done(self) -> None:
        """The piece of work that was started last has ended."""
        ...


class _Silent:
    """A progress that nobody sees."""

    def start(self, what: str, total: int | None) -> None:
        """Say nothing."""

    def advance(self, n: int = 1) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def done(self) -> None:
        """Say nothing."""


SILENT: Progress = _Silent()
"""The default progress: says nothing."""
