"""The files of a report, in a folder that is made if need be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aitune.errors import UsageError
from aitune.records.fingerprints import write_atomically

__all__ = ["write_texts"]


def write_texts(folder: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Write texts under their names into a folder, each of them whole or not at all.

    Args:
        folder: Where to; made with those above it.
        texts: Text by file name.

    Returns:
        The files, in the order given.

    Raises:
        UsageError: If the folder or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_atomically(folder / name, text.encode(errors="backslashreplace"))  # a name on the disk may be no text
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"report folder {str(folder)!r} cannot be written: {reason}") from error
    return tuple(folder / name for name in texts)
