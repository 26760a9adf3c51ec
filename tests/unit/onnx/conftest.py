"""Small ONNX files, built where a test needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

Build = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """A function that writes a model and returns its path.

    Ports are ``(name, type, shape)`` or a finished ValueInfoProto.
    """

    def port(value: Any) -> Any:
        return value if isinstance(value, onnx.ValueInfoProto) else helper.make_tensor_value_info(*value)

    def write(
        nodes: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        initializers: Sequence[Any] = (),
        *,
        name: str = "model.onnx",
        opsets: Sequence[tuple[str, int]] = (("", 17),),
        ir: int = 8,
        **model: Any,
    ) -> Path:
        graph = helper.make_graph(
            list(nodes), "graph", [port(i) for i in inputs], [port(o) for o in outputs], list(initializers)
        )
        imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
        made = helper.make_model(graph, opset_imports=imports, ir_version=ir, **model)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.SerializeToString())
        return path

    return write


@pytest.fixture
def relu(build: Build) -> Callable[..., Path]:
    """A function that writes a model of one Relu with the given input and output shapes and type."""

    def write(
        shape: Sequence[Any] | None = ("N", 4), out: Any = "same", *, dtype: int = TensorProto.FLOAT, **model: Any
    ) -> Path:
        op = "Relu" if dtype == TensorProto.FLOAT else "Identity"
        declared = shape if out == "same" else out
        return build([helper.make_node(op, ["x"], ["y"])], [("x", dtype, shape)], [("y", dtype, declared)], **model)

    return write


@pytest.fixture
def external(build: Build) -> Callable[..., Path]:
    """A function that writes ``y = x + w`` with the four floats of ``w`` kept in another file."""

    def write(location: str = "w.bin", data: bytes | None = b"\0\0\x80?" * 4, dims: int = 4, **entries: object) -> Path:
        weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[dims], data_location=TensorProto.EXTERNAL)
        for key, value in {"location": location, **entries}.items():
            weights.external_data.add(key=key, value=str(value))
        shape = ("N", dims)
        path = build(
            [helper.make_node("Add", ["x", "w"], ["y"])],
            [("x", TensorProto.FLOAT, shape)],
            [("y", TensorProto.FLOAT, shape)],
            [weights],
        )
        if data is not None:
            (path.parent / location).parent.mkdir(parents=True, exist_ok=True)
            (path.parent / location).write_bytes(data)
        return path

    return write
