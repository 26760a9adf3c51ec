"""What stands in a repository under a model's name, and which version number is still free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from aitune.errors import RepositoryError
from aitune.triton.contract import PARAMETER_PREFIX
from aitune.triton.history import Event
from aitune.triton.layout import OVERLAY_FOLDER, leading_number, subfolders
from aitune.triton.rendering import OVERLAYS
from aitune.triton.repository import PublishedModel, read_model

__all__ = ["Standing", "survey"]

_LAST_VERSION = 10**18 - 1  # more digits can end the server (R8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a publication finds.

    Attributes:
        root: The repository, links resolved where it exists.
        name: Name of the model.
        folder: Its folder, links resolved; it need not exist.
        model: What is in the folder; None when there is nothing.
        next_version: A number that never stood for anything.
    """

    root: Path
    name: str
    folder: Path
    model: PublishedModel | None
    next_version: int

    @property
    def overlays(self) -> tuple[str, ...]:
        """Names of our overlays that exist."""
        return tuple(name for name in OVERLAYS if (self.folder / OVERLAY_FOLDER / f"{name}.pbtxt").exists())

    @property
    def other_overlays(self) -> tuple[str, ...]:
        """Names of overlays that somebody else wrote."""
        found = (self.folder / OVERLAY_FOLDER).glob("*.pbtxt")
        return tuple(sorted(path.stem for path in found if path.stem not in OVERLAYS))


def survey(root: Path, name: str, events: Iterable[Event]) -> Standing:
    """Look at a model's place in a repository.

    Args:
        root: The repository; it need not exist.
        name: Name of the model.
        events: History of the repository.

    Raises:
        RepositoryError: If something stands there that aitune did not publish.
    """
    root = root.resolve()
    folder = (root / name).resolve()
    if (root / name).is_symlink() and not folder.exists():
        raise RepositoryError(f"{str(root / name)!r} is a dangling link", hint="remove it: Triton refuses it too")
    if folder.exists() and not folder.is_dir():
        raise RepositoryError(f"{str(folder)!r} is a file, a model needs a folder", hint="choose another model name")
    model = None
    if folder.is_dir() and any(folder.iterdir()):
        model = read_model(folder)
        if not model.ours:
            raise RepositoryError(
                f"{str(folder)!r} holds a model that aitune did not publish",
                hint="choose another model name, or move that folder out of the repository",
            )
    return Standing(root=root, name=name, folder=folder, model=model, next_version=_free(model, name, events))


def _free(model: PublishedModel | None, name: str, events: Iterable[Event]) -> int:
    """One more than every number that was ever given: in the history, on the disk and in the config."""
    taken = {event.version for event in events if event.model == name}
    if model is not None:
        numbers = (leading_number(folder) for folder in subfolders(model.path))
        taken |= {number for number in numbers if number is not None and number <= _LAST_VERSION}
        if model.config is not None:
            taken |= set(model.config.version_policy.specific.versions)
            keys = (key.removeprefix(PARAMETER_PREFIX) for key in model.config.parameters)
            taken |= {int(key) for key in keys if key.isascii() and key.isdecimal()}
    number = max(taken, default=0) + 1
    if number > _LAST_VERSION:
        raise RepositoryError(f"model {name!r} has used up its version numbers", hint="choose another model name")
    return max(number, 1)
