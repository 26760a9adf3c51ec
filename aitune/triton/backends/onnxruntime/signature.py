"""A model's tensors as ONNX Runtime sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .failures import LoadError

__all__ = ["Signature", "Tensor", "read_signature"]

# BFLOAT16 is missing on purpose: neither this release's C++ backend nor a Python backend can carry it.
_TYPES = {
    "bool": "TYPE_BOOL",
    "uint8": "TYPE_UINT8",
    "uint16": "TYPE_UINT16",
    "uint32": "TYPE_UINT32",
    "uint64": "TYPE_UINT64",
    "int8": "TYPE_INT8",
    "int16": "TYPE_INT16",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "float16": "TYPE_FP16",
    "float": "TYPE_FP32",
    "double": "TYPE_FP64",
    "string": "TYPE_STRING",
}
_KINDS = {"seq": "ONNX_TYPE_SEQUENCE", "map": "ONNX_TYPE_MAP", "optional": "ONNX_TYPE_OPTIONAL"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output.

    Attributes:
        data_type: Name in a Triton config, None when there is none.
        shape: Sizes, -1 for every dynamic one; empty for a scalar and for a tensor of unknown rank.
    """

    data_type: str | None
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """All tensors of a model, by name, in the model's order.

    Attributes:
        inputs: Those that must be given.
        initializers: Those that have a value and may be given another one.
        outputs: The results.
    """

    inputs: Mapping[str, Tensor]
    initializers: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]


def read_signature(session: Any) -> Signature:
    """The signature of a session's model.

    Raises:
        LoadError: If any input or output is no dense tensor, whether the config mentions it or not.
    """
    return Signature(
        inputs=_tensors(session.get_inputs()),
        initializers=_tensors(session.get_overridable_initializers()),
        outputs=_tensors(session.get_outputs()),
    )


def _tensors(arguments: list[Any]) -> dict[str, Tensor]:
    return {argument.name: _tensor(argument) for argument in arguments}


def _tensor(argument: Any) -> Tensor:
    found = re.fullmatch(r"tensor\((\w+)\)", argument.type)
    if found is None:
        kind = _KINDS.get(argument.type.partition("(")[0], "ONNX_TYPE_SPARSETENSOR")
        raise LoadError(f"Unsupported ONNX Type '{kind}' for I/O '{argument.name}', expected 'ONNX_TYPE_TENSOR'.")
    shape = tuple(size if isinstance(size, int) and size >= 0 else -1 for size in argument.shape or ())
    return Tensor(_TYPES.get(found[1]), shape)
