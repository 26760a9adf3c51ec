"""What can be wrong with samples and what was learned from them.

Each of these is also the built-in error that code written against plain Python data expects.
"""

from __future__ import annotations

from aitune.errors import SourceError, UsageError

__all__ = [
    "CycleError",
    "MissingAttributeError",
    "MissingFieldError",
    "MissingIndexError",
    "MissingKeyError",
    "SampleValueError",
    "StructureError",
    "UnknownLevelError",
]


class SampleValueError(SourceError, ValueError):
    """A value makes no sense for these samples, e.g. a batch size of zero."""


class StructureError(SourceError, ValueError):
    """Two samples are built differently and cannot be learned together."""


class CycleError(SourceError, ValueError):
    """A container holds itself."""


class MissingKeyError(SourceError, KeyError):
    """A sample lacks a key under which a tensor was learned."""


class MissingIndexError(SourceError, IndexError):
    """A sample, or a tensor, lacks an index or an axis that was learned."""


class MissingAttributeError(SourceError, AttributeError):
    """A sample holds something else where a tensor was learned."""


class MissingFieldError(UsageError, KeyError):
    """Stored metadata lacks a field."""


class UnknownLevelError(UsageError, TypeError):
    """A level of detail that is no ``InfoLevel``."""
