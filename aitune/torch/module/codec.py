"""Sample metadata as plain data that JSON can hold, and back.

What JSON lacks is written as ``{"$": kind, …}``. What cannot be written down at all becomes a named placeholder, which
equals the value it stands for wherever values of that kind are compared by what can be said about them.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Set
from pathlib import PurePath
from typing import Any

import torch

from aitune.errors import RecordError
from aitune.torch.module.batch_axes import NAN
from aitune.torch.module.containers import AccessPath, ObjectType
from aitune.torch.module.errors import MissingFieldError
from aitune.torch.module.json_values import Json
from aitune.torch.module.leaf_values import Placeholder, is_array_scalar, opaque, type_name
from aitune.torch.module.locator import Locator
from aitune.torch.module.tensor_spec import TensorSpec
from aitune.torch.module.tensors import OtherData, TensorData

__all__ = ["VERSION", "decode_value", "encode_value", "read_metadata", "write_metadata"]

FORMAT = "aitune.sample_metadata"
VERSION = 1

_TAG = "$"
_TORCH_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format)


def write_metadata(tensors: TensorData, others: OtherData, strict: bool, phase: str | None) -> dict[str, Any]:
    """Metadata as lists, dicts with str keys, str, int, finite float, bool and None."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "tensor_data": [{**_write_place(locator), "spec": _write_spec(spec)} for locator, spec in tensors],
        "other_data": [{**_write_place(locator), "value": encode_value(value)} for locator, value in others],
        "strict": strict,
        "llm_phase": phase,
    }


def read_metadata(state: Mapping[str, Any]) -> tuple[TensorData, OtherData, bool, str | None]:
    """What :func:`write_metadata` wrote, in the order of its arguments.

    Raises:
        MissingFieldError: If a field is missing.
        RecordError: If the data is of another kind, pickled, malformed, or of a newer version.
    """
    fields = [_field(state, name) for name in ("tensor_data", "other_data", "strict", "llm_phase")]
    if any(isinstance(field, (bytes, bytearray)) for field in fields):
        raise RecordError(
            "stored sample metadata must be plain data, found pickled bytes, which are never loaded",
            hint="observe the module again and store the new metadata",
        )
    if _field(state, "format") != FORMAT:
        raise RecordError(f"stored sample metadata must have the format {FORMAT!r}, found {state['format']!r}")
    version = _field(state, "version")
    if version != VERSION:
        raise RecordError(
            f"sample metadata of version {VERSION} can be read, found version {version!r}",
            hint="update aitune, or observe the module again",
        )
    try:
        tensors = tuple((_read_place(entry), _read_spec(entry["spec"])) for entry in fields[0])
        others = tuple((_read_place(entry), decode_value(entry["value"])) for entry in fields[1])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise RecordError(
            f"stored sample metadata is malformed, found {error!r} while reading it",
            hint="observe the module again and store the new metadata",
        ) from error
    return tensors, others, bool(fields[2]), fields[3]


def encode_value(value: object) -> Json:
    """A leaf as JSON, tagged where JSON has no such value."""
    if value is None or type(value) in (bool, int, str):
        return value  # type: ignore[return-value]  # one of the types of the line above
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_TAG: "float", "value": repr(float(value))}
    encoded = _encode_scalar(value)
    return _encode_container(value) if encoded is None else encoded


def decode_value(data: Any) -> object:
    """The leaf that :func:`encode_value` wrote."""
    if not isinstance(data, dict):
        return data
    kind = data[_TAG]
    if kind == "placeholder":
        return Placeholder(data["kind"], data["type_name"], data["detail"])
    return _READERS[kind](data["value"])


def _encode_scalar(value: object) -> Json:
    """A tagged scalar, None for everything else."""
    if isinstance(value, complex):
        return {_TAG: "complex", "value": [encode_value(value.real), encode_value(value.imag)]}
    if isinstance(value, bytes):
        return {_TAG: "bytes", "value": base64.b64encode(value).decode("ascii")}
    if isinstance(value, _TORCH_CONSTANTS):
        return {_TAG: "torch", "value": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {_TAG: "device", "value": str(value)}
    if isinstance(value, PurePath):
        return {_TAG: "path", "value": str(value)}
    if is_array_scalar(value):
        item: object = value.item()  # type: ignore[attr-defined]  # every numpy scalar has it
        return None if is_array_scalar(item) else encode_value(item)
    if isinstance(value, (int, str)):
        return int(value) if isinstance(value, int) else str.__str__(value)
    return None


def _encode_container(value: object) -> Json:
    """A tagged container of plain type, a placeholder for everything else."""
    cls = type(value)
    if cls in (list, tuple, set, frozenset, torch.Size):
        parts = [encode_value(part) for part in value]  # type: ignore[attr-defined]  # these can be iterated
        kind = "tuple" if cls is torch.Size else cls.__name__
        return {_TAG: kind, "value": sorted(parts, key=repr) if isinstance(value, Set) else parts}
    if cls is dict:
        items = value.items()  # type: ignore[attr-defined]  # a dict by the line above
        return {_TAG: "dict", "value": [[encode_value(key), encode_value(part)] for key, part in items]}
    if cls in (range, slice):
        bounds = [value.start, value.stop, value.step]  # type: ignore[attr-defined]  # both have them
        return {_TAG: cls.__name__, "value": [encode_value(bound) for bound in bounds]}
    known = opaque(value) or Placeholder("object", type_name(cls))
    return {_TAG: "placeholder", "kind": known.kind, "type_name": known.type_name, "detail": known.detail}


def _decode_all(data: list[Any]) -> list[object]:
    return [decode_value(part) for part in data]


def _read_torch(name: str) -> object:
    constant = getattr(torch, name, None)
    if not isinstance(constant, _TORCH_CONSTANTS):
        raise ValueError(f"torch has no constant {name!r}")
    return constant


_READERS: dict[str, Any] = {
    "float": float,
    "complex": lambda data: complex(*map(float, _decode_all(data))),  # type: ignore[arg-type]  # two floats, or it raises
    "bytes": lambda data: base64.b64decode(data, validate=True),
    "torch": _read_torch,
    "device": torch.device,
    "path": PurePath,
    "list": _decode_all,
    "tuple": lambda data: tuple(_decode_all(data)),
    "set": lambda data: set(_decode_all(data)),
    "frozenset": lambda data: frozenset(_decode_all(data)),
    "dict": lambda data: {decode_value(key): decode_value(part) for key, part in data},
    "range": lambda data: range(*data),
    "slice": lambda data: slice(*_decode_all(data)),
}


def _write_place(locator: Locator) -> dict[str, Any]:
    path = [[encode_value(accessor), int(kind)] for accessor, kind in locator.access_path]
    return {"path": path, "is_output": locator.is_output}


def _read_place(entry: Mapping[str, Any]) -> Locator:
    path: AccessPath = tuple((decode_value(accessor), ObjectType(kind)) for accessor, kind in entry["path"])
    return Locator(path, entry["is_output"])


def _write_spec(spec: TensorSpec) -> dict[str, Any]:
    state = spec.to_dict()
    state["dtype"] = encode_value(spec.dtype)
    state["_bs_multipliers"] = [None if ratio != ratio else ratio for ratio in spec._bs_multipliers]
    if "_dtypes" in state:
        state["_dtypes"] = [encode_value(dtype) for dtype in state["_dtypes"]]
    return state


def _read_spec(state: Mapping[str, Any]) -> TensorSpec:
    plain = {**state, "dtype": decode_value(state["dtype"])}
    plain["_bs_multipliers"] = [NAN if ratio is None else ratio for ratio in state["_bs_multipliers"]]
    if "_dtypes" in state:
        plain["_dtypes"] = _decode_all(state["_dtypes"])
    return TensorSpec.from_dict(plain)


def _field(state: Mapping[str, Any], name: str) -> Any:
    if name not in state:
        raise MissingFieldError(f"stored sample metadata must have the field {name!r}, found {sorted(state)}")
    return state[name]
