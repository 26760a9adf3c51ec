"""Bringing a version into Triton's view, so that a crash at any point leaves the old state or the new one."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from aitune.errors import RepositoryError
from aitune.records.fingerprints import sync_folder
from aitune.triton.layout import CONFIG, OVERLAY_FOLDER
from aitune.triton.repository import read_config
from aitune.triton.staging import Staging, can_stage_outside, write_file

__all__ = ["Change", "apply", "translated"]

_HINTS = {
    errno.ENOSPC: "make room on that disk",
    errno.EDQUOT: "make room in that quota",
    errno.EACCES: "allow this user to write there",
    errno.EPERM: "allow this user to write there",
    errno.EROFS: "mount it for writing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A version to serve from now on.

    Attributes:
        root: The repository.
        folder: The model's folder; it need not exist.
        version: The version.
        config: Text of config.pbtxt.
        overlays: Texts of ``configs/<name>.pbtxt``, by name.
        fill: Writes the version's files into the folder it is given; None when they are in place.
    """

    root: Path
    folder: Path
    version: int
    config: str
    overlays: Mapping[str, str]
    fill: Callable[[Path], None] | None = None


def apply(change: Change) -> tuple[str, ...]:
    """Make the change.

    Returns:
        Warnings: what went wrong after Triton could see it.

    Raises:
        OSError: If it cannot be made; then nothing of it is left.
    """
    if can_stage_outside(change.root, change.folder):
        try:
            return _apply(change, inside=False)
        except OSError as error:
            if error.errno != errno.EXDEV:  # a file system with borders of its own, e.g. an overlay
                raise
    return _apply(change, inside=True)


def _apply(change: Change, *, inside: bool) -> tuple[str, ...]:
    folder = change.folder
    whole = not inside and not (folder.exists() and any(folder.iterdir()))
    with ExitStack() as always, ExitStack() as undo:
        if inside and not folder.exists():
            folder.mkdir()
            always.callback(_remove_if_empty, folder)
        staging = Staging(change.root, folder, inside=inside)
        always.callback(staging.remove)
        base = staging.folder
        if whole:
            base = staging.folder / folder.name
            base.mkdir()
        _stage(change, base)
        if whole:
            os.rename(base, folder)
        else:
            if change.fill is not None:
                undo.callback(_withdraw, folder, change.version)
                os.rename(base / str(change.version), folder / str(change.version))
                sync_folder(folder)
            _place_overlays(change, base)
            staging.commit_config()
        undo.pop_all()
        return _settle(folder.parent if whole else folder)


def _settle(folder: Path) -> tuple[str, ...]:
    """Make the last rename durable. It is in effect already, so failing at this is a warning, no failure."""
    try:
        sync_folder(folder)
    except OSError as error:
        return (f"the change is in effect, but a power cut may undo it: {(error.strerror or '').lower()}",)
    return ()


def _stage(change: Change, base: Path) -> None:
    """Write everything into the staging folder and flush it."""
    if change.fill is not None:
        change.fill(base / str(change.version))
    write_file(base / CONFIG, change.config.encode())
    if change.overlays:
        (base / OVERLAY_FOLDER).mkdir()
        for name, text in change.overlays.items():
            write_file(base / OVERLAY_FOLDER / f"{name}.pbtxt", text.encode())
        sync_folder(base / OVERLAY_FOLDER)
    sync_folder(base)


def _place_overlays(change: Change, base: Path) -> None:
    """Overlays first: a host that reads one switches a moment before the others, to a version that is complete."""
    if not change.overlays:
        return
    target = change.folder / OVERLAY_FOLDER
    target.mkdir(exist_ok=True)
    for name in change.overlays:
        os.replace(base / OVERLAY_FOLDER / f"{name}.pbtxt", target / f"{name}.pbtxt")
    sync_folder(target)


def _withdraw(folder: Path, version: int) -> None:
    """Take a version back that no config names."""
    configs = [folder / CONFIG, *(folder / OVERLAY_FOLDER).glob("*.pbtxt")]
    if not any(_names(path, version) for path in configs):
        shutil.rmtree(folder / str(version), ignore_errors=True)


def _names(config_file: Path, version: int) -> bool:
    """Whether a config serves a version; one that is there and cannot be read might."""
    _, config, problem = read_config(config_file)
    if config is None:
        return bool(problem) and config_file.exists()
    return version in config.version_policy.specific.versions


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # it holds what was published
        return


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn what the file system says into one line.

    Args:
        what: What was asked, e.g. ``"cannot publish 'm' into 'models'"``.

    Raises:
        RepositoryError: For every OSError, with what to do about the usual ones.
    """
    try:
        yield
    except OSError as error:
        name = f": {os.fsdecode(error.filename)!r}" if isinstance(error.filename, str | bytes) else ""
        reason = (error.strerror or str(error)).lower()
        raise RepositoryError(f"{what}: {reason}{name}", hint=_HINTS.get(error.errno or 0, "")) from error
