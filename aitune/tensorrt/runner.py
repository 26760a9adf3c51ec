"""A plan that runs: a candidate like any other, where there is a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from aitune.errors import SourceError
from aitune.numerics import Array, numpy_dtype
from aitune.records.plans import Profile
from aitune.tensorrt.cuda import Stream
from aitune.tensorrt.dtypes import dtype_of
from aitune.tensorrt.engine import engine_facts, open_engine
from aitune.tensorrt.header import read_header
from aitune.tensorrt.library import load_tensorrt
from aitune.tensorrt.messages import listening

__all__ = ["PlanCandidate", "PlanRunner", "choose_profile"]

Shapes = Mapping[str, tuple[int, ...]]


def choose_profile(profiles: tuple[Profile, ...], shapes: Shapes) -> int:
    """The profile that serves a request, as Triton chooses it: nearest optimum among those that hold it (rules R282).

    Raises:
        SourceError: If none holds it.
    """
    fitting = [index for index, profile in enumerate(profiles) if _holds(profile, shapes)]
    if not fitting:
        asked = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise SourceError(f"no optimisation profile of the plan holds {asked}")
    return min(fitting, key=lambda index: _distance(profiles[index], shapes))


def _holds(profile: Profile, shapes: Shapes) -> bool:
    return all(
        item.values
        or (
            len(item.min) == len(shapes[item.name])
            and all(a <= b <= c for a, b, c in zip(item.min, shapes[item.name], item.max, strict=True))
        )
        for item in profile.inputs
    )


def _distance(profile: Profile, shapes: Shapes) -> int:
    return sum(
        abs(best - size)
        for item in profile.inputs
        if not item.values
        for best, size in zip(item.opt, shapes[item.name], strict=True)
    )


class PlanRunner:
    """A deserialised plan with its memory on the device.

    Args:
        path: The plan.
        trt: The library; ``tensorrt`` when None.

    Raises:
        SourceError: If the library does not load it.
        UnavailableError: If there is no GPU.
    """

    def __init__(self, path: Path, trt: ModuleType | None = None) -> None:
        self._trt = trt if trt is not None else load_tensorrt()
        self._stream = Stream()
        header = read_header(path)
        self._engine = open_engine(self._trt, path.read_bytes(), path.name)
        self._facts = engine_facts(self._trt, self._engine, header, "")
        self._context = self._engine.create_execution_context()
        self._inputs = [item.name for item in self._facts.profiles[0].inputs] if self._facts.profiles else []
        self._outputs = [item.name for item in self._facts.tensors if item.name not in self._inputs]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Every output by name.

        Raises:
            SourceError: If a shape lies in no profile, or the engine fails.
        """
        sent = {name: np.ascontiguousarray(inputs[name]).reshape(inputs[name].shape) for name in self._inputs}
        index = choose_profile(self._facts.profiles, {name: array.shape for name, array in sent.items()})
        with listening(self._trt) as heard:
            self._context.set_optimization_profile_async(index, self._stream.handle)
            for name, array in sent.items():
                self._bind_input(name, array)
            answer = {name: self._bind_output(name) for name in self._outputs}
            if not self._context.execute_async_v3(self._stream.handle):
                raise SourceError(f"the plan does not run: {heard.last()}")
        for name, array in answer.items():
            if not self._on_host(name):
                self._stream.fetch(array.ctypes.data, self._context.get_tensor_address(name), array.nbytes)
        self._stream.wait()
        return answer

    def close(self) -> None:
        """Free the device's memory; a second call does nothing."""
        self._stream.close()

    def _bind_input(self, name: str, array: Array) -> None:
        self._context.set_input_shape(name, array.shape)
        if self._on_host(name):
            address = array.ctypes.data
        else:
            address = self._stream.memory(name, array.nbytes)
            self._stream.send(address, array.ctypes.data, array.nbytes)
        self._context.set_tensor_address(name, address)

    def _bind_output(self, name: str) -> Array:
        shape = tuple(self._context.get_tensor_shape(name))
        if min(shape, default=0) < 0:
            raise SourceError(f"the data decides the size of output {name!r}, which is not measured here")
        dtype = dtype_of(self._trt, self._engine.get_tensor_dtype(name))
        if dtype is None:
            raise SourceError(f"output {name!r} has an element type that no contract can hold")
        array = np.empty(shape, numpy_dtype(dtype))
        on_host = self._on_host(name)
        self._context.set_tensor_address(
            name, array.ctypes.data if on_host else self._stream.memory(name, array.nbytes)
        )
        return array

    def _on_host(self, name: str) -> bool:
        return bool(self._engine.get_tensor_location(name) == self._trt.TensorLocation.HOST)


class PlanCandidate:
    """A plan as a candidate of the tuner; Triton needs no parameters for it.

    Args:
        path: The plan.
        trt: The library; ``tensorrt`` when None.
        name: Name among the candidates.
        precision: What it computes in: ``"fp32"`` for the model's own numbers.
    """

    def __init__(
        self, path: Path, trt: ModuleType | None = None, *, name: str = "tensorrt", precision: str = "fp32"
    ) -> None:
        self.name = name
        self.settings: Mapping[str, str] = {}
        self.precision = precision
        self.model_file: Path | None = None  # the file that all share is the plan
        self._plan = path
        self._trt = trt

    def open(self) -> Any:
        """A new runner.

        Raises:
            SourceError: If the library does not load the plan.
            UnavailableError: If there is no GPU.
        """
        return PlanRunner(self._plan, self._trt)
