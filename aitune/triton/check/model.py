"""One model directory while it is judged: its folders, its config at each stage, its versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aitune.records.codec import Document
from aitune.records.interface import Interface
from aitune.triton.check.finding import ERROR, WARNING, Edit, Finding
from aitune.triton.check.folder import Folder
from aitune.triton.check.options import Options
from aitune.triton.check.source import Source
from aitune.triton.check.tree import Node, Span

__all__ = ["RESERVED", "Model", "Version"]

RESERVED = ("warmup", "initial_state", "configs")
"""Subfolders of a model that are never versions."""


@dataclass(slots=True)
class Version:
    """One version that the server would load.

    Attributes:
        number: Its number.
        path: Where the server looks for it: ``<model>/<number>``.
        folder: What lies there; None when there is nothing.
        config: The config with which this version starts: written, filled in, auto-completed.
        artifact: The model file, None when it is not there.
        interface: What the model file declares, None when nobody could read it.
        document: The record beside it, None when there is none that can be used.
    """

    number: int
    path: Path
    folder: Folder | None
    config: Node
    artifact: Path | None = None
    interface: Interface | None = None
    document: Document | None = None


@dataclass(slots=True)
class Model:
    """A model directory.

    Attributes:
        root: The repository.
        name: Name of the directory.
        folder: What lies in it.
        options: The server.
        file: What reports call the config file.
        source: Its text; None when there is none.
        written: The config as written.
        config: The same after the server filled in name, backend and file name.
        versions: Those that would be loaded, lowest number first.
        provided: Whether there is a config file.
        readable: Whether there is none that must not be followed.
    """

    root: Path
    name: str
    folder: Folder
    options: Options
    file: str
    source: Source | None = None
    written: Node = field(default_factory=lambda: Node("ModelConfig"))
    config: Node = field(default_factory=lambda: Node("ModelConfig"))
    versions: list[Version] = field(default_factory=list)
    provided: bool = False
    readable: bool = True

    # -- what rules ask -----------------------------------------------------------------------------------------------

    @property
    def backend(self) -> str:
        """The backend after detection."""
        return self.config.text("backend")

    @property
    def is_ensemble(self) -> bool:
        """Whether the config says so."""
        return self.config.text("platform") == "ensemble"

    @property
    def serves_gpu(self) -> bool:
        """Whether the host has a usable GPU."""
        return bool(self.options.gpus)

    def has(self, behaviour: str) -> bool:
        """Whether the target release behaves so."""
        return self.options.release.has(behaviour)

    def group_kinds(self) -> tuple[str, ...]:
        """Kind of every instance group as the server resolves it."""
        groups = self.config.messages("instance_group")
        if not groups:
            return ("KIND_GPU" if self.serves_gpu else "KIND_CPU",)
        return tuple(self.resolve_kind(group) for group in groups)

    def resolve_kind(self, group: Node) -> str:
        """The kind of a group once ``KIND_AUTO`` is decided."""
        kind = group.choice("kind")
        if kind != "KIND_AUTO":
            return kind
        listed = group.numbers("gpus")
        usable = self.serves_gpu and all(gpu in self.options.gpus for gpu in listed)
        return "KIND_GPU" if usable else "KIND_CPU"

    def instance_counts(self) -> Iterator[tuple[Node, int]]:
        """Every group with the number of its instances on the target; the config itself where no group is written."""
        groups = self.config.messages("instance_group")
        for group, kind in zip(groups or (self.config,), self.group_kinds(), strict=True):
            default = 2 if kind == "KIND_CPU" and self.backend in ("onnxruntime", "tensorflow") else 1
            written = group.number("count") if groups else 0
            listed = group.numbers("gpus") if groups else ()
            places = len(listed or self.options.gpus) if kind == "KIND_GPU" else 1
            yield group, (written if written > 0 else default) * max(places, 1)

    def tensors(self, config: Node) -> Iterator[tuple[str, Node]]:
        """Every input, then every output, with the word for it."""
        for node in config.messages("input"):
            yield "input", node
        for node in config.messages("output"):
            yield "output", node

    # -- what rules say -----------------------------------------------------------------------------------------------

    def error(
        self, rule: str, node: Node | None, fields: str, message: str, fix: str = "", edits: tuple[Edit, ...] = ()
    ) -> Finding:
        """The model will not load."""
        return self._finding(ERROR, rule, node, fields, message, fix, edits)

    def warning(
        self, rule: str, node: Node | None, fields: str, message: str, fix: str = "", edits: tuple[Edit, ...] = ()
    ) -> Finding:
        """The model loads, but not as its author thinks."""
        return self._finding(WARNING, rule, node, fields, message, fix, edits)

    def at_file(self, severity: str, rule: str, file: str, message: str, fix: str = "") -> Finding:
        """About a file or folder of the model; ``file`` is relative to the model directory, ``""`` for itself."""
        return Finding(severity, rule, "", f"{self.name}/{file}".rstrip("/"), 0, 0, message, fix)

    def at_span(
        self, severity: str, rule: str, path: str, span: Span | None, message: str, fix: str, edits: tuple[Edit, ...]
    ) -> Finding:
        """About some characters of the config file."""
        if self.source is None:
            return Finding(severity, rule, path, self.file, 0, 0, message, fix)
        if span is None:
            return Finding(severity, rule, path, self.file, 1, 1, message, fix, 1, self.source.line(1), edits)
        line, column = self.source.position(span[0])
        excerpt = self.source.line(line)
        width = max(1, min(span[1] - span[0], len(excerpt) - column + 1))
        return Finding(severity, rule, path, self.file, line, column, message, fix, width, excerpt, edits)

    def _finding(
        self, severity: str, rule: str, node: Node | None, fields: str, message: str, fix: str, edits: tuple[Edit, ...]
    ) -> Finding:
        node = node if node is not None else self.config
        names = fields.split()
        path = ".".join(part for part in (node.path, names[0] if names else "") if part)
        span = node.where(*names) if node.path or any(node.given(name) for name in names) else None
        while span is None and node.parent is not None:
            node = node.parent
            span = node.span if node.path else None
        return self.at_span(severity, rule, path, span, message, fix, edits if self.source is not None else ())
