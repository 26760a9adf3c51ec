"""Rollback: serving a version again that is still there, with the config it was published with. One file changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aitune.errors import RepositoryError
from aitune.records.codec import Document
from aitune.triton.commit import Change, apply, translated
from aitune.triton.history import History, locked_history
from aitune.triton.layout import HISTORY, open_root
from aitune.triton.plan import check_model_name
from aitune.triton.publication import Publication, config_diff, note
from aitune.triton.rendering import overlay
from aitune.triton.repository import PublishedModel
from aitune.triton.schema import parse_config
from aitune.triton.staging import clean_leftovers
from aitune.triton.standing import Standing, survey

__all__ = ["rollback"]


def rollback(path: Path | str, model_name: str, version: int, *, lock_timeout_s: float = 60.0) -> Publication:
    """Serve an earlier version again.

    Its files are read and compared with its record first; then config.pbtxt is replaced by the one kept with it.

    Args:
        path: Root of the model repository.
        model_name: Name of the model.
        version: The version to serve.
        lock_timeout_s: Seconds to wait for a publication into the same repository.

    Returns:
        ``"updated"``, or ``"unchanged"`` when that version is served already, with that config.

    Raises:
        RepositoryError: If there is no such model or version, or it was not published by aitune.
        ArtifactIntegrityError: If the version's files are not what was recorded.
    """
    check_model_name(model_name)
    root = open_root(path)
    with translated(f"cannot roll {model_name!r} in {str(path)!r} back to version {version}"):
        if not (root / HISTORY).exists() and not (root / model_name).exists():
            raise _no_model(root, model_name)
        with locked_history(root, timeout_s=lock_timeout_s) as history:
            if history.exclusive:
                clean_leftovers(root)
            standing = survey(root, model_name, history.events())
            return _roll_back(standing, version, history)


def _roll_back(standing: Standing, version: int, history: History) -> Publication:
    model = standing.model
    if model is None:
        raise _no_model(standing.root, standing.name)
    document, text = _document(model, version)
    overlays = {name: overlay(text, name) for name in standing.overlays}
    unchanged = model.current == version and model.config_text == text
    warnings: tuple[str, ...] = ()
    if not unchanged:
        document.artifact.verify()
        warnings = apply(
            Change(root=standing.root, folder=standing.folder, version=version, config=text, overlays=overlays)
        )
        warnings += note(history, "rolled back", standing.name, version, document.artifact.identity)
    return Publication(
        result="unchanged" if unchanged else "updated",
        model=standing.name,
        version=version,
        repository=standing.root,
        path=standing.root / standing.name / str(version),
        config_text=text,
        diff="" if unchanged else config_diff(standing, version, text),
        warnings=warnings,
    )


def _document(model: PublishedModel, version: int) -> tuple[Document, str]:
    """The record of a version and the config it was published with."""
    document = model.documents.get(version)
    if document is None or document.config is None:
        trouble = model.record_problems.get(version, "it is not there, or was not published by aitune")
        known = ", ".join(str(number) for number in model.documents) or "none"
        raise RepositoryError(
            f"model {model.name!r} cannot go back to version {version}: {trouble}", hint=f"versions to go to: {known}"
        )
    config: Any = parse_config(document.config)
    if list(config.version_policy.specific.versions) != [version]:
        raise RepositoryError(f"the config kept with version {version} of {model.name!r} serves another version")
    return document, document.config


def _no_model(root: Path, name: str) -> RepositoryError:
    return RepositoryError(f"no model {name!r} in {str(root)!r}", hint="build it first")
