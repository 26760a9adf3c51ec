"""Results go to stdout, talk to stderr, and progress never into a result."""

from __future__ import annotations

import io
import json
import sys

import click
import pytest

from aitune.cli import console as console_module
from aitune.cli.console import BarProgress, Console, LineProgress, table
from aitune.cli.shapes import SHAPE, collect


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ids=1,8", ("ids", (1, 8))),
        ("ids:8x512", ("ids", (8, 512))),
        ("ids=8", ("ids", (8,))),
        ("t=", ("t", ())),
        ("a:b=1,2", ("a:b", (1, 2))),
        ("a=b:1x2", ("a=b", (1, 2))),
    ],
)
def test_a_shape_option_is_a_name_and_sizes(text: str, expected: tuple[str, tuple[int, ...]]) -> None:
    """Both spellings of the design, and names that hold a separator."""
    assert SHAPE.convert(text, None, None) == expected
    assert SHAPE.convert(expected, None, None) == expected


@pytest.mark.parametrize("text", ["ids", "ids=1,", "ids=a", "=1", "ids:1,2", "ids=-1", "ids=0,4", ""])
def test_a_malformed_shape_is_refused(text: str) -> None:
    """The message shows the text and the form."""
    with pytest.raises(click.BadParameter, match=r"is not of the form|has a size below 1"):
        SHAPE.convert(text, None, None)


def test_one_tensor_named_twice_is_refused() -> None:
    """Which of the two would count is nobody's guess."""
    assert collect("--min-shape", [("a", (1,)), ("b", (2,))]) == {"a": (1,), "b": (2,)}
    with pytest.raises(click.UsageError, match="--min-shape names 'a' twice"):
        collect("--min-shape", [("a", (1,)), ("a", (2,))])


def test_a_table_aligns_its_columns() -> None:
    """Numbers on the right, no trailing blanks."""
    assert table(("name", "n"), [("a", "1"), ("bcdef", "100")], right=(1,)) == (
        "name     n\n-----  ---\na        1\nbcdef  100"
    )


def test_the_json_document_carries_its_schema_version(capsys: pytest.CaptureFixture[str]) -> None:
    """And no NaN, which is not JSON."""
    Console(format="json").document({"a": "é"})
    assert json.loads(capsys.readouterr().out) == {"schema_version": 1, "a": "é"}
    with pytest.raises(ValueError, match="Out of range float"):
        Console(format="json").document({"a": float("nan")})


def test_quiet_keeps_results_and_warnings_only(capsys: pytest.CaptureFixture[str]) -> None:
    """-q silences talk and progress."""
    quiet = Console(verbosity=-1)
    quiet.say("talk")
    quiet.detail("detail")
    quiet.warn("look")
    quiet.result("result")
    quiet.progress().start("work")
    assert capsys.readouterr() == ("result\n", "warning: look\n")
    Console(verbosity=1).detail("detail")
    assert capsys.readouterr().err == "detail\n"


def test_lines_say_what_starts_and_what_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal there is no bar."""
    said: list[str] = []
    times = iter([0.0, 5.0, 5.0, 5.5])
    monkeypatch.setattr(console_module.time, "monotonic", lambda: next(times, 6.0))
    progress = LineProgress(said.append)
    progress.start("export")
    progress.advance()
    progress.note("something")
    progress.done()
    progress.start("prove", 3)
    progress.done()
    assert said[:4] == ["export …", "  something", "export: 5.0 s", "prove …"]


def test_a_terminal_gets_a_bar_and_one_line_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar goes away; what was done and how long it took stays."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    progress = Console().progress()
    assert isinstance(progress, BarProgress)
    progress.note("before")
    progress.start("measure [x]", 3)
    progress.advance(2)
    progress.note("a [bracket]")
    progress.done()
    progress.done()
    assert "before" in stream.getvalue()
    assert "a [bracket]" in stream.getvalue()
    assert stream.getvalue().rstrip().splitlines()[-1].endswith("measure [x]: 0.0 s")


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR is obeyed."""
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Console().style("x", fg="red") != "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Console().style("x", fg="red") == "x"
