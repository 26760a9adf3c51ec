"""One model through the server's own sequence: read, fill in, pick versions, complete, compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from aitune.errors import RepositoryError
from aitune.triton.check import table
from aitune.triton.check.artifact import locate, open_artifact
from aitune.triton.check.autofill import fill, undetermined
from aitune.triton.check.complete import complete_onnx, needs_completion
from aitune.triton.check.finding import ERROR, WARNING, Finding
from aitune.triton.check.folder import DIRECTORY, FILE, inside, joined, kind_of
from aitune.triton.check.model import Model, Version
from aitune.triton.check.rules import python, tensorrt, tensorrt_plan
from aitune.triton.check.rules.record import read_record, recorded_interface
from aitune.triton.check.source import Source, read_source
from aitune.triton.check.table import Row
from aitune.triton.check.textproto import parse
from aitune.triton.check.versions import available, select, selection_findings, stray_findings

__all__ = ["has_errors", "is_open", "judge", "read_config"]

_COMPLETING = ("onnxruntime", "python", "tensorrt")
_FILLED = ("R83", "R84")
_NO_BACKEND = {"R54", "R55", "R56", "R106", "R174"}


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether one of them stops the model."""
    return any(finding.severity == ERROR for finding in findings)


def judge(model: Model) -> list[Finding]:
    """Everything there is to say about a model, apart from what needs other models."""
    findings = list(read_config(model))
    if has_errors(findings) or not model.readable:
        return findings
    model.config = fill(model)
    model.versions = select(model)
    for version in model.versions:
        version.config = model.config
    unknown = list(undetermined(model))
    findings += unknown or selection_findings(model)
    findings += [*stray_findings(model), *_apply(table.CONFIG, model)]
    if not unknown:
        known = not {finding.rule for finding in findings} & _NO_BACKEND
        findings += _backend(model, model.backend if known else "")
    if not model.provided and not available(model) and has_errors(findings):
        return [_stray(model)]
    return list(dict.fromkeys(findings))


def _stray(model: Model) -> Finding:
    """R27: a folder that was never meant to be a model."""
    message = (
        f"every folder in a repository is a model, and {model.name!r} is none: it fails to load, and with default "
        "options the starting server exits"
    )
    fix = "move it out of the repository, or start the server with --model-control-mode=explicit"
    return model.at_file(ERROR, "R27", "", message, fix)


def _apply(rows: tuple[Row, ...], *subject: object) -> Iterator[Finding]:
    for row in rows:
        yield from row.check(*subject)


# -- reading ----------------------------------------------------------------------------------------------------------


def read_config(model: Model) -> Iterator[Finding]:
    """R9, R11, R33, R34 and the text rules: fills ``model.source`` and ``model.written``."""
    for entry in model.folder.dangling:
        message = f"failed to stat file: the link {entry.name!r} leads nowhere"
        yield model.at_file(ERROR, "R11", entry.name, message, "remove the link, or restore what it points to")
    inner = model.file.partition("/")[2]
    path = model.root / model.file
    name = inner.rpartition("/")[2]
    if "/" not in inner and model.folder.has(name, DIRECTORY):
        message = f"{name} is a folder, which makes the server abort"
        yield model.at_file(ERROR, "R9", inner, message, "put a file in its place")
        return
    if not kind_of(path):
        if not path.is_symlink():
            yield from _absent(model, inner)
        return
    if not inside(model.root, path):
        model.readable = False
        message = f"{name} is a link out of the repository and is not followed: nothing of this model is checked"
        yield model.at_file(WARNING, "R33", inner, message, "check the repository where it really lies")
        return
    yield from _parse(model, inner)


def _absent(model: Model, inner: str) -> Iterator[Finding]:
    other = next(
        (entry.name for entry in model.folder.entries if entry.kind == FILE and entry.name.startswith("config.")), ""
    )
    if not other and model.folder.has("configs", DIRECTORY):
        other = "configs/ (read only with --model-config-name)"
    hint = f"; there is {other}" if other else ""
    if model.options.strict:
        message = f"failed to open text file for read: there is no {inner}{hint}"
        yield model.at_file(ERROR, "R34", inner, message, f"write {model.file}")
    elif other:
        yield model.at_file(
            WARNING, "R34", inner, f"there is no {inner}, so the server guesses{hint}", f"write {inner}"
        )


def _parse(model: Model, inner: str) -> Iterator[Finding]:
    try:
        model.source = _source(model)
    except RepositoryError as error:
        yield model.at_file(ERROR, "R33", inner, f"failed to open text file for read: {error}")
        return
    parsed = parse(model.source.text, model.options.release)
    model.written, model.provided = parsed.config, True
    for problem in parsed.problems:
        message = f"{problem.message} (Triton: failed to read text proto)"
        yield model.at_span(ERROR, problem.rule, problem.field, problem.span, message, problem.fix, problem.edits)


def _source(model: Model) -> Source:
    replaced = model.options.texts.get(model.file)
    return read_source(model.root / model.file, model.file) if replaced is None else Source(model.file, replaced)


# -- versions ---------------------------------------------------------------------------------------------------------


def _backend(model: Model, backend: str) -> Iterator[Finding]:
    """What the backend checks; ``""`` when it is not known which one that is."""
    if backend == "onnxruntime":
        yield from _apply(table.ONNX, model)
    elif backend == "tensorrt":
        yield from _apply(table.TENSORRT_CONFIG, model)
    for version in model.versions:
        found = list(_version(model, version, backend))
        yield from _soften(model, version, found)


def _version(model: Model, version: Version, backend: str) -> Iterator[Finding]:
    if backend == "onnxruntime":
        yield from _onnx(model, version)
    elif backend == "python":
        name = version.config.text("default_model_filename") or "model.py"
        path = joined(version.path, name)
        version.artifact = path if kind_of(path) == FILE else None
        yield from _apply(table.PYTHON, model, version)
    elif backend == "tensorrt":
        yield from tensorrt.file(model, version)
        yield from read_record(model, version)
        if version.document is not None:
            version.interface = recorded_interface(version.document)
        else:
            yield from tensorrt_plan.open_plan(model, version)
        yield from _apply(table.TENSORRT, model, version)
    else:
        yield from _apply(table.OTHERS, model, version)
    if not model.provided and backend and backend not in _COMPLETING and model.has("config_must_be_provided"):
        message = f"model configuration is not provided for model {model.name!r}, and {backend!r} completes none"
        yield model.at_file(ERROR, "R35", model.file.partition("/")[2], message, f"write {model.file}")
    yield from _apply(table.VERSION, model, version)


def _onnx(model: Model, version: Version) -> Iterator[Finding]:
    """The record decides where it can; where it would refuse the model, the file itself is asked."""
    yield from locate(model, version)
    yield from read_record(model, version)
    if version.document is not None:
        version.interface = recorded_interface(version.document)
        found = list(_compare(model, version))
        if not has_errors(found) or model.options.read_interface is None:
            yield from found
            return
        version.interface, version.config = None, model.config
    yield from open_artifact(model, version)
    if version.interface is not None:
        yield from _compare(model, version)


def _compare(model: Model, version: Version) -> Iterator[Finding]:
    if model.config.number("max_batch_size") < 0:
        return
    refused = list(complete_onnx(model, version)) if not model.options.strict else []
    yield from refused
    if not has_errors(refused):
        yield from _apply(table.INTERFACE, model, version)


def is_open(model: Model, version: Version) -> bool:
    """Whether something that cannot be seen from here completes the config of a version."""
    config = version.config
    if model.options.strict:
        return False
    if model.backend in ("onnxruntime", "tensorrt"):
        return version.interface is None and needs_completion(config)
    return python.completes(model, version)


def _soften(model: Model, version: Version, findings: list[Finding]) -> Iterator[Finding]:
    """What auto-complete of a Python or TensorRT model may fill in is no certain error."""
    completes = python.completes(model, version) or (
        model.backend == "tensorrt" and not model.options.strict and model.serves_gpu
    )
    for finding in findings:
        if completes and finding.rule in _FILLED:
            message = f"{finding.message}, unless auto-complete fills it in"
            yield dataclasses.replace(finding, severity=WARNING, message=message)
        else:
            yield finding
