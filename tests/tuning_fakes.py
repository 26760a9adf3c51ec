"""Fakes of the protocols of ``aitune.tuning``, a clock that only moves when told, and real little ONNX models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from aitune.errors import SourceError
from aitune.numerics import Array, dtype_of
from aitune.records import DType, TensorSpec
from aitune.records.interface import Interface, Port


class Fake:
    """Runner and candidate made of one function of the inputs; a single array it returns is the output y."""

    def __init__(
        self,
        function: Callable[..., Mapping[str, Array] | Array],
        name: str = "default",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.function = function
        self.name = name
        self.settings: Mapping[str, str] = settings or {}
        self.precision = "fp32"
        self.model_file = None
        self.batches: list[int] = []
        self.opened = self.closed = 0

    def open(self) -> Fake:
        """Itself."""
        self.opened += 1
        return self

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Call the function."""
        first = next(iter(inputs.values()))
        self.batches.append(len(first) if first.ndim else 0)
        found = self.function(**inputs)
        return dict(found) if isinstance(found, Mapping) else {"y": np.asarray(found)}

    def close(self) -> None:
        """Count it."""
        self.closed += 1


class FakeClock:
    """Time that passes only when something says that it took some."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now_s

    def spend(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


class Recorder:
    """A progress that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.totals: list[int | None] = []
        self.open = 0

    def start(self, what: str, total: int | None) -> None:
        """Keep it."""
        self.told.append(what)
        self.totals.append(total)
        self.open += 1

    def advance(self, n: int = 1) -> None:
        """Keep that it moved."""
        self.told.append("advance")

    def note(self, text: str) -> None:
        """Keep it."""
        self.told.append(text)

    def done(self) -> None:
        """Close it."""
        self.open -= 1


def interface(inputs: Mapping[str, Any], outputs: Mapping[str, Any], **more: Any) -> Interface:
    """An ONNX interface; each port is a shape of float32, or (dtype, shape)."""
    return Interface(format="onnx", inputs=_ports(inputs), outputs=_ports(outputs), **more)


def _ports(values: Mapping[str, Any]) -> tuple[Port, ...]:
    typed = {
        name: value if len(value) == 2 and isinstance(value[0], DType) else (DType.FLOAT32, value)
        for name, value in values.items()
    }
    return tuple(
        Port(name=name, dtype=dtype, element_type=dtype.value, shape=shape) for name, (dtype, shape) in typed.items()
    )


def onnx_bytes(
    nodes: Sequence[Any],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    constants: Mapping[str, Array] | None = None,
) -> bytes:
    """An ONNX model; each value is a shape of float32, or (numpy type, shape)."""

    def value(name: str, what: Any) -> Any:
        typed = len(what) == 2 and not isinstance(what[0], int | str | None.__class__)
        dtype, shape = what if typed else (np.float32, what)
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    graph = helper.make_graph(
        list(nodes),
        "planted",
        [value(name, what) for name, what in inputs.items()],
        [value(name, what) for name, what in outputs.items()],
        [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


class OrtRunner:
    """A runner straight on ONNX Runtime."""

    def __init__(self, model: bytes) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._names = [output.name for output in self._session.get_outputs()]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Every output; what the runtime refuses is a source error with its first line."""
        try:
            found = self._session.run(self._names, dict(inputs))
        except Exception as error:
            raise SourceError(str(error).splitlines()[0]) from error
        return dict(zip(self._names, found, strict=True))

    def close(self) -> None:
        """Nothing to free."""


def specs_of(model: bytes) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Inputs and outputs as the graph declares them."""
    graph = onnx.load_model_from_string(model).graph
    return tuple(_specs(graph.input)), tuple(_specs(graph.output))  # type: ignore[return-value]


def _specs(values: Any) -> list[TensorSpec]:
    found = []
    for value in values:
        tensor = value.type.tensor_type
        dims = tuple(dim.dim_param or dim.dim_value or None for dim in tensor.shape.dim)
        dtype = dtype_of(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        found.append(TensorSpec(value.name, dtype, dims))
    return found


__all__ = ["Fake", "FakeClock", "OrtRunner", "Recorder", "interface", "onnx_bytes", "specs_of"]
