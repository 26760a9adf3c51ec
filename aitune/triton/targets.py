"""Which versions of which models to look at: what the repository says should be served, and what is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from aitune.errors import RepositoryError, UsageError
from aitune.triton.client_errors import EndpointRestricted, ModelAbsent, ModelNotReady
from aitune.triton.client_records import IndexEntry
from aitune.triton.layout import RECORD
from aitune.triton.normalisation import compare
from aitune.triton.repository import PublishedModel, Repository
from aitune.triton.schema import parse_config
from aitune.triton.sessions import Session
from aitune.triton.subjects import Published

__all__ = ["Target", "find_targets", "find_whole"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One version to look at.

    Attributes:
        model: Name of the model.
        version: The version; ``""`` when the server has none of the model.
        published: What the repository says; None without one.
        trouble: Why it cannot be asked, ``""`` when it can.
    """

    model: str
    version: str
    published: Published | None = None
    trouble: str = ""


def find_targets(
    session: Session, repository: Path | str | None, patterns: Sequence[str] = (), version: str | None = None
) -> tuple[Target, ...]:
    """Every version to look at, by model and number.

    Args:
        session: The server.
        repository: What was published; None for whatever the server has.
        patterns: Names or globs of models; all when empty.
        version: Only this version.

    Raises:
        RepositoryError: If the repository holds no model.
        UsageError: If no model matches.
        ServerError: If the server does not say which models it has, and none is named.
    """
    rows = _rows(session, patterns)
    if repository is None:
        found = [_of_server(row) for row in rows if row.version]
        known = sorted({row.name for row in rows})
    else:
        models = Repository(repository).models()
        if not models:
            raise RepositoryError(f"model repository {str(repository)!r} is empty", hint="build a model into it first")
        found = [target for model in models for target in _of_repository(model, rows)]
        known = [model.name for model in models]
    wanted = [target for target in found if _matches(target.model, patterns) and version in (None, target.version)]
    if not wanted:
        asked = ", ".join(map(repr, patterns)) or "any name"
        which = f" version {version}" if version is not None else ""
        raise UsageError(f"no model matches {asked}{which}", hint=f"there are: {', '.join(known) or 'none'}")
    return _sorted(wanted)


def find_whole(
    session: Session, repository: Path | str | None, patterns: Sequence[str] = ()
) -> tuple[tuple[Target, ...], str]:
    """Everything that the server knows and everything that the repository says it should serve, without a demand.

    Args:
        session: The server.
        repository: What was published; None for whatever the server has.
        patterns: Names or globs of models; all when empty.

    Returns:
        The versions, by model and number, and why the server's own list may not be read, ``""`` when it may.

    Raises:
        RepositoryError: If the repository cannot be read.
        ServerError: If the server cannot be reached.
    """
    models = () if repository is None else Repository(repository).models()
    closed = ""
    try:
        rows = session.index()
    except EndpointRestricted as error:
        closed = str(error)
        rows = _named_rows(session, [*(model.name for model in models), *_plain(patterns)])
    published = {model.name for model in models}
    found = [target for model in models for target in _of_repository(model, rows)]
    found += [_of_server(row) for row in rows if row.name not in published]
    return _sorted([target for target in found if _matches(target.model, patterns)]), closed


def _sorted(targets: Sequence[Target]) -> tuple[Target, ...]:
    return tuple(sorted(targets, key=lambda target: (target.model, int(target.version or 0))))


def _rows(session: Session, patterns: Sequence[str]) -> tuple[IndexEntry, ...]:
    """The index, or, where it may not be read, what the metadata of the named models says."""
    try:
        return session.index()
    except EndpointRestricted as error:
        names = _plain(patterns)
        if not names:
            hint = "name one with --model, or give the header with --header"
            raise EndpointRestricted(f"the server does not list its models: {error}", hint=hint) from error
    return tuple(row for name in names for row in _served(session, name))


def _named_rows(session: Session, names: Sequence[str]) -> tuple[IndexEntry, ...]:
    """The same for models that may not be there."""
    rows: list[IndexEntry] = []
    for name in dict.fromkeys(names):
        try:
            rows += _served(session, name)
        except (EndpointRestricted, ModelAbsent, ModelNotReady) as error:
            rows.append(IndexEntry(name=name, version="", state="", reason=str(error)))
    return tuple(rows)


def _served(session: Session, name: str) -> list[IndexEntry]:
    versions = session.client.metadata(name).versions
    return [IndexEntry(name=name, version=version, state="READY", reason="") for version in versions]


def _plain(patterns: Sequence[str]) -> list[str]:
    """The patterns that are names."""
    return [name for name in patterns if not set(name) & set("*?[")]


def _of_server(row: IndexEntry) -> Target:
    return Target(model=row.name, version=row.version, trouble=_trouble(row))


def _of_repository(model: PublishedModel, rows: Sequence[IndexEntry]) -> list[Target]:
    """The versions that should be served, and those that are."""
    mine = {row.version: row for row in rows if row.name == model.name}
    expected = {str(number) for number in model.served}
    found = []
    for version in expected | {version for version, row in mine.items() if version and row.state == "READY"}:
        row = mine.get(version) or mine.get("")
        trouble = f"version {version} is not on the server" if row is None else _trouble(row)
        trouble = _explained(model, trouble)
        found.append(Target(model=model.name, version=version, published=_published(model, version), trouble=trouble))
    if not found:
        reason = model.problem or next((_trouble(row) for row in mine.values() if _trouble(row)), "it has no version")
        found.append(Target(model=model.name, version="", trouble=reason))
    return found


def _explained(model: PublishedModel, trouble: str) -> str:
    """The server's reason, with what a server without a GPU leaves unsaid of a TensorRT plan."""
    if not trouble or getattr(model.config, "backend", "") != "tensorrt":
        return trouble
    return f"a TensorRT plan is served on a GPU by NVIDIA's TensorRT backend only, and this server says: {trouble}"


def _published(model: PublishedModel, version: str) -> Published | None:
    if model.config is None:
        return None
    documents = {str(number): document.artifact for number, document in model.documents.items()}
    config = model.config
    if not config.name:  # Triton takes the name of the folder
        config = type(config)()
        config.CopyFrom(model.config)
        config.name = model.name
    return Published(
        config=config,
        artifact=documents.get(version),
        edits=_edits(model) if version == str(model.current) else (),
        siblings=documents,
        served=tuple(map(str, model.served)),
        record_trouble="" if version in documents else _record_trouble(model, version),
    )


def _record_trouble(model: PublishedModel, version: str) -> str:
    """Why a version has no record."""
    number = int(version) if version.isdecimal() else -1
    return model.record_problems.get(number, f"{version}/{RECORD} is not there")


def _edits(model: PublishedModel) -> tuple[str, ...]:
    """Where the config was changed by hand since the current version was published."""
    from google.protobuf.text_format import ParseError

    document = model.document
    if document is None or document.config is None or document.config == model.config_text:
        return ()
    try:
        return compare(model.config, parse_config(document.config))
    except ParseError as error:
        return (f"the config kept in the record cannot be parsed: {error}",)


def _trouble(row: IndexEntry) -> str:
    if row.state == "READY":
        return ""
    return " ".join(row.reason.split()) or f"its state is {row.state or 'unknown: it was never loaded'}"


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
