"""What the library says while it works.

The library keeps the first logger that it is given, for as long as the process lives, and calls it from its own
threads. So there is one logger for each library, never freed, and whoever wants to know listens for a while.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

__all__ = ["Heard", "listening", "logger_of"]

_LOCK = threading.Lock()
_LOGGERS: dict[str, Any] = {}
_EARS: dict[str, list[Heard]] = {}


@dataclass(slots=True)
class Heard:
    """What was said while somebody listened.

    Attributes:
        errors: Errors, oldest first.
        warnings: Warnings, oldest first.
    """

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, text: str, *, error: bool) -> None:
        """Keep a message."""
        (self.errors if error else self.warnings).append(" ".join(text.split()))

    def last(self) -> str:
        """The last error in one line; a stand-in when none was said."""
        return self.errors[-1] if self.errors else "it does not say why"


def logger_of(trt: ModuleType) -> Any:
    """The one logger of a library."""
    with _LOCK:
        if trt.__name__ not in _LOGGERS:
            _LOGGERS[trt.__name__] = _make(trt)
        return _LOGGERS[trt.__name__]


@contextmanager
def listening(trt: ModuleType) -> Iterator[Heard]:
    """Errors and warnings that the library says during the block."""
    heard = Heard()
    ears = _EARS.setdefault(trt.__name__, [])
    ears.append(heard)
    try:
        yield heard
    finally:
        ears.remove(heard)


def _make(trt: ModuleType) -> Any:
    ears = _EARS.setdefault(trt.__name__, [])
    errors = (trt.ILogger.INTERNAL_ERROR, trt.ILogger.ERROR)

    class Listener(trt.ILogger):  # type: ignore[misc, name-defined]  # the base is known only when the module is
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, text: str) -> None:
            if severity in errors or severity == trt.ILogger.WARNING:
                for heard in tuple(ears):
                    heard.add(text, error=severity in errors)

    return Listener()
