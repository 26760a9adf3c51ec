"""Stand-ins for what Triton's stub brings, so that the backend runs in a plain Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

Array = np.ndarray[Any, Any]


@dataclass
class Tensor:
    """A tensor of a request or a response."""

    label: str
    array: Array

    def name(self) -> str:
        """Its name."""
        return self.label

    def as_numpy(self) -> Array:
        """Its values."""
        return self.array


@dataclass
class Response:
    """What goes back for one request."""

    output_tensors: Sequence[Tensor]
    error: Any = None

    def arrays(self) -> dict[str, Array]:
        """The outputs by name."""
        return {tensor.label: tensor.array for tensor in self.output_tensors}


@dataclass
class Request:
    """One request of a batch."""

    arrays: dict[str, Array]
    asked: tuple[str, ...] = ()
    sequence: int = 0
    flag: int = 0
    sent: list[Response] = field(default_factory=list)

    def inputs(self) -> list[Tensor]:
        """Its tensors."""
        return [Tensor(name, array) for name, array in self.arrays.items()]

    def requested_output_names(self) -> tuple[str, ...]:
        """The outputs it wants."""
        return self.asked

    def correlation_id(self) -> int:
        """Its sequence."""
        return self.sequence

    def flags(self) -> int:
        """START is 1, END is 2."""
        return self.flag

    def get_response_sender(self) -> Any:
        """Where a decoupled model sends its answers."""
        return SimpleNamespace(send=lambda response, flags: self.sent.append(response))


class TritonModelException(Exception):
    """What the stub shows as a failed load."""


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that Triton's stub provides."""
    module = ModuleType("triton_python_backend_utils")
    module.Tensor = Tensor  # type: ignore[attr-defined]
    module.InferenceResponse = Response  # type: ignore[attr-defined]
    module.TritonError = str  # type: ignore[attr-defined]
    module.TritonModelException = TritonModelException  # type: ignore[attr-defined]
    module.Logger = SimpleNamespace(log_info=lambda text: None)  # type: ignore[attr-defined]
    module.TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1  # type: ignore[attr-defined]
    module.get_model_dir = lambda: "/nowhere"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", module)
    return module


@pytest.fixture
def make_request() -> type[Request]:
    """The request class, for tests that cannot import from here."""
    return Request


Build = Callable[..., bytes]


@pytest.fixture
def build() -> Build:
    """A model of a few nodes, as bytes."""

    def make(
        nodes: Sequence[tuple[str, Sequence[str], Sequence[str]]], inputs: dict[str, Any], outputs: dict[str, Any]
    ) -> bytes:
        def infos(values: dict[str, Any]) -> list[onnx.ValueInfoProto]:
            return [
                helper.make_tensor_value_info(name, *value)
                if isinstance(value, tuple)
                else helper.make_tensor_value_info(name, TensorProto.FLOAT, value)
                for name, value in values.items()
            ]

        made = [helper.make_node(op, list(ins), list(outs)) for op, ins, outs in nodes]
        graph = helper.make_graph(made, "graph", infos(inputs), infos(outputs))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return model.SerializeToString()

    return make
