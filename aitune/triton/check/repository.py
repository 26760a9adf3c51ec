"""The whole repository: every directory in it is a model, and ensembles are judged by their members."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Unpack

from aitune.errors import RepositoryError, UsageError
from aitune.triton.check import table
from aitune.triton.check.finding import ERROR, WARNING, Finding
from aitune.triton.check.folder import DIRECTORY, FILE, Entry, Folder, inside, kind_of, read_folder
from aitune.triton.check.judge import has_errors, is_open, judge
from aitune.triton.check.model import Model
from aitune.triton.check.options import CheckOptions, Options, options_of
from aitune.triton.check.report import CheckReport, ModelReport
from aitune.triton.check.rules.ensemble import steps
from aitune.triton.check.rules.members import Member
from aitune.triton.check.silence import Silencer
from aitune.triton.layout import require_root

__all__ = ["check_repository"]

_TOLD = 20


def check_repository(path: Path, **given: Unpack[CheckOptions]) -> CheckReport:
    """Say, without a server, whether a Triton would load every model of a repository.

    Nothing is written, executed or unpickled, and no link out of the repository is followed.

    Args:
        path: The model repository.
        target: ``"cpu"``, ``"gpu"`` or ``"gpu:N"`` for a host with N GPUs.
        gpus: Ids of the usable GPUs, where they are not 0 to N-1.
        triton: Release of the server, ``"24.10"`` or ``"2.51.0"``.
        strict: Whether the server runs with ``--disable-auto-complete-config``.
        read_interface: Reads what a model file declares. It may raise `AituneError`: exit code 3 means that nothing
            could read the file (a warning), anything else that the file is refused (an error).
        model_config_name: The server's ``--model-config-name``.
        backends: Names of the installed backends.
        accelerators: CPU execution accelerators built into the ONNX Runtime backend.
        default_max_batch_size: The server's ``default-max-batch-size``.
        models: Names to report on, with ``*`` and ``?``; none means all. Ensembles still see every member.
        select: Rule ids to report; none means all.
        ignore: Rule ids to leave out.
        texts: Texts to take instead of the config files on the disk, by name relative to the repository.

    Raises:
        RepositoryError: If the path is not a directory that can be read.
        UsageError: If the target is none, no release is called ``triton``, or no model or rule as one of the names.
        TypeError: If an argument does not exist.
    """
    unknown = set(given) - set(CheckOptions.__annotations__)
    if unknown:
        raise TypeError(f"check_repository has no argument {min(unknown)!r}")
    options = options_of(given)
    root = require_root(path)
    folder = read_folder(root)
    _demand_models(folder, given.get("models", ()))
    silencer = Silencer.read(root, select=given.get("select", ()), ignore=given.get("ignore", ()))
    judged = _judge_all(root, folder, options)
    reports = []
    for model, findings in judged:
        if silencer.wants_model(model.name, given.get("models", ())):
            kept = silencer.filter(model.name, findings, model.source)
            reports.append(ModelReport(model.name, tuple(sorted(kept, key=lambda finding: finding.sort_key))))
    about = silencer.filter("", list(_repository_findings(folder, silencer)), None)
    return CheckReport(tuple(about), tuple(reports), silencer.suppressed, str(path))


def _demand_models(folder: Folder, patterns: Iterable[str]) -> None:
    """A name that is no model's would be reported as good.

    Raises:
        UsageError: If a pattern matches nothing.
    """
    names = [entry.name for entry in folder.directories]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            known = ", ".join(names[:_TOLD]) + (" …" if len(names) > _TOLD else "")
            raise UsageError(f"no model of the repository is called {pattern!r}", hint=f"there are: {known or 'none'}")


def _repository_findings(folder: Folder, silencer: Silencer) -> Iterator[Finding]:
    """R10, R32: links that lead nowhere, and a repository without models."""
    for entry in folder.dangling:
        message = f"failed to stat file: the link {entry.name!r} leads nowhere, and no model of the repository loads"
        yield Finding(ERROR, "R10", "", entry.name, 0, 0, message, "remove the link, or restore what it points to")
    if not folder.directories:
        yield Finding(WARNING, "R32", "", ".", 0, 0, "the repository holds no model: the server starts with none")
    yield from silencer.complaints


def _judge_all(root: Path, folder: Folder, options: Options) -> list[tuple[Model, list[Finding]]]:
    judged = [_judge(root, entry, options) for entry in folder.directories]
    members = {model.name: _member(model, findings) for model, findings in judged}
    ensembles = _members_first({model.name: (model, findings) for model, findings in judged if model.is_ensemble})
    for _ in ensembles:  # a member may be an ensemble that fails only now
        changed = False
        for model, findings in ensembles:
            found = [one for row in table.ENSEMBLE for one in row.check(model, members)]
            fresh = [one for one in dict.fromkeys(found) if one not in findings]
            if fresh:
                findings += fresh
                members[model.name] = _member(model, findings)
                changed = True
        if not changed:
            break
    return judged


def _members_first(ensembles: Mapping[str, tuple[Model, list[Finding]]]) -> list[tuple[Model, list[Finding]]]:
    """Ensembles after those among them that they are made of, so that one round tells nearly all."""
    placed: dict[str, tuple[Model, list[Finding]]] = {}
    for first in ensembles:
        pending = [(first, False)]
        seen: set[str] = set()
        while pending:
            name, done = pending.pop()
            if done:
                placed.setdefault(name, ensembles[name])
            elif name in ensembles and name not in placed and name not in seen:
                seen.add(name)
                pending.append((name, True))
                pending += [(step.text("model_name"), False) for step in steps(ensembles[name][0])]
    return list(placed.values())


def _member(model: Model, findings: list[Finding]) -> Member:
    version = model.versions[-1] if model.versions else None
    known = model.readable and not (version is not None and is_open(model, version))
    return Member(model, not has_errors(findings), version.config if version is not None else model.config, known)


def _judge(root: Path, entry: Entry, options: Options) -> tuple[Model, list[Finding]]:
    path = root / entry.name
    if entry.link and not inside(root, path):
        model = Model(root, entry.name, Folder(path), options, f"{entry.name}/config.pbtxt")
        model.readable = False
        message = "the model directory is a link out of the repository and is not followed: nothing of it is checked"
        return model, [model.at_file(WARNING, "R27", "", message, "check the repository where it really lies")]
    try:
        folder = read_folder(path)
    except RepositoryError as error:
        model = Model(root, entry.name, Folder(path), options, f"{entry.name}/config.pbtxt")
        return model, [model.at_file(ERROR, "R27", "", str(error))]
    model = Model(root, entry.name, folder, options, _config_file(path, entry.name, folder, options))
    try:
        return model, judge(model)
    except OSError as error:  # a file that only others may read: the server's user is thought to be this one
        reason, file = (error.strerror or str(error)).lower(), Path(str(error.filename))
        shown = str(file.relative_to(path)) if file.is_relative_to(path) else ""
        message = f"{shown or file} cannot be read: {reason}"
        return model, [model.at_file(ERROR, "R45", shown, message, "let the user of the server read it")]


def _config_file(path: Path, name: str, folder: Folder, options: Options) -> str:
    """R33: ``configs/<name>.pbtxt`` when the server was told to look there and it exists."""
    custom = f"configs/{options.model_config_name}.pbtxt"
    known = options.model_config_name and options.release.has("model_config_name")
    exists = known and folder.has("configs", DIRECTORY) and kind_of(path / custom) == FILE
    return f"{name}/{custom}" if exists else f"{name}/config.pbtxt"
