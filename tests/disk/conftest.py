"""Publications that are cut off at any step of the file system."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

# Everything through which a publication changes the disk.
STEPS = ("mkdir", "write", "rename", "replace", "fsync", "chmod", "unlink", "rmdir", "open")


class Steps:
    """Counts changes of the disk and does something at one of them.

    Args:
        patch: Undoes itself at the end of the test.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._stop_at = 0
        self._act: Callable[[], None] = lambda: None
        for name in STEPS:
            patch.setattr(os, name, self._watched(getattr(os, name)))

    def at(self, number: int, act: Callable[[], None]) -> None:
        """From now on, do ``act`` before change ``number``, counted from 1."""
        self.count, self._stop_at, self._act = 0, number, act

    def _watched(self, function: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **kwargs: object) -> object:
            reads = function.__name__ == "open" and not (isinstance(args[1], int) and args[1] & os.O_CREAT)
            if not reads:
                self.count += 1
                if self.count == self._stop_at:
                    self._act()
            return function(*args, **kwargs)

        return step


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """A counter of disk changes."""
    return Steps(monkeypatch)
