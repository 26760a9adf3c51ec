"""Options and guards shared by all tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLAGS = {"server": "--run-server", "gpu": "--run-gpu", "slow": "--run-slow", "tensorrt": "--run-tensorrt"}


def pytest_configure() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would the programs that tests stop with it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """One option for each marker whose tests need more than Python."""
    for marker, flag in FLAGS.items():
        parser.addoption(flag, action="store_true", default=False, help=f"run the tests marked {marker!r}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for (deselected, so that a skip always means a fault)."""
    chosen, left_out = [], []
    for item in items:
        wanted = all(config.getoption(flag) for marker, flag in FLAGS.items() if item.get_closest_marker(marker))
        (chosen if wanted else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen


@pytest.fixture(autouse=True)
def _units_stay_inside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit test starts no process and opens no socket."""
    if "unit" in request.path.relative_to(ROOT / "tests").parts[:1]:

        def refuse(*args: object, **kwargs: object) -> None:
            raise AssertionError("a unit test may not start a process or open a network connection")

        monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
        monkeypatch.setattr(os, "posix_spawn", refuse)
        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket.socket, "bind", refuse)


@pytest.fixture(scope="session")
def repository_root() -> Path:
    """The root of this project."""
    return ROOT
