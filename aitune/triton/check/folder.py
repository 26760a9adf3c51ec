"""What lies in a folder, listed once, links judged and never followed out of the repository."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from aitune.errors import RepositoryError

__all__ = ["DANGLING", "DIRECTORY", "FILE", "OTHER", "Entry", "Folder", "inside", "joined", "kind_of", "read_folder"]

DIRECTORY = "directory"
FILE = "file"
OTHER = "other"
DANGLING = "dangling"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a folder.

    Attributes:
        name: The name; bytes that are not UTF-8 as lone surrogates.
        kind: What it leads to: `DIRECTORY`, `FILE`, `OTHER` (socket, pipe, device), `DANGLING` (nowhere, or a circle).
        link: Whether it is a symbolic link.
        size: Bytes of a file.
    """

    name: str
    kind: str
    link: bool = False
    size: int = 0


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder and its entries in byte-wise order of their names."""

    path: Path
    entries: tuple[Entry, ...] = ()

    def get(self, name: str) -> Entry | None:
        """The entry of that name."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def has(self, name: str, kind: str) -> bool:
        """Whether there is an entry of that name and kind."""
        found = self.get(name)
        return found is not None and found.kind == kind

    @property
    def directories(self) -> tuple[Entry, ...]:
        """Subfolders, links to folders included."""
        return tuple(entry for entry in self.entries if entry.kind == DIRECTORY)

    @property
    def dangling(self) -> tuple[Entry, ...]:
        """Links that lead nowhere."""
        return tuple(entry for entry in self.entries if entry.kind == DANGLING)


def read_folder(path: Path) -> Folder:
    """List a folder.

    Raises:
        RepositoryError: If it cannot be read.
    """
    try:
        with os.scandir(path) as found:
            entries = [_entry(one) for one in found]
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RepositoryError(f"folder {str(path)!r} cannot be read: {reason}") from error
    return Folder(path, tuple(sorted(entries, key=lambda entry: os.fsencode(entry.name))))


def _entry(found: os.DirEntry[str]) -> Entry:
    link = found.is_symlink()
    try:
        status = found.stat()
    except OSError as error:
        if isinstance(error, PermissionError) and not link:
            raise  # the folder may be listed, and nothing in it looked at
        return Entry(found.name, DANGLING, link)
    if stat.S_ISDIR(status.st_mode):
        return Entry(found.name, DIRECTORY, link)
    if stat.S_ISREG(status.st_mode):
        return Entry(found.name, FILE, link, status.st_size)
    return Entry(found.name, OTHER, link)


def joined(folder: Path, name: str) -> Path:
    """The path that Triton makes of a folder and a name from a config: an absolute name stays below the folder.

    A name that no file system can hold becomes one that no file has.
    """
    return folder / (name.replace("\x00", "\N{REPLACEMENT CHARACTER}").lstrip("/") or ".")


def kind_of(path: Path) -> str:
    """`FILE`, `DIRECTORY` or `OTHER`; ``""`` when there is nothing, or nothing that can be looked at."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return ""
    return DIRECTORY if stat.S_ISDIR(mode) else FILE if stat.S_ISREG(mode) else OTHER


def inside(root: Path, path: Path) -> bool:
    """Whether ``path``, links resolved, lies in ``root``; a path that leads nowhere is judged by where it points."""
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):
        return False
