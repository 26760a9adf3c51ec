"""Values that hold for everything below a call, such as the batch size of the samples being fed.

The context is a :class:`contextvars.ContextVar`: what one thread or task sets is not seen by another, and
:meth:`GlobalContext.scope` gives back what was there before.

>>> from aitune.global_context import BATCH_SIZE_KEY, global_context
>>> with global_context.scope({BATCH_SIZE_KEY: 4}):
...     global_context.get(BATCH_SIZE_KEY)
4
>>> BATCH_SIZE_KEY in global_context
False
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

__all__ = ["BATCH_SIZE_KEY", "GlobalContext", "global_context"]

BATCH_SIZE_KEY = "batch_size"
"""Key of the batch size of the samples that are being fed, a positive int."""

_NOTHING: Mapping[str, object] = MappingProxyType({})


class GlobalContext(Mapping[str, object]):
    """A small mapping whose content belongs to the current thread or task.

    Args:
        name: Name of the underlying context variable, for debuggers.
    """

    __slots__ = ("_values",)

    def __init__(self, name: str = "aitune") -> None:
        self._values: ContextVar[Mapping[str, object]] = ContextVar(name, default=_NOTHING)

    def __getitem__(self, key: str) -> object:
        return self._values.get()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values.get())

    def __len__(self) -> int:
        return len(self._values.get())

    def set(self, key: str, value: object) -> None:
        """Sets a key until it is removed, cleared, or the enclosing scope ends."""
        self._values.set({**self._values.get(), key: value})

    def remove(self, key: str) -> None:
        """Forgets a key; a key that is not set is no error."""
        self._values.set({known: value for known, value in self._values.get().items() if known != key})

    def clear(self) -> None:
        """Forgets every key."""
        self._values.set(_NOTHING)

    @contextmanager
    def scope(self, values: Mapping[str, object]) -> Iterator[None]:
        """Adds values inside a ``with`` block and restores what was there before, whatever happens in it."""
        token = self._values.set({**self._values.get(), **values})
        try:
            yield
        finally:
            self._values.reset(token)


global_context = GlobalContext()
"""The context that sample metadata reads its batch size from when none is given."""
