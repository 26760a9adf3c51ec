"""The history of a repository, which is its lock, too."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from aitune.errors import RepositoryError
from aitune.triton import history as module
from aitune.triton.history import locked_history, read_history
from aitune.triton.layout import HISTORY


def test_what_is_noted_is_read_back(tmp_path: Path) -> None:
    """In order, with a time in UTC, and nothing about who did it."""
    with locked_history(tmp_path) as history:
        history.append("staged", "m", 1, "ab" * 32)
        history.append("published", "m", 1, "ab" * 32)
        assert history.events() == read_history(tmp_path)
    first, second = read_history(tmp_path)
    assert (first.action, second.action) == ("staged", "published")
    assert (first.model, first.version, first.identity) == ("m", 1, "ab" * 32)
    assert first.time.endswith("Z")


def test_a_line_that_was_cut_short_is_skipped(tmp_path: Path) -> None:
    """A crash in the middle of a line loses that line and no other."""
    with locked_history(tmp_path) as history:
        history.append("published", "m", 1, "ab" * 32)
    with (tmp_path / HISTORY).open("a") as stream:
        stream.write('{"time": "2025')
    with locked_history(tmp_path) as history:
        history.append("published", "m", 2, "ab" * 32)
    assert [event.version for event in read_history(tmp_path)] == [1, 2]


@pytest.mark.parametrize("line", ["[]", "{}", "1", '{"time":"","action":"","model":"m","version":"1","identity":""}'])
def test_a_line_that_is_no_event_is_skipped(tmp_path: Path, line: str) -> None:
    """What somebody else wrote into the file does no harm."""
    (tmp_path / HISTORY).write_text(line + "\n")
    assert read_history(tmp_path) == ()


def test_no_history_is_an_empty_one(tmp_path: Path) -> None:
    """A repository that aitune never wrote into."""
    assert read_history(tmp_path) == ()


def test_the_lock_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    """The wait is bounded, and time is not really spent here."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def late() -> None:
        with locked_history(tmp_path, timeout_s=5, clock=lambda: now[0], sleep=sleep):
            raise AssertionError("the lock was given twice")

    with locked_history(tmp_path), pytest.raises(RepositoryError, match="has not ended within 5 s"):
        late()
    assert 5 < now[0] < 6


def test_a_file_that_was_exchanged_meanwhile_is_not_the_lock(tmp_path: Path) -> None:
    """A publisher that waited on a removed file starts over on the new one."""
    blocker = os.open(tmp_path / HISTORY, os.O_RDWR | os.O_CREAT)
    fcntl.flock(blocker, fcntl.LOCK_EX)

    def sleep(seconds: float) -> None:
        (tmp_path / HISTORY).unlink()

    with locked_history(tmp_path, sleep=sleep) as history:
        history.append("staged", "m", 1, "ab" * 32)
    os.close(blocker)
    assert len(read_history(tmp_path)) == 1


def test_a_file_system_without_locks_is_used_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network file systems have none; leftovers are then left alone."""

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked_history(tmp_path) as history:
        assert not history.exclusive


def test_a_lock_that_fails_otherwise_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is assumed."""

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="input/output"), locked_history(tmp_path):
        pass


def test_a_file_that_vanished_is_not_the_lock(tmp_path: Path) -> None:
    """The same question, when there is no file at all."""
    assert not module._same_file(0, tmp_path / HISTORY)


def test_half_a_line_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short write is noticed."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:5]))
    with locked_history(tmp_path) as history, pytest.raises(OSError, match="No space left"):
        history.append("staged", "m", 1, "ab" * 32)
