"""Where a version is put together before Triton can see it, and how it gets into view.

Triton takes every directory in the root for a model, hidden ones too (R27), so a version is staged beside the root on
the same file system. Where that is not possible (the root is a mount point, or nobody may write beside it) it is staged
inside the model's folder under a name that cannot be a version (R39).
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from pathlib import Path

from aitune.triton.layout import CONFIG, subfolders

__all__ = ["Staging", "clean_leftovers", "can_stage_outside", "write_file"]

_PREFIX = ".aitune-staging-"
_LEFTOVER = re.compile(re.escape(_PREFIX) + r"[0-9a-f]{8}(\.pbtxt)?")
_MOUNTS = Path("/proc/self/mountinfo")


class Staging:
    """A folder for one publication.

    Args:
        root: The repository.
        model: The model's folder; with ``inside`` it must exist.
        inside: Whether to stage inside the model's folder.

    Attributes:
        folder: The staging folder.
        inside: Whether it lies inside the model's folder.
    """

    def __init__(self, root: Path, model: Path, *, inside: bool) -> None:
        token = secrets.token_hex(4)
        self.inside = inside
        self.folder = model / f"{_PREFIX}{token}" if inside else root.parent / f"{_outer_prefix(root)}{token}"
        self._model = model
        self._slot = model / f"{_PREFIX}{token}.pbtxt"
        self.folder.mkdir()

    def commit_config(self) -> None:
        """Replace the model's config by the staged one: the moment from which Triton sees the new version.

        It is the last change in the model's folder, so that a polling server loads once.
        """
        config = self.folder / CONFIG
        if self.inside:
            os.rename(config, self._slot)
            shutil.rmtree(self.folder)
            config = self._slot
        os.replace(config, self._model / CONFIG)

    def remove(self) -> None:
        """Remove what is left of it; what cannot be removed is left to the next publication."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.inside:
            try:
                self._slot.unlink(missing_ok=True)
            except OSError:
                return


def can_stage_outside(root: Path, model: Path) -> bool:
    """Whether a folder beside the root can be renamed into the model's folder.

    Args:
        root: The repository, links resolved.
        model: The model's folder, links resolved; it need not exist.
    """
    parent = root.parent
    target = model if model.exists() else root
    if not os.access(parent, os.W_OK | os.X_OK) or parent == root:
        return False
    if os.stat(parent).st_dev != os.stat(target).st_dev:
        return False
    return not {str(root), str(target)} & _mount_points()  # a bind mount has the same device and cannot be renamed into


def clean_leftovers(root: Path) -> None:
    """Remove what crashed publications left behind; only while the repository is locked."""
    outer = re.compile(re.escape(_outer_prefix(root)) + r"[0-9a-f]{8}")
    for name in subfolders(root.parent) if os.access(root.parent, os.R_OK | os.W_OK) else ():
        if outer.fullmatch(name):
            shutil.rmtree(root.parent / name, ignore_errors=True)
    for name in subfolders(root):
        model = root / name
        try:
            leftovers = [entry for entry in os.listdir(model) if _LEFTOVER.fullmatch(entry)]
        except OSError:  # somebody else's folder, closed to us
            continue
        for entry in leftovers:
            _remove(model / entry)
        if leftovers and not os.listdir(model):
            model.rmdir()


def write_file(path: Path, data: bytes) -> None:
    """Write a new file, durably, readable to whom the umask allows.

    Raises:
        OSError: If it exists or cannot be written.
    """
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb", buffering=0) as stream:
        view = memoryview(data)
        while view:
            view = view[os.write(stream.fileno(), view) :]
        os.fsync(stream.fileno())


def _outer_prefix(root: Path) -> str:
    return f"{_PREFIX}{root.name}-"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _mount_points() -> set[str]:
    """Every mount point of this process; blanks in them are written in octal."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return set()
    fields = (line.split(" ")[4] for line in lines if line.count(" ") >= 4)
    return {re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field) for field in fields}
