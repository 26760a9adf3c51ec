"""A limit on how long a piece of work may take."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["TooSlowError", "time_limit"]


class TooSlowError(TimeoutError):
    """The work took longer than it may."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop Python code inside that takes longer.

    Only the main thread can be interrupted, and only while nobody else uses the alarm clock of the process; elsewhere
    there is no limit.

    Raises:
        TooSlowError: When the time is up.
    """
    alone = threading.current_thread() is threading.main_thread() and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    if not alone:
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlowError(f"it took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
