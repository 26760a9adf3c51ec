"""stdout carries the result and nothing else, whatever the surroundings are."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from aitune.cli import app, console, main
from aitune.cli.console import Console
from aitune.cli.streams import guarded_streams
from aitune.errors import ServerError


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make ``doctor`` call what the test wants (a command that imports nothing)."""

    def prepare(function: Any) -> None:
        @click.command("doctor")
        @click.option("--format", "format_")
        def called(format_: str | None) -> None:
            function()

        monkeypatch.setattr(app.LazyGroup, "get_command", lambda *args: called)

    return prepare


@contextmanager
def redirected(folder: Path) -> Iterator[None]:
    """Let descriptors 1 and 2 be the files ``out`` and ``err``, as a shell would."""
    kept = os.dup(1), os.dup(2)
    try:
        for number, name in ((1, "out"), (2, "err")):
            file = os.open(folder / name, os.O_CREAT | os.O_WRONLY)
            os.dup2(file, number)
            os.close(file)
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)


def test_what_a_child_writes_to_descriptor_1_is_no_part_of_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A C library or a child that prints does not break the one JSON document."""
    with redirected(tmp_path), open(1, "w", encoding="utf-8", closefd=False) as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr(sys, "__stdout__", stdout)
        with guarded_streams():
            os.write(1, b"noise\n")
            print('{"result": 1}')
        os.write(1, b"afterwards\n")
    assert (tmp_path / "out").read_text(encoding="utf-8") == '{"result": 1}\nafterwards\n'
    assert (tmp_path / "err").read_text(encoding="utf-8") == "noise\n"


def test_closed_streams_swallow_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """``>&- 2>&-`` leaves None in sys: the command runs all the same, and afterwards they are as they were."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    with guarded_streams():
        print("result")
        print("talk", file=sys.stderr)
        sys.stdout.flush()
        assert not Console().color
    assert sys.stdout is None


def test_a_character_that_the_stream_lacks_is_escaped_in_a_valid_document(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ASCII stdout gets JSON escapes, which read back to the same text; lone surrogates too."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    command(lambda: Console(format="json").document({"name": "日本…\udcff"}))
    assert main(["doctor"]) == 0
    assert json.loads(raw.getvalue())["name"] == "日本…\udcff"


def test_text_that_the_stream_lacks_is_escaped(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal without UTF-8 shows an escape instead of a bug."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    command(lambda: Console().result("proved …"))
    assert main(["doctor"]) == 0
    assert raw.getvalue() == b"proved \\u2026\n"


@pytest.mark.parametrize(
    ("error", "code"), [(BrokenPipeError(32, "Broken pipe"), 141), (OSError(28, "No space left on device"), 2)]
)
def test_a_stdout_that_cannot_be_written_to_ends_without_a_traceback(
    error: OSError, code: int, command: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also while an error is being reported on it."""

    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    def fail() -> None:
        raise ServerError("no server")

    command(fail)
    monkeypatch.setattr(sys, "stdout", Broken())
    assert main(["doctor", "--format", "json"]) == code
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_leaves_one_json_document(
    number: signal.Signals, code: int, word: str, command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the exit code is, stdout can be parsed."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` has it ignored
    command(lambda: signal.raise_signal(number))
    try:
        assert main(["doctor", "--format", "json"]) == code
    finally:
        signal.signal(signal.SIGINT, before)
    out, err = capsys.readouterr()
    assert json.loads(out) == {"error": {"code": f"E_{word.upper()}", "message": word, "hint": ""}}
    assert err.strip() == word


def test_a_signal_that_a_library_swallowed_is_still_that_signal(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """An extension module that is interrupted while it is loaded raises ImportError: that is no bug of ours."""

    def swallow() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except app.Terminated:
            raise ImportError("initialization failed") from None

    command(swallow)
    assert main(["doctor"]) == 143
    assert capsys.readouterr().err == "terminated\n"


@pytest.mark.parametrize("error", [ServerError("it ended"), KeyboardInterrupt()])
def test_a_document_that_was_printed_stays_the_only_one(
    error: BaseException, command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """``serve`` announces itself and is stopped later: stdout still holds one document."""

    def announce() -> None:
        Console(format="json").document({"pid": 1})
        raise error

    command(announce)
    assert main(["doctor", "--format", "json"]) in (3, 130)
    assert json.loads(capsys.readouterr().out)["pid"] == 1
    console.begin_document()
    assert not console.document_begun()


def test_an_exit_from_within_is_no_success(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A module whose forward calls sys.exit(0) must not look like a build that was done."""
    command(lambda: sys.exit(0))
    assert main(["doctor", "--format", "json"]) == 70
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "E_BUG"


def test_a_lack_of_memory_is_not_called_a_bug(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """An absurd batch ends in one line that says what to ask for instead."""

    def allocate() -> None:
        raise MemoryError("Unable to allocate 64.0 GiB")

    command(allocate)
    assert main(["doctor", "--format", "json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["message"] == "there is not enough memory: Unable to allocate 64.0 GiB"
    assert "--max-batch-size" in error["hint"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["build", "m.onnx", "-r", ""], "the path is empty"),
        (["check", ""], "the path is empty"),
        (["build", "m.onnx", "-m", ""], "a model cannot be called ''"),
        (["build", "m.onnx", "--max-batch-size", str(2**31)], "is not in the range"),
        (["build", "m.onnx", "--max-shape", f"x={2**31},4"], "has a size above 2147483647"),
        (["validate", "--timeout", "nan"], "is not a finite number"),
        (["validate", "--timeout", "0"], "is not in the range"),
        (["build", "m.onnx", "--tune-seconds", "inf"], "is not a finite number"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_where_it_is_given(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``-r "$UNSET"`` must not publish into the current directory, nor an absurd size allocate memory."""
    assert main([*argv, "--format", "json"]) == 2
    assert message in json.loads(capsys.readouterr().out)["error"]["message"]
