"""What every command shares: its common options, and how results, talk and progress reach a person or a program."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

__all__ = ["Console", "LineProgress", "begin_document", "common_options", "document_begun", "table"]

F = TypeVar("F", bound=Callable[..., Any])

_document_begun: ContextVar[bool] = ContextVar("_document_begun", default=False)


def begin_document() -> None:
    """A command starts: its JSON document is not printed yet."""
    _document_begun.set(False)


def document_begun() -> bool:
    """Whether the JSON document of this command was printed, so that no second one may follow."""
    return _document_begun.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """How one command talks.

    Attributes:
        format: ``"text"``, ``"json"``, or another form the command knows.
        verbosity: -1 quiet, 0 normal, 1 verbose.
        show_progress: Whether long work may show how far it is.
    """

    format: str = "text"
    verbosity: int = 0
    show_progress: bool = True

    @property
    def json(self) -> bool:
        """Whether stdout carries one JSON document and nothing else."""
        return self.format == "json"

    @property
    def color(self) -> bool:
        """Whether stdout is a terminal that wants colours (NO_COLOR is obeyed)."""
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def document(self, data: Mapping[str, Any]) -> None:
        """Print the JSON document of the command on stdout; what its encoding lacks is escaped."""
        whole = {"schema_version": 1, **data}
        text = json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False)
        try:
            text.encode(sys.stdout.encoding or "utf-8")
        except UnicodeEncodeError:
            text = json.dumps(whole, indent=2, allow_nan=False)
        _document_begun.set(True)
        print(text)

    def result(self, text: str) -> None:
        """Print part of the result for a person on stdout."""
        print(text)

    def say(self, text: str) -> None:
        """Tell a person something on stderr, unless quiet."""
        if self.verbosity >= 0:
            print(text, file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        """Tell it only when asked for more."""
        if self.verbosity > 0:
            print(text, file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Warn on stderr, also when quiet."""
        print(f"warning: {text}", file=sys.stderr, flush=True)

    def style(self, text: str, **style: Any) -> str:
        """``text`` with colour where a terminal wants it."""
        return click.style(text, **style) if self.color else text

    def progress(self) -> LineProgress:
        """Where long work reports: a bar on a terminal, lines elsewhere, nothing when quiet."""
        if self.verbosity < 0 or not self.show_progress:
            return LineProgress(lambda text: None)
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            return BarProgress()
        return LineProgress(self.say)


class LineProgress:
    """Progress as plain lines: one when a step starts, one when it took longer than two seconds."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._what = ""
        self._started = 0.0

    def start(self, what: str, total: int | None = None) -> None:
        """A step begins; ``total`` is how many units it has, None if unknown."""
        self.done()
        self._what, self._started = what, time.monotonic()
        self._say(f"{what} …")

    def advance(self, n: int = 1) -> None:
        """``n`` more units are done."""

    def note(self, text: str) -> None:
        """Something worth telling happened."""
        self._say(f"  {text}")

    def done(self) -> None:
        """The step is over."""
        if self._what and (seconds := time.monotonic() - self._started) > 2:
            self._say(f"{self._what}: {seconds:.1f} s")
        self._what = ""


class BarProgress(LineProgress):
    """Progress as one moving line on a terminal."""

    def __init__(self) -> None:
        super().__init__(lambda text: None)
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def start(self, what: str, total: int | None = None) -> None:
        """Show a new line for the step."""
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.done()
        counts = (BarColumn(bar_width=24), MofNCompleteColumn()) if total else ()
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *counts, TimeElapsedColumn())
        self._bar = Progress(*columns, console=RichConsole(stderr=True), transient=True)
        self._task = self._bar.add_task(what, total=total)
        self._bar.start()
        self._what, self._started = what, time.monotonic()

    def advance(self, n: int = 1) -> None:
        """Move the bar."""
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, n)

    def note(self, text: str) -> None:
        """Print above the bar."""
        if self._bar is not None:
            self._bar.console.print(f"  {text}", markup=False, highlight=False)
        else:
            print(f"  {text}", file=sys.stderr)

    def done(self) -> None:
        """Take the bar away and leave one line that says what was done."""
        if self._bar is None:
            return
        self._bar.stop()
        print(f"{self._what}: {time.monotonic() - self._started:.1f} s", file=sys.stderr)
        self._bar = None


def common_options(*formats: str) -> Callable[[F], F]:
    """Give a command ``--format``, ``-q``, ``-v`` and ``--no-progress``, handed over as one ``console``.

    Args:
        formats: What ``--format`` may be besides ``text`` and ``json``.
    """

    def decorate(function: F) -> F:
        @click.option(
            "--format", "format_", type=click.Choice(["text", "json", *formats]), default="text", help="Form of stdout."
        )
        @click.option("-q", "--quiet", is_flag=True, help="Only results and warnings.")
        @click.option("-v", "--verbose", is_flag=True, help="More talk on stderr.")
        @click.option("--no-progress", is_flag=True, help="No progress on stderr.")
        @wraps(function)
        def wrapper(*args: Any, format_: str, quiet: bool, verbose: bool, no_progress: bool, **kwargs: Any) -> Any:
            verbosity = -1 if quiet else int(verbose)
            console = Console(format=format_, verbosity=verbosity, show_progress=not no_progress)
            return function(*args, console=console, **kwargs)

        return wrapper  # type: ignore[return-value]  # wraps keeps the signature less the four options

    return decorate


def chained(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several option decorators as one, shown in this order."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Rows in aligned columns, two blanks apart.

    Args:
        headers: One per column.
        rows: Cells as text.
        right: Columns to align on the right (numbers).
    """
    widths = [max(len(str(row[column])) for row in [headers, *rows]) for column in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        parts = [
            str(cell).rjust(width) if column in right else str(cell).ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(headers), rule, *(line(row) for row in rows)])
