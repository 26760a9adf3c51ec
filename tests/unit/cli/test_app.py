"""Errors become one line and the right exit code; JSON stays one document."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import click
import pytest

from aitune.cli import app, main
from aitune.cli.environment import foreign_aitune, refuse_foreign_aitune
from aitune.errors import (
    AituneError,
    BatchingError,
    InconclusiveError,
    MissingDependencyError,
    NumericsError,
    ServerError,
    SourceError,
    UnavailableError,
    UsageError,
)


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make ``doctor`` raise what the test wants (a command that imports nothing)."""

    def prepare(error: BaseException) -> None:
        @click.command("doctor")
        @click.option("--format", "format_")
        def command(format_: str | None) -> int:
            raise error

        monkeypatch.setattr(app.LazyGroup, "get_command", lambda *args: command)

    return prepare


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (UsageError("m"), 2, "E_USAGE"),
        (SourceError("m"), 2, "E_SOURCE"),
        (BatchingError("m"), 1, "E_BATCHING"),
        (NumericsError("m"), 1, "E_NUMERICS"),
        (ServerError("m"), 3, "E_SERVER"),
        (MissingDependencyError("torch", extra="torch"), 3, "E_MISSING"),
        (InconclusiveError("m"), 4, "E_INCONCLUSIVE"),
        (FileNotFoundError(2, "No such file or directory", "x"), 2, "E_USAGE"),
        (ZeroDivisionError("oops"), 70, "E_BUG"),
    ],
)
def test_every_error_has_its_exit_code_and_word(
    error: Exception, code: int, word: str, raising: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result is one JSON document, stderr one line and a hint, and no traceback is seen."""
    raising(error)
    assert main(["doctor", "--format", "json"]) == code
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == word
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert err.count("\n") <= 2


def test_without_json_stdout_stays_empty(raising: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipeline that reads stdout reads no talk."""
    raising(SourceError("no file 'x'", hint="give one"))
    assert main(["doctor"]) == 2
    assert capsys.readouterr() == ("", "error: no file 'x'\n  hint: give one\n")


def test_a_bug_leaves_a_log_with_the_traceback(raising: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The one line names the file to send."""
    raising(ZeroDivisionError("oops"))
    assert main(["doctor"]) == 70
    found = re.search(r"with the log (\S+)", capsys.readouterr().err)
    assert found
    log = Path(found.group(1))
    assert "ZeroDivisionError: oops" in log.read_text(encoding="utf-8")
    log.unlink()


@pytest.mark.parametrize(
    ("error", "code", "word"), [(KeyboardInterrupt(), 130, "interrupted"), (app.Terminated(), 143, "terminated")]
)
def test_an_interrupt_is_one_word(
    error: BaseException, code: int, word: str, raising: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As shells expect: 128 plus the number of the signal."""
    raising(error)
    assert main(["doctor"]) == code
    assert capsys.readouterr().err.strip() == word


def test_sigterm_unwinds_like_an_interrupt(raising: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler is in place while a command runs, and gone afterwards."""
    before = signal.getsignal(signal.SIGTERM)

    @click.command("doctor")
    def command() -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(app.LazyGroup, "get_command", lambda *args: command)
    assert main(["doctor"]) == 143
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (["biuld"], "no command 'biuld'", "did you mean 'build'?"),
        (["xyzzy"], "no command 'xyzzy'", "known are inspect, build"),
        (["doctor", "--nonsense"], "No such option", "see aitune-triton doctor --help"),
        (["serve", "--poll", "--explicit"], "--poll does not go with", "see aitune-triton serve --help"),
        (["build"], "Missing argument 'SOURCE'", "see aitune-triton build --help"),
    ],
)
def test_bad_usage_is_one_line_with_a_way_out(
    argv: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, and JSON when it was asked for."""
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert message in err
    assert hint in err
    assert main([*argv, "--format", "json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "E_USAGE"


def test_help_lists_every_command_without_importing_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The list and the table agree."""
    assert main([]) == 0
    out = capsys.readouterr().out
    assert [name for name in app.COMMANDS if f"  {name} " not in out] == []
    assert "Exit codes" in out


@pytest.mark.parametrize("name", list(app.COMMANDS))
def test_every_command_of_the_table_exists_and_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help text of each command renders, and offers JSON."""
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Usage: aitune-triton {name}")
    assert "--format" in out


def test_version_is_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    """One number everywhere."""
    from aitune import __version__

    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


def test_the_other_distribution_of_that_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two distributions with one import name would mix their modules (decision 13)."""
    assert foreign_aitune([str(tmp_path), str(tmp_path / "absent")]) is None
    (tmp_path / "aitune_triton-0.1.0.dist-info").mkdir()
    refuse_foreign_aitune([str(tmp_path)])
    (tmp_path / "aitune-0.6.0.dist-info").mkdir()
    assert foreign_aitune([str(tmp_path)]) == "0.6.0"
    with pytest.raises(UnavailableError, match=r"another distribution, 'aitune' 0\.6\.0") as caught:
        refuse_foreign_aitune([str(tmp_path)])
    assert "pip install aitune'" not in caught.value.hint
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["serve"]) == 3


def test_the_error_tree_is_as_drawn() -> None:
    """Each class of the drawing has the exit code and the word it is drawn with."""
    import aitune.errors as errors

    drawn = re.findall(r"(\w+Error)\s+(\d+)\s+(E_\w+)", errors.__doc__ or "")
    assert len(drawn) == len(errors.__all__)
    for name, exit_code, code in drawn:
        kind = getattr(errors, name)
        assert issubclass(kind, AituneError)
        assert (kind.exit_code, kind.code) == (int(exit_code), code)


@pytest.mark.parametrize(
    "argv",
    [
        ["check", "{}"],
        ["serve", "{}"],
        ["validate", "{}"],
        ["validate", "{}", "-u", "127.0.0.1:9"],
        ["perf", "{}", "-m", "m"],
        ["versions", "{}"],
        ["rollback", "{}", "-m", "m", "--to", "1"],
        ["show", "{}/m"],
        ["diff", "{}/m", "{}/n"],
        ["convert", "{}/m", "--to", "json"],
    ],
    ids=" ".join,
)
def test_a_repository_that_is_not_there_has_one_code(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever was to be done with it."""
    argv = [text.format(tmp_path / "none") for text in argv]
    assert main([*argv, "--format", "json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "E_REPOSITORY"
    assert len([line for line in err.splitlines() if line.startswith("error: ")]) == 1


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["inspect", "{}/m.onnx"], "E_SOURCE"),
        (["build", "{}/m.onnx", "-r", "{}"], "E_SOURCE"),
        (["build", "{}/m.py:f", "-r", "{}"], "E_SOURCE"),
        (["render", "{}/aitune.json"], "E_RECORD"),
        (["check", "{}/none"], "E_REPOSITORY"),
        (["show", "{}/m"], "E_REPOSITORY"),
        (["diff", "{}/m", "{}/n"], "E_REPOSITORY"),
        (["convert", "{}/m", "--to", "json"], "E_REPOSITORY"),
        (["versions", "{}/none"], "E_REPOSITORY"),
        (["rollback", "{}", "-m", "m", "--to", "1"], "E_REPOSITORY"),
        (["serve", "{}"], "E_REPOSITORY"),
        (["validate", "{}"], "E_REPOSITORY"),
        (["perf", "{}", "-m", "m"], "E_REPOSITORY"),
        (["status", "-u", "{}:80"], "E_USAGE"),
        (["{}"], "E_USAGE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_a_name_that_is_not_utf8_is_one_line(
    argv: list[str], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes of the command line that are no text are shown escaped, and never end a command with a bug."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    assert main([*(text.format(folder) for text in argv), "--format", "json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == word
    assert len([line for line in err.splitlines() if line.startswith("error: ")]) == 1
