"""Silence around exporters, which print, warn and log about things that the checks afterwards decide."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import TextIO

__all__ = ["quiet"]

_TALKATIVE = (
    "torch.onnx",
    "torch.export",
    "torch._export",
    "torch._dynamo",
    "torch._guards",
    "torch._inductor",
    "torch.fx",
    "onnxscript",
    "onnx_ir",
)


class _Mute(logging.Filter):
    """Lets nothing of the talkative through."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is somebody else's."""
        return not record.name.startswith(_TALKATIVE)


class _OthersOnly(io.TextIOBase):
    """Passes on what other threads write, such as a progress bar, and drops what this one does."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._muted = threading.get_ident()

    def write(self, text: str) -> int:
        """The number of characters taken, passed on or not."""
        return len(text) if threading.get_ident() == self._muted else self._stream.write(text)

    def flush(self) -> None:
        """Flush the stream behind."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Whether the stream behind is a terminal."""
        return self._stream.isatty()


@contextlib.contextmanager
def quiet(*, stderr: bool = False) -> Iterator[None]:
    """Nothing printed to stdout, warned of or logged by exporters inside gets out; exceptions do.

    Args:
        stderr: Silence what C++ code writes to stderr as well, and with it what other threads write there.
    """
    mute = _Mute()
    names = [name for name in logging.root.manager.loggerDict if name.startswith(("torch", "onnx"))]
    loggers = [logging.getLogger(name) for name in ("torch", *names)]
    targets: list[logging.Filterer] = [*loggers, *(handler for logger in loggers for handler in logger.handlers)]
    for target in targets:
        target.addFilter(mute)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_to_nowhere(1))
            if stderr:
                stack.enter_context(_to_nowhere(2))
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(contextlib.redirect_stderr(_OthersOnly(sys.stderr)))
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            yield
    finally:
        for target in targets:
            target.removeFilter(mute)


@contextlib.contextmanager
def _to_nowhere(descriptor: int) -> Iterator[None]:
    """Point a file descriptor at nothing, for code that does not go through ``sys.stdout``."""
    (sys.stdout if descriptor == 1 else sys.stderr).flush()
    kept = os.dup(descriptor)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, descriptor)
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(nowhere)
        os.close(kept)
