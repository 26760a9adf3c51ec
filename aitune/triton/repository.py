"""A model repository as it lies on the disk, read only: ours, and anybody else's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aitune.errors import RecordError, RepositoryError
from aitune.records.codec import Document, read_document
from aitune.triton.contract import PARAMETER_PREFIX
from aitune.triton.history import Event, read_history
from aitune.triton.layout import CONFIG, RECORD, open_root, subfolders, version_folders
from aitune.triton.schema import parse_config

__all__ = ["PublishedModel", "Repository", "read_config", "read_model", "served_versions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedModel:
    """One model of a repository.

    Attributes:
        name: Name of its folder, which is the model's.
        path: Its folder.
        config_text: Text of config.pbtxt; None when there is none.
        config: The ``ModelConfig`` message; None when there is no config or it cannot be parsed.
        problem: Why the config cannot be used, ``""`` when it can.
        versions: Numbers of the version folders, smallest first.
        documents: Records of the versions that have one.
        record_problems: Versions whose record is there and cannot be used, with the reason.
    """

    name: str
    path: Path
    config_text: str | None = None
    config: Any = field(default=None, compare=False, repr=False)
    problem: str = ""
    versions: tuple[int, ...] = ()
    documents: Mapping[int, Document] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    record_problems: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def served(self) -> tuple[int, ...]:
        """Versions that Triton would load, smallest first."""
        return served_versions(self.config, self.versions)

    @property
    def current(self) -> int | None:
        """The version that answers when a client names none: the highest served one."""
        return self.served[-1] if self.served else None

    @property
    def document(self) -> Document | None:
        """The record of the current version."""
        return None if self.current is None else self.documents.get(self.current)

    @property
    def ours(self) -> bool:
        """Whether aitune published it."""
        if self.documents or self.record_problems:
            return True
        return self.config is not None and any(key.startswith(PARAMETER_PREFIX) for key in self.config.parameters)


class Repository:
    """A model repository.

    Args:
        path: Its root.

    Raises:
        RepositoryError: If there is no directory, or it is a model rather than a repository.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = open_root(path)

    def names(self) -> tuple[str, ...]:
        """Names of the models: every directory in the root is one to Triton (R27)."""
        return subfolders(self.path)

    def models(self) -> tuple[PublishedModel, ...]:
        """All models, in the order of their names."""
        return tuple(read_model(self.path / name) for name in self.names())

    def model(self, name: str) -> PublishedModel:
        """One model.

        Raises:
            RepositoryError: If there is no such model.
        """
        if name not in self.names():
            known = ", ".join(self.names()) or "none"
            raise RepositoryError(f"no model {name!r} in {str(self.path)!r}", hint=f"there are: {known}")
        return read_model(self.path / name)

    def history(self) -> tuple[Event, ...]:
        """What was published and rolled back, oldest first."""
        return read_history(self.path)


def read_model(folder: Path) -> PublishedModel:
    """The model in a folder. Whatever is wrong with it is told in the result, not raised.

    Raises:
        RepositoryError: If the folder cannot be listed.
    """
    text, config, problem = read_config(folder / CONFIG)
    folders = version_folders(folder)
    documents: dict[int, Document] = {}
    problems: dict[int, str] = {}
    for number, version in folders.items():
        if (version / RECORD).exists():
            try:
                documents[number] = read_document(version / RECORD)
            except RecordError as error:
                problems[number] = error.message
    return PublishedModel(
        name=folder.name,
        path=folder,
        config_text=text,
        config=config,
        problem=problem,
        versions=tuple(folders),
        documents=MappingProxyType(documents),
        record_problems=MappingProxyType(problems),
    )


def served_versions(config: Any, versions: tuple[int, ...]) -> tuple[int, ...]:
    """Those of the existing versions that a config selects (R41 to R44, R175).

    Args:
        config: ``ModelConfig`` message, None for none (then Triton's default applies).
        versions: Existing versions, smallest first.
    """
    policy = config.version_policy if config is not None and config.HasField("version_policy") else None
    if policy is None:
        return versions[-1:]
    choice = policy.WhichOneof("policy_choice")
    if choice == "specific":
        return tuple(version for version in versions if version in policy.specific.versions)
    if choice == "latest":
        count = policy.latest.num_versions
        return versions[-count:] if count else ()
    return versions


def read_config(path: Path) -> tuple[str | None, Any, str]:
    """Text, message and trouble of a config file: (text or None, ``ModelConfig`` or None, why it cannot be used).

    Triton takes any byte in a comment or a string, so bytes that are no UTF-8 are read as Latin-1 (rules §10).
    """
    from google.protobuf.text_format import ParseError  # protobuf is paid for by who reads a config

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None, None, f"there is no {CONFIG}"
    except OSError as error:
        return None, None, f"{CONFIG} cannot be read: {(error.strerror or '').lower()}"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    try:
        return text, parse_config(text), ""
    except ParseError as error:
        return text, None, f"{CONFIG} cannot be parsed: {error}"
