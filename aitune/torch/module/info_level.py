"""How much a description tells."""

from __future__ import annotations

from enum import Enum

from aitune.torch.module.errors import UnknownLevelError

__all__ = ["InfoLevel", "check_level"]


class InfoLevel(Enum):
    """How much a description tells."""

    SHORT = 1
    MEDIUM = 2
    FULL = 3


def check_level(level: InfoLevel) -> None:
    """Refuses what is no level.

    Raises:
        UnknownLevelError: If ``level`` is no InfoLevel.
    """
    if not isinstance(level, InfoLevel):
        raise UnknownLevelError(f"a level of detail must be an InfoLevel, found {level!r}")
