"""The history of a repository: one append-only file in its root, which is also its lock.

Plain files in the root mean nothing to Triton (R27), and any file inside a model's folder would reload it. A number is
noted *before* its version appears, so that it is never given again, whatever happens afterwards.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from aitune.errors import RepositoryError
from aitune.triton.layout import HISTORY

__all__ = ["ACTIONS", "Event", "History", "locked_history", "read_history"]

ACTIONS = ("staged", "published", "rolled back")
_PAUSE_S = 0.05
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the history.

    Attributes:
        time: When, in UTC, e.g. ``"2025-01-31T09:00:00Z"``.
        action: ``"staged"`` (the number is taken), ``"published"`` or ``"rolled back"`` (it is served).
        model: Name of the model.
        version: The version.
        identity: SHA-256 over its model file and companions.
    """

    time: str
    action: str
    model: str
    version: int
    identity: str


class History:
    """The history while it is locked: nobody else publishes into this repository.

    Args:
        descriptor: The file, opened for reading and appending.
        exclusive: Whether the file system gave a lock; some network file systems have none.
    """

    def __init__(self, descriptor: int, *, exclusive: bool) -> None:
        self._descriptor = descriptor
        self.exclusive = exclusive

    @property
    def empty(self) -> bool:
        """Whether nothing was ever noted: the file is there for its lock only."""
        return os.fstat(self._descriptor).st_size == 0

    def events(self) -> tuple[Event, ...]:
        """Everything that was noted, oldest first."""
        size = os.fstat(self._descriptor).st_size
        return _parse(os.pread(self._descriptor, size, 0))

    def append(self, action: str, model: str, version: int, identity: str) -> None:
        """Note something, durably.

        Raises:
            OSError: If it cannot be written.
        """
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        data = {"time": now, "action": action, "model": model, "version": version, "identity": identity}
        line = json.dumps(data).encode() + b"\n"
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":  # a crash cut the last line short
            line = b"\n" + line
        written = os.write(self._descriptor, line)
        if written != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), HISTORY)
        os.fsync(self._descriptor)


@contextmanager
def locked_history(
    root: Path,
    *,
    timeout_s: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[History]:
    """Hold the lock of a repository.

    Args:
        root: The repository.
        timeout_s: Seconds to wait for another publication to end.
        clock: Tells the time, in seconds.
        sleep: Waits that many seconds.

    Raises:
        RepositoryError: If another publication goes on for longer.
        OSError: If the history cannot be opened for writing.
    """
    deadline = clock() + timeout_s
    while True:
        descriptor = os.open(root / HISTORY, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            state = _try_lock(descriptor)
            if state is not None and _same_file(descriptor, root / HISTORY):
                yield History(descriptor, exclusive=state)
                return
        finally:
            os.close(descriptor)
        if clock() > deadline:
            raise RepositoryError(
                f"another publication into {str(root)!r} has not ended within {timeout_s:g} s",
                hint="wait for it, or find out what holds the file " + HISTORY,
            )
        sleep(_PAUSE_S)


def read_history(root: Path) -> tuple[Event, ...]:
    """What was noted in a repository, without a lock; nothing when there is no history."""
    try:
        return _parse((root / HISTORY).read_bytes())
    except OSError:
        return ()


def _try_lock(descriptor: int) -> bool | None:
    """True with the lock, False where there are no locks, None when somebody else has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        raise
    return True


def _same_file(descriptor: int, path: Path) -> bool:
    """Whether the locked file is still the one in the root."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _parse(data: bytes) -> tuple[Event, ...]:
    """The events; a line that a crash cut short was never acted upon and is left out."""
    events = []
    for line in data.split(b"\n"):
        try:
            found = json.loads(line)
            event = Event(**found)
        except (ValueError, TypeError):
            continue
        if type(event.version) is int and isinstance(event.model, str):
            events.append(event)
    return tuple(events)
