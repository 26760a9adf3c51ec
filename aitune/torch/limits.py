"""A limit on how long a piece of work may take."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["TooSlowError", "time_limit"]


class TooSlowError(TimeoutError):
    """The work took longer than it may."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop Python code inside that takes longer.

    Only the main thread can be interrupted; elsewhere there is no limit. An alarm that somebody else has set is kept:
    it rings when it would have, or right after.

    Raises:
        TooSlowError: When the time is up.
    """
    theirs = signal.getitimer(signal.ITIMER_REAL)[0]
    if threading.current_thread() is not threading.main_thread() or 0 < theirs <= seconds:
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlowError(f"it took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    started = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if theirs:
            signal.setitimer(signal.ITIMER_REAL, max(theirs - (time.monotonic() - started), 1e-3))
