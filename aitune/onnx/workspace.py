"""Where the files of an artifact are put: a copy that nobody else writes to, checked while it is made."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aitune.errors import SourceError, UsageError
from aitune.records.fingerprints import copy_hashed

__all__ = ["cache_folder", "copy_model", "workspace_folder"]


def cache_folder() -> Path:
    """The folder under which artifacts lie that got no workspace: ``$XDG_CACHE_HOME/aitune/artifacts``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "aitune" / "artifacts"


@contextmanager
def workspace_folder(given: Path | None) -> Iterator[Path]:
    """The folder for the files of one artifact.

    Args:
        given: The caller's folder, made when it is not there; None for a new one in the cache, which stays when the
            block ends well (the artifact lives in it, and its owner may delete it) and goes when it does not.

    Raises:
        UsageError: If the folder cannot be made.
    """
    try:
        folder = given if given is not None else cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        new = None if given is not None else Path(tempfile.mkdtemp(prefix="onnx-", dir=folder))
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UsageError(
            f"workspace {str(folder)!r} cannot be made: {reason}", hint="give another workspace, or set XDG_CACHE_HOME"
        ) from error
    try:
        yield new or folder
    except BaseException:
        if new is not None:
            shutil.rmtree(new, ignore_errors=True)
        raise


def copy_model(path: Path, companions: Sequence[str], folder: Path) -> Path:
    """Copy a model and its companions into a folder, each atomically, companions first.

    Args:
        path: The model file; in the folder already, nothing is copied.
        companions: Relative names of the files beside it.
        folder: Where to; it must exist.

    Returns:
        The copy of the model.

    Raises:
        SourceError: If a file cannot be read or written, or changes while it is copied.
    """
    if path.resolve().parent == folder.resolve() and not path.is_symlink():
        return path
    for name in (*companions, path.name):
        source = path.parent / name
        try:
            _copy(source, folder / name)
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise SourceError(f"{str(source)!r} cannot be copied to {str(folder)!r}: {reason}") from error
    return folder / path.name


def _copy(source: Path, target: Path) -> None:
    """Copy a file, and make sure that it stayed one and the same while it was read."""
    target.parent.mkdir(parents=True, exist_ok=True)
    before = source.stat()

    def check(_: str) -> None:
        after = source.stat()
        if (before.st_ino, before.st_size, before.st_mtime_ns) != (after.st_ino, after.st_size, after.st_mtime_ns):
            raise SourceError(f"{str(source)!r} changed while it was copied", hint="run it again when it is complete")

    copy_hashed(source, target, check)
