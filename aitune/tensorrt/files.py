"""Writing a file so that it is the old one or the complete new one at any moment, and the folders of an artifact."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from aitune.errors import UsageError

__all__ = ["copy_beside", "make_workspace"]


def copy_beside(name: str, origin: Path, target: Path) -> bool:
    """Copy a file of one folder into another; whether it is there now."""
    source = origin / name
    if source.is_file() and origin.resolve() != target.resolve():
        shutil.copyfile(source, target / name)
    return source.is_file()


def make_workspace(given: Path | None) -> Path:
    """The folder for the files of an artifact: the caller's, or a new one under ``$XDG_CACHE_HOME/aitune/artifacts``.

    Raises:
        UsageError: If it cannot be made.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aitune" / "artifacts"
    try:
        folder = given if given is not None else base
        folder.mkdir(parents=True, exist_ok=True)
        return folder if given is not None else Path(tempfile.mkdtemp(prefix="plan-", dir=folder))
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UsageError(
            f"workspace {str(given or base)!r} cannot be made: {reason}",
            hint="give another workspace, or set XDG_CACHE_HOME",
        ) from error
