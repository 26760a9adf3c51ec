"""Small repositories, and a stand-in for the frontend that reads model files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from aitune.errors import SourceError
from aitune.records.dtypes import DType
from aitune.records.interface import Interface, Port
from aitune.triton.check import CheckReport, check_repository


def port(name: str, shape: Any, dtype: DType | None = DType.FLOAT32, **other: Any) -> Port:
    """A tensor with letters or None for free axes."""
    return Port(name=name, shape=shape, dtype=dtype, element_type=other.pop("element_type", "FLOAT"), **other)


def interface(inputs: list[Port], outputs: list[Port], **other: Any) -> Interface:
    """What an ONNX file declares; current opset and IR unless given."""
    given = {"opset_imports": (("", 17),), "ir_version": 8, "source": "onnxruntime", **other}
    return Interface(format="onnx", inputs=tuple(inputs), outputs=tuple(outputs), **given)


LINEAR = interface([port("x", ("n", 4))], [port("y", ("n", 4))])
"""The model behind most cases: x [n, 4] to y [n, 4], both FP32."""


class Repository:
    """A repository on disk whose model files are read by a table."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.interface: Interface | None = LINEAR

    def file(self, name: str, content: str | bytes = "") -> Path:
        """Write one file."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def model(self, config: str | None, name: str = "m", files: Mapping[str, str | bytes] | None = None) -> None:
        """A model directory; by default with 1/model.onnx."""
        if config is not None:
            self.file(f"{name}/config.pbtxt", config)
        for file, content in ({"1/model.onnx": b"onnx"} if files is None else files).items():
            self.file(f"{name}/{file}", content)
        (self.root / name).mkdir(exist_ok=True)

    def read(self, path: Path) -> Interface:
        """The interface of a file; one that says so is refused."""
        if path.read_bytes().startswith(b"bad") or self.interface is None:
            raise SourceError("not an ONNX file")
        return self.interface

    def check(self, **options: Any) -> CheckReport:
        """Check it."""
        return check_repository(self.root, **{"read_interface": self.read, **options})


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """An empty repository."""
    root = tmp_path / "models"
    root.mkdir()
    return Repository(root)


@pytest.fixture
def make_repository(tmp_path: Path) -> Callable[[str], Repository]:
    """Several repositories in one test."""

    def make(name: str) -> Repository:
        (tmp_path / name).mkdir()
        return Repository(tmp_path / name)

    return make
