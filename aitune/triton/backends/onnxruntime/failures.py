"""The one exception of this backend; what Triton shows of it is the message alone."""

from __future__ import annotations

__all__ = ["LoadError"]


class LoadError(Exception):
    """A model cannot be served as its config says."""
