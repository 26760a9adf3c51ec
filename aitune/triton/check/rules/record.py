"""The record beside the artifact: is it still the artifact that was proved, and the config it was proved with?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from aitune.errors import RecordError
from aitune.records.artifact import Artifact
from aitune.records.codec import Document, read_document
from aitune.records.fingerprints import fingerprint_file
from aitune.records.interface import Interface, Port
from aitune.triton.check.finding import ERROR, WARNING, Finding
from aitune.triton.check.folder import FILE, inside, joined, kind_of
from aitune.triton.check.model import Model, Version
from aitune.triton.check.source import Source
from aitune.triton.check.tokens import END, Tokenizer
from aitune.triton.layout import PARAMETER_PREFIX, RECORD

__all__ = ["read_record", "recorded_interface", "stale"]

_RESTORE = "restore the file as it was published, or build and publish the model again"


def read_record(model: Model, version: Version) -> Iterator[Finding]:
    """A2, A3: the record can be read and the files are the recorded ones; then ``version.document`` is set."""
    path = version.path / RECORD
    shown = f"{version.number}/{RECORD}"
    if version.folder is None:
        return
    if kind_of(path) != FILE or not inside(model.root, path):
        yield from _lost(model, version)
        return
    try:
        document = read_document(path)
    except RecordError as error:
        yield model.at_file(WARNING, "A2", shown, f"the record cannot be used: {error}", error.hint)
        return
    faults = list(_differences(model, version, document.artifact))
    yield from faults
    if not faults:
        version.document = document
    yield from _samples(model, version, document.artifact)


def _lost(model: Model, version: Version) -> Iterator[Finding]:
    """A version that was published has a contract in the config, so its record was there once."""
    if f"{PARAMETER_PREFIX}{version.number}" not in model.config.map("parameters"):
        return
    shown = f"{version.number}/{RECORD}"
    what = f"{shown} is not there"
    if kind_of(version.path / RECORD):
        what = f"{shown} is not a file of the repository"
    message = f"the config carries the contract of version {version.number}, and the repository has no record: {what}"
    yield model.at_file(WARNING, "A2", shown, message, _RESTORE)


def _samples(model: Model, version: Version, artifact: Artifact) -> Iterator[Finding]:
    """The recorded requests, without which nobody can prove the answers again; the server does not read them."""
    index = artifact.evidence.samples if artifact.evidence is not None else None
    if index is None:
        return
    path, shown = joined(version.path, index.name), f"{version.number}/{index.name}"
    if not inside(model.root, path):
        yield model.at_file(WARNING, "A3", shown, f"{index.name} leads out of the repository: its hash is not checked")
    elif kind_of(path) != FILE:
        message = f"sample file {shown} cannot be read: there is no such file; validate fails without it"
        yield model.at_file(WARNING, "A3", shown, message, _RESTORE)
    elif fault := _sample_fault(path, index.fingerprint):
        message = f"sample file {shown} {fault}; validate fails with it"
        yield model.at_file(WARNING, "A3", shown, message, _RESTORE)


def _sample_fault(path: Path, fingerprint: str) -> str:
    """What is wrong with a sample file, in the words of ``validate``; empty when nothing is."""
    try:
        found = fingerprint_file(path)
    except OSError as error:
        return f"cannot be read: {(error.strerror or str(error)).lower()}"
    if found == fingerprint:
        return ""
    return f"is not the recorded one: recorded sha256 {fingerprint[:12]}…, found {found[:12]}…"


def _differences(model: Model, version: Version, artifact: Artifact) -> Iterator[Finding]:
    advice = "publish the artifact again; a version directory is never written twice"
    files = [(artifact.path.name, artifact.fingerprint), *((one.name, one.fingerprint) for one in artifact.companions)]
    for name, fingerprint in files:
        path, shown = joined(version.path, name), f"{version.number}/{name}"
        if not inside(model.root, path):
            yield model.at_file(WARNING, "A3", shown, f"{name} leads out of the repository: its hash is not checked")
        elif kind_of(path) != FILE:
            yield model.at_file(ERROR, "A3", shown, f"the record names {name}, which is missing", advice)
        elif fingerprint_file(path) != fingerprint:
            yield model.at_file(
                ERROR, "A3", shown, f"{name} is not the file that was proved: its SHA-256 differs", advice
            )


def recorded_interface(document: Document) -> Interface:
    """What the file declares, according to its record."""
    artifact = document.artifact
    return Interface(
        format=artifact.format,
        inputs=tuple(Port(name=spec.name, dtype=spec.dtype, shape=spec.shape) for spec in artifact.inputs),
        outputs=tuple(Port(name=spec.name, dtype=spec.dtype, shape=spec.shape) for spec in artifact.outputs),
        companions=tuple(one.name for one in artifact.companions),
        source="record",
    )


def stale(model: Model, version: Version) -> Iterator[Finding]:
    """A4: the config is the one this version was published with, and its contract names the weights that lie there."""
    document = version.document
    if document is None or model.source is None:
        return
    claimed = _claimed(model, version.number)
    if claimed and claimed != document.artifact.identity:
        message = (
            f"the config promises weights {claimed[:12]} as version {version.number}, "
            f"{document.artifact.identity[:12]} lie there: version directories were exchanged"
        )
        yield model.at_file(ERROR, "A4", model.file.partition("/")[2], message, "publish again, or roll back")
        return
    if document.config is None:
        return
    if _words(model.source) != _words(Source("", document.config)):
        message = f"the config differs from the one version {version.number} was published with: nobody proved this one"
        fix = "publish again, or validate it against a running server"
        yield model.at_file(WARNING, "A4", model.file.partition("/")[2], message, fix)


def _claimed(model: Model, number: int) -> str:
    """The fingerprint that the config's contract gives this version, ``""`` when it gives none."""
    entry = model.config.map("parameters").get(f"{PARAMETER_PREFIX}{number}")
    value = None if entry is None else entry.message("value")
    try:
        contract = json.loads(value.text("string_value")) if value is not None else None
    except (ValueError, RecursionError):
        return ""
    identity = contract.get("identity") if isinstance(contract, dict) else None
    return identity if isinstance(identity, str) else ""


def _words(source: Source) -> list[str]:
    """The tokens: comments and layout do not count."""
    tokens = Tokenizer(source.text)
    words: list[str] = []
    while (token := tokens.next()).kind != END:
        words.append(token.text)
    return words
