"""PyTorch, OpenVINO and TensorFlow models: whether the file is there and is of the right kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from aitune.triton.check.finding import ERROR, Finding
from aitune.triton.check.folder import FILE, inside, joined, kind_of
from aitune.triton.check.model import Model, Version

__all__ = ["file"]

_HEAD_BYTES = 4096


def _is_archive(head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04")


def _is_network(head: bytes) -> bool:
    return b"<net" in head and b"<layers" in head


def _is_protobuf(head: bytes) -> bool:
    return bool(head)


_LOOKS_RIGHT: Mapping[str, tuple[Callable[[bytes], bool], str]] = {
    "pytorch": (_is_archive, "a TorchScript archive"),
    "openvino": (_is_network, "an OpenVINO network"),
    "tensorflow": (_is_protobuf, "a graph"),
}


def file(model: Model, version: Version) -> Iterator[Finding]:
    """R45: the backend finds its file, and the file is not obviously something else."""
    name = version.config.text("default_model_filename")
    if version.config.text("backend") not in _LOOKS_RIGHT or not name or version.config.text("runtime") == "model.py":
        return
    path, shown = joined(version.path, name), f"{version.number}/{name}"
    if not inside(model.root, path):
        return
    looks_right, what = _LOOKS_RIGHT[version.config.text("backend")]
    if not kind_of(path):
        message = f"there is no {shown}: the backend has nothing to load"
        yield model.at_file(ERROR, "R45", shown, message, f"put {what} there")
    elif kind_of(path) == FILE and not looks_right(_head(path)):
        yield model.at_file(ERROR, "R45", shown, f"{shown} is not {what}", f"put {what} there")


def _head(path: Path) -> bytes:
    with path.open("rb") as opened:
        return opened.read(_HEAD_BYTES)
