"""Configs in other formats, what differs between two of them, and what a server makes of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from aitune.errors import RepositoryError, UsageError
from aitune.triton.check.comments import Comments, collect
from aitune.triton.check.dump import to_json, to_pbtxt, to_plain, to_yaml
from aitune.triton.check.folder import read_folder
from aitune.triton.check.judge import judge
from aitune.triton.check.model import Model
from aitune.triton.check.options import CheckOptions, options_of
from aitune.triton.check.plain import from_json
from aitune.triton.check.source import read_source
from aitune.triton.check.textproto import parse
from aitune.triton.check.tree import Node
from aitune.triton.check.yaml_text import from_yaml
from aitune.triton.releases import RELEASES

__all__ = ["CONFIG_FORMATS", "Difference", "convert", "diff_configs", "format_differences", "show"]

CONFIG_FORMATS = ("json", "pbtxt", "yaml")


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that two configs do not share.

    Attributes:
        path: Where, e.g. ``"input[x].dims"``.
        left: Its value in the first, None where it is left out.
        right: Its value in the second, None where it is left out.
    """

    path: str
    left: object
    right: object

    def to_json(self) -> dict[str, object]:
        """The object of the JSON document."""
        return {"path": self.path, "left": self.left, "right": self.right}


def convert(path: Path, to: str) -> str:
    """A config in another format; comments are kept where the format has any.

    Args:
        path: A config, or a model directory; ``.json``, ``.yaml`` and ``.yml`` files are read as such, all
            others as protobuf text.
        to: One of `CONFIG_FORMATS`.

    Raises:
        RepositoryError: If the file cannot be read.
        UsageError: If there is no such format.
    """
    if to not in CONFIG_FORMATS:
        raise UsageError(f"no config format is called {to!r}", hint=f"choose one of {', '.join(CONFIG_FORMATS)}")
    config, comments = _read(Path(path))
    if to == "json":
        return to_json(config)
    return to_pbtxt(config, comments) if to == "pbtxt" else to_yaml(config, comments)


def show(model: Path, **given: Unpack[CheckOptions]) -> str:
    """The config of a model directory as a server would hold it, with a mark beside what the server fills in.

    Args:
        model: The model directory.
        **given: As for `check_repository`.

    Raises:
        RepositoryError: If there is no such directory, or its config cannot be read.
    """
    path = Path(model)
    folder = read_folder(path)
    held = Model(path.parent, path.name, folder, options_of(given), f"{path.name}/config.pbtxt")
    findings = judge(held)
    if held.source is not None and not held.config.fields:
        raise RepositoryError(f"{held.file} cannot be read: {findings[0].message}")
    config = held.versions[-1].config if held.versions else held.config
    comments = collect(held.source.text, held.written) if held.source is not None else Comments()
    return to_pbtxt(config, comments, added="filled in by the server")


def _read(path: Path) -> tuple[Node, Comments]:
    if path.is_dir():
        path = path / "config.pbtxt"
    source = read_source(path, path.name)
    if path.suffix == ".json":
        return from_json(source.text, path.name), Comments()
    if path.suffix in (".yaml", ".yml"):
        config = from_yaml(source.text, path.name)
        return config, collect(source.text, config)
    parsed = parse(source.text, RELEASES[-1])
    if parsed.problems:
        first = parsed.problems[0]
        line, column = source.position(first.span[0])
        raise RepositoryError(f"{path}:{line}:{column}: {first.message}", hint=f"check --explain {first.rule}")
    return parsed.config, collect(source.text, parsed.config)


def diff_configs(left: Path, right: Path) -> tuple[Difference, ...]:
    """Fields in which two configs differ; order, layout, comments and values that equal the default do not count.

    Args:
        left: A config or a model directory.
        right: Another one.

    Raises:
        RepositoryError: If one of them cannot be read.
    """
    one, two = dict(_flat(to_plain(_read(Path(left))[0]), "")), dict(_flat(to_plain(_read(Path(right))[0]), ""))
    names = [*one, *(name for name in two if name not in one)]
    return tuple(Difference(name, one.get(name), two.get(name)) for name in names if one.get(name) != two.get(name))


def _flat(value: object, path: str) -> Iterator[tuple[str, object]]:
    """(path, value) pairs of all leaves; elements with a name are known by it."""
    if isinstance(value, dict):
        if not value and path:
            yield path, {}
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{path}[{inner.get('name') or index}]")
    elif value not in ("", 0, False, []):
        yield path, value


def format_differences(differences: tuple[Difference, ...]) -> str:
    """One line a side, as diff writes them."""
    lines = []
    for one in differences:
        if one.left is not None:
            lines.append(f"- {one.path}: {json.dumps(one.left, ensure_ascii=False)}")
        if one.right is not None:
            lines.append(f"+ {one.path}: {json.dumps(one.right, ensure_ascii=False)}")
    return "".join(f"{line}\n" for line in lines)
