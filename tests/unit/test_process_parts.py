"""What aitune.process decides before any program starts."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from aitune import process
from aitune.errors import ProgramError
from aitune.process import Background, find_program, run_program, tail


def program(folder: Path, name: str = "tool") -> Path:
    """An executable file."""
    path = folder / name
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_bare_name_is_looked_up_on_the_given_path(tmp_path: Path) -> None:
    """The environment that the program will get decides where it is found."""
    assert find_program("tool", env={"PATH": str(program(tmp_path).parent)}) == str(tmp_path / "tool")


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program named relative to here still starts in another working directory."""
    program(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert find_program("./tool") == str(tmp_path / "tool")


def test_a_missing_program_is_one_line_with_advice(tmp_path: Path) -> None:
    """The error names the program, where it was looked for and what to do."""
    with pytest.raises(ProgramError, match=r"^program 'nowhere' is not on PATH$") as caught:
        find_program("nowhere", env={"PATH": str(tmp_path)})
    assert "install 'nowhere'" in caught.value.hint


def test_a_path_that_is_no_program_says_so(tmp_path: Path) -> None:
    """A file without the executable bit is not run."""
    path = tmp_path / "plain"
    path.touch()
    with pytest.raises(ProgramError, match="is no executable file"):
        find_program(str(path))


def test_running_a_missing_program_raises_the_same_error(tmp_path: Path) -> None:
    """run_program finds out before it starts anything."""
    with pytest.raises(ProgramError, match="is not on PATH"):
        run_program(["nowhere"], timeout_s=1, env={"PATH": str(tmp_path)})


def test_a_program_started_from_the_main_thread_is_tied_to_us(tmp_path: Path) -> None:
    """The leash knows our process id and hands over every argument unchanged."""
    argv = process._leashed([str(program(tmp_path)), "a b", "--c"], env=None)
    assert argv[0] == sys.executable
    assert argv[-4:] == (str(os.getpid()), str(tmp_path / "tool"), "a b", "--c")


def test_a_program_started_from_another_thread_is_not(tmp_path: Path) -> None:
    """The kernel would stop it when that thread ends, long before we do."""
    found: list[tuple[str, ...]] = []
    worker = threading.Thread(target=lambda: found.append(process._leashed([str(program(tmp_path))], env=None)))
    worker.start()
    worker.join()
    assert found == [(str(tmp_path / "tool"),)]


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    """Undecodable bytes are replaced, and a missing file has no lines."""
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\nthr\xffee\n")
    assert tail(log, 2) == ("two", "thr\ufffdee")
    assert tail(tmp_path / "none", 2) == ()


def test_a_background_program_that_was_not_started_has_no_pid(tmp_path: Path) -> None:
    """Using it outside its block is a programming error, not a silent None."""
    idle = Background(["true"], log=tmp_path / "log")
    idle.stop()
    with pytest.raises(RuntimeError, match="with block"):
        idle.poll()
