"""From an artifact to a served version: staged, checked, and switched on by one rename.

A version number is never given twice and a version folder never written again: Triton may go on serving old weights
when others are put under their number (rules §10). With ``version_policy { specific }`` a new version folder means
nothing until config.pbtxt names it, and config.pbtxt is replaced by one atomic rename, last of all.
"""

from __future__ import annotations

import dataclasses
import difflib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from aitune.records.artifact import Artifact
from aitune.triton.commit import Change, apply, translated
from aitune.triton.decision import Decision, Request, decide
from aitune.triton.history import History, locked_history, read_history
from aitune.triton.kept_samples import check_keep_samples
from aitune.triton.layout import CONFIG, HISTORY, OVERLAY_FOLDER, check_root, subfolders
from aitune.triton.plan import PlanOptions, check_model_name
from aitune.triton.staging import clean_leftovers
from aitune.triton.standing import Standing, survey
from aitune.triton.version_files import list_files, write_version

__all__ = ["Publication", "config_diff", "note", "publish"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What a publication did, or would do.

    Attributes:
        result: ``"created"``, ``"updated"`` or ``"unchanged"``.
        model: Name of the model.
        version: The version that is served now.
        repository: Root of the repository.
        path: Folder of that version.
        config_text: Text of config.pbtxt.
        diff: Unified diff of config.pbtxt, ``""`` when it does not change.
        files: New files, relative to the repository.
        warnings: What a person should know.
        dry_run: Whether nothing was touched.
    """

    result: str
    model: str
    version: int
    repository: Path
    path: Path
    config_text: str
    diff: str = ""
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    dry_run: bool = False


def publish(
    artifact: Artifact,
    path: Path | str,
    *,
    model_name: str,
    options: PlanOptions | None = None,
    keep_samples: str = "synthetic",
    dry_run: bool = False,
    lock_timeout_s: float = 60.0,
) -> Publication:
    """Publish an artifact as a new version of a model.

    The same weights with the same config are ``"unchanged"``: nothing is written. Whatever goes wrong, the repository
    is as it was.

    Args:
        artifact: What to publish.
        path: Root of the model repository; made if it does not exist.
        model_name: Name of the model.
        options: Choices about the config.
        keep_samples: ``"none"``, ``"synthetic"`` or ``"recorded"`` (the user's own samples, too).
        dry_run: Only say what would be done.
        lock_timeout_s: Seconds to wait for another publication into the same repository.

    Raises:
        RepositoryError: If the repository cannot take it.
        ArtifactIntegrityError: If the artifact's files are not what was recorded.
        AituneError: As :func:`aitune.triton.plan.plan`.
    """
    root = Path(path)
    check_model_name(model_name)
    check_keep_samples(keep_samples)
    request = Request(artifact=artifact, name=model_name, options=options or PlanOptions(), keep=keep_samples)
    request.check()  # what is wrong with the request shows before anything is touched
    with translated(f"cannot publish {model_name!r} into {str(path)!r}"):
        check_root(root)
        if dry_run:
            artifact.verify()
            standing = survey(root, model_name, read_history(root))
            return _describe(request, standing, decide(request, standing), dry_run=True)
        with ExitStack() as undo:
            _make_root(root, undo)
            found = _publish(request, root.resolve(), lock_timeout_s)
            undo.pop_all()
            return found


def _publish(request: Request, root: Path, lock_timeout_s: float) -> Publication:
    with locked_history(root, timeout_s=lock_timeout_s) as history, ExitStack() as undo:
        if history.empty:
            undo.callback(_forget_history, root, history)
        if history.exclusive:
            clean_leftovers(root)
        standing = survey(root, request.name, history.events())
        decision = decide(request, standing)
        found = _describe(request, standing, decision)
        if decision.result != "unchanged":
            warnings = _carry_out(request, standing, decision, history)
            found = dataclasses.replace(found, warnings=found.warnings + warnings)
        undo.pop_all()
        return found


def _carry_out(request: Request, standing: Standing, decision: Decision, history: History) -> tuple[str, ...]:
    """Do it; what a person should know of it."""
    version, identity = decision.plan.version, request.artifact.identity
    warnings: list[str] = []

    def fill(folder: Path) -> None:
        if not write_version(request.artifact, decision.plan, decision.config, folder, keep=request.keep):
            warnings.append("the umask lets only you read the files: a server under another user cannot load them")

    if decision.write_files:
        history.append("staged", request.name, version, identity)
    warnings += apply(
        Change(
            root=standing.root,
            folder=standing.folder,
            version=version,
            config=decision.config,
            overlays=decision.overlays,
            fill=fill if decision.write_files else None,
        )
    )
    warnings += note(history, "published", request.name, version, identity)
    return tuple(warnings)


def note(history: History, action: str, model: str, version: int, identity: str) -> tuple[str, ...]:
    """Note what is done and served already; failing at that is a warning, no failure."""
    try:
        history.append(action, model, version, identity)
    except OSError as error:
        return (f"the history could not be written: {(error.strerror or '').lower()}",)
    return ()


def _describe(
    request: Request,
    standing: Standing,
    decision: Decision,
    *,
    dry_run: bool = False,
) -> Publication:
    version, changed = decision.plan.version, decision.result != "unchanged"
    files: tuple[str, ...] = ()
    if decision.write_files:
        files = list_files(request.artifact, decision.plan, keep=request.keep)
    return Publication(
        result=decision.result,
        model=request.name,
        version=version,
        repository=standing.root,
        path=standing.root / request.name / str(version),
        config_text=decision.config,
        diff=config_diff(standing, version, decision.config) if changed else "",
        files=files,
        warnings=(*decision.plan.warnings, *_found(standing, decision)),
        dry_run=dry_run,
    )


def config_diff(standing: Standing, version: int, text: str) -> str:
    """Unified diff between the config that stands there and the text of another version."""
    file = f"{standing.name}/{CONFIG}"
    before = standing.model.config_text if standing.model is not None else None
    current = standing.model.current if standing.model is not None else None
    lines = difflib.unified_diff(
        (before or "").splitlines(keepends=True),
        text.splitlines(keepends=True),
        fromfile="/dev/null" if before is None else f"{file} (version {current})",
        tofile=f"{file} (version {version})",
    )
    return "".join(lines)


def _found(standing: Standing, decision: Decision) -> tuple[str, ...]:
    """What a person may not expect about what stood there."""
    warnings = []
    model = standing.model
    document = model.document if model is not None else None
    edited = model is not None and document is not None and document.config not in (None, model.config_text)
    if edited and decision.result != "unchanged":
        warnings.append(f"{CONFIG} was edited by hand since it was published; the edit is not carried over")
    for name in standing.other_overlays:
        warnings.append(f"{OVERLAY_FOLDER}/{name}.pbtxt is not aitune's: it still serves what it served before")
    return tuple(warnings)


def _make_root(root: Path, undo: ExitStack) -> None:
    """Make the root if it is not there."""
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        undo.callback(_remove_if_empty, folder)


def _forget_history(root: Path, history: History) -> None:
    """Take back the history that was begun for a publication of which nothing came.

    It stays where a model lies and a number was noted: that number may have been seen.
    """
    if history.empty or not subfolders(root):
        (root / HISTORY).unlink(missing_ok=True)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # somebody else put something there
        return
