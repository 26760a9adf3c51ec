"""Names inside a model repository, and what a directory name means to Triton (rules §2)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from aitune.errors import RepositoryError

__all__ = [
    "CONFIG",
    "HISTORY",
    "OVERLAY_FOLDER",
    "PARAMETER_PREFIX",
    "RECORD",
    "SAMPLES",
    "check_root",
    "leading_number",
    "open_root",
    "require_root",
    "subfolders",
    "version_folders",
]

CONFIG = "config.pbtxt"
RECORD = "aitune.json"
SAMPLES = "aitune_samples.bin"
HISTORY = "aitune_history.jsonl"
OVERLAY_FOLDER = "configs"
PARAMETER_PREFIX = "aitune.record."
"""Key of a config's parameter that holds the contract of a version, whose number comes after it."""
_VERSION = re.compile(r"0|[1-9][0-9]{0,17}")
_LEADING = re.compile(r"\s*[+-]?([0-9]+)")


def version_folders(model: Path) -> dict[int, Path]:
    """The version directories with a plain name (R38 to R40), smallest number first."""
    found = {int(name): model / name for name in subfolders(model) if _VERSION.fullmatch(name)}
    return dict(sorted(found.items()))


def leading_number(name: str) -> int | None:
    """The number that Triton reads off a directory name, whatever follows it (R39); None when there is none."""
    match = _LEADING.match(name)
    return int(match.group(1)) if match else None


def subfolders(folder: Path) -> tuple[str, ...]:
    """Names of the directories in a folder, links to directories included, in byte order (R27, R163).

    Raises:
        RepositoryError: If the folder cannot be listed.
    """
    try:
        with os.scandir(folder) as entries:
            names: Iterable[str] = [entry.name for entry in entries if _is_folder(entry)]
    except OSError as error:
        raise RepositoryError(f"cannot list {str(folder)!r}: {(error.strerror or '').lower()}") from error
    return tuple(sorted(names, key=os.fsencode))


def open_root(path: Path | str) -> Path:
    """The repository at ``path``, its links resolved.

    Raises:
        RepositoryError: If it is not a directory, or is a model rather than a repository of models.
    """
    root = Path(path)
    if not root.exists():
        raise RepositoryError(f"there is no model repository at {str(path)!r}", hint="build a model into it first")
    check_root(root)
    return root.resolve()


def require_root(path: Path | str) -> Path:
    """The repository at ``path``, where something is to be read or served.

    Raises:
        RepositoryError: If it is not a directory.
    """
    root = Path(path)
    if not root.is_dir():
        found = "is not a directory" if root.exists() else "does not exist"
        raise RepositoryError(f"model repository {str(root)!r} {found}", hint="give the folder that holds the models")
    return root


def check_root(root: Path) -> None:
    """Refuse what cannot be a repository; what does not exist can become one.

    Raises:
        RepositoryError: As for `open_root`.
    """
    if root.exists() and not root.is_dir():
        raise RepositoryError(f"model repository {str(root)!r} is a file, not a directory")
    if (root / CONFIG).is_file():
        raise RepositoryError(
            f"{str(root)!r} is a model (it holds {CONFIG}), not a repository of models",
            hint=f"give the folder above it: {str(root.resolve().parent)!r}",
        )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # e.g. a link in a circle
        return False
