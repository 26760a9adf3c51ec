"""Running an ONNX file: the runner that tuning is handed."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from aitune.errors import SourceError, UsageError
from aitune.numerics.dtypes import Array, numpy_dtype, require_dtype
from aitune.onnx.element_types import dtype_of, element_number, parse_runtime_type
from aitune.onnx.runtime import Values, open_session, session_options, session_values, telling_line
from aitune.records.dtypes import DType

__all__ = ["OnnxRunner"]


class OnnxRunner:
    """One session of an ONNX file.

    BFLOAT16 tensors are ``uint16`` arrays of the raw bits and strings are object arrays of ``bytes``, as everywhere in
    aitune. Inputs with an initializer may be left out.

    Args:
        path: The model file, with its external data beside it.
        settings: Triton ``parameters``, see :func:`aitune.onnx.runtime.session_options`.
        device: ``"cpu"`` or ``"cuda"``.

    Attributes:
        input_dtypes: Element types of the inputs by name, those with an initializer too.
        output_dtypes: The same for outputs.

    Raises:
        SourceError: If ONNX Runtime refuses the model, or a tensor has a type that no array can hold.
        UsageError: If a setting does not exist or has a bad value.
        UnavailableError: If this ONNX Runtime has no such device or provider, or it does not start.
    """

    def __init__(self, path: Path, settings: Mapping[str, str] | None = None, *, device: str = "cpu") -> None:
        options = session_options(settings or {})
        options.add_session_config_entry("session.force_spinning_stop", "1")  # other candidates are open meanwhile
        self._path = Path(path)
        self._session: Any = open_session(self._path, None, options, device=device, settings=settings)
        inputs, outputs, initializers = session_values(self._session)
        self._required = tuple(inputs)
        self._inputs = self._dtypes(inputs | initializers, "input")
        self._outputs = self._dtypes(outputs, "output")
        self.input_dtypes: Mapping[str, DType] = self._inputs
        self.output_dtypes: Mapping[str, DType] = self._outputs
        held = {*self._inputs.values(), *self._outputs.values()}
        self._as_values = DType.BFLOAT16 in held
        if self._as_values and DType.STRING in held:
            raise SourceError(
                f"model {str(self._path)!r} has both BFLOAT16 and STRING tensors, "
                "and ONNX Runtime's Python interface cannot pass them together",
                hint="cast BFLOAT16 inputs and outputs to FLOAT32 before exporting",
            )

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Every output of the model, by name.

        Args:
            inputs: Every input by name, full shapes.

        Raises:
            SourceError: If ONNX Runtime refuses the request or fails on it, or text is not UTF-8.
            UsageError: If inputs are missing or unknown, an array has the wrong type, or the runner is closed.
        """
        self._check_names(inputs)
        held = {name: self._held(name, array) for name, array in inputs.items()}
        names = list(self._outputs)
        try:
            found = self._run_values(names, held) if self._as_values else self._session.run(names, held)
        except UnicodeDecodeError as error:
            raise SourceError("the model put out text that is not UTF-8") from error
        except Exception as error:  # the boundary to a foreign session: its errors have no common base
            raise SourceError(f"the model failed: {telling_line(str(error))}") from error
        return {name: self._given(array, self._outputs[name]) for name, array in zip(names, found, strict=True)}

    def close(self) -> None:
        """Free the session; a second call does nothing."""
        self._session = None

    def _dtypes(self, values: Values, what: str) -> dict[str, DType]:
        found = {}
        for name, (text, _) in values.items():
            kind, word = parse_runtime_type(text)
            dtype = dtype_of(word) if kind == "tensor" else None
            if dtype is None:
                raise SourceError(f"{what} {name!r} of {str(self._path)!r} is a {text}, which no array can hold")
            found[name] = dtype
        return found

    def _check_names(self, inputs: Mapping[str, Array]) -> None:
        if self._session is None:
            raise UsageError(f"the runner of {str(self._path)!r} is closed")
        missing = [name for name in self._required if name not in inputs]
        unknown = [name for name in inputs if name not in self._inputs]
        if missing or unknown:
            fault = f"lacks input {missing[0]!r}" if missing else f"has the unknown input {unknown[0]!r}"
            raise UsageError(f"a request to the model {fault}", hint=f"its inputs are: {', '.join(self._inputs)}")

    def _held(self, name: str, array: Array) -> Array:
        """The array in the form ONNX Runtime takes: native byte order, contiguous, strings as text."""
        dtype = self._inputs[name]
        require_dtype(np.asarray(array), dtype, f"input {name!r}")
        if dtype is DType.STRING:
            return _map_objects(array, lambda item: _decode(name, item))
        return np.asarray(array, dtype=numpy_dtype(dtype), order="C")

    def _given(self, array: Any, dtype: DType) -> Array:
        if dtype is DType.STRING:
            return _map_objects(array, lambda item: str(item).encode())
        return np.asarray(array)

    def _run_values(self, names: list[str], inputs: Mapping[str, Array]) -> list[Array]:
        """The same through ``OrtValue``: the only way to hand over or receive BFLOAT16."""
        values = {name: _value(array, self._inputs[name]) for name, array in inputs.items()}
        return [_array(value) for value in self._session.run_with_ort_values(names, values)]


def _map_objects(array: Array, convert: Any) -> Array:
    converted = np.empty(np.size(array), dtype=object)
    converted[:] = [convert(item) for item in np.asarray(array, dtype=object).ravel()]
    return converted.reshape(np.shape(array))


def _decode(name: str, item: object) -> str:
    """Text for one element of a string tensor."""
    if not isinstance(item, bytes):
        raise UsageError(f"input {name!r} must hold bytes, got {type(item).__name__}")
    try:
        return item.decode()
    except UnicodeDecodeError as error:
        raise SourceError(f"input {name!r} holds text that is not UTF-8: {item[:20]!r}") from error


def _value(array: Array, dtype: DType) -> Any:
    if dtype is DType.BFLOAT16:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, element_number(dtype))
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _array(value: Any) -> Array:
    """An array with the content of a value on the CPU."""
    if value.data_type() != "tensor(bfloat16)":
        return np.asarray(value.numpy())
    shape = tuple(value.shape())
    bits = ctypes.string_at(value.data_ptr(), 2 * math.prod(shape))
    return np.frombuffer(bits, dtype=np.uint16).reshape(shape)
