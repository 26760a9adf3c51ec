"""The standard streams of a command: stdout carries the result and nothing else, whatever the surroundings are.

Three things are seen to. A library, a child or a user's code that writes to file descriptor 1 writes to stderr instead,
so that a JSON document stays one document. A stream that is closed becomes the null device, so that no file opened
later takes its number. A character that the terminal cannot show is escaped instead of ending the command.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

__all__ = ["guarded_streams"]


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Own the standard streams while a command runs; afterwards they are as they were.

    Streams that someone else put in place (a test, a notebook) are left to them.
    """
    before = sys.stdout, sys.stderr
    _open_descriptors()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # as long as the process
        elif isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    private = _private_stdout()
    try:
        yield
    finally:
        if private is not None:
            _give_back(private)
        sys.stdout, sys.stderr = before


def _open_descriptors() -> None:
    """Let 0, 1 and 2 be taken, so that they cannot become a model's file."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _private_stdout() -> TextIO | None:
    """Move stdout to a descriptor of its own and let 1 mean stderr; None where stdout is not this process's."""
    stream = sys.stdout
    if stream is not sys.__stdout__ or not isinstance(stream, io.TextIOWrapper) or stream.fileno() != 1:
        return None
    stream.flush()
    private = open(os.dup(1), "w", encoding=stream.encoding, errors=stream.errors)  # noqa: SIM115  # closed in _give_back
    os.dup2(2, 1)
    sys.stdout = private
    return private


def _give_back(private: TextIO) -> None:
    """Let 1 mean stdout again; what could not be written was reported by the flush before."""
    os.dup2(private.fileno(), 1)
    with suppress(OSError):  # the reader is gone or the disk full: the command has said so with its exit code
        private.close()
