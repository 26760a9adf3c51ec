"""Records as JSON: schema version 1 of ``aitune.json``.

One generic walk over the dataclasses serves every record, so a field cannot be forgotten on one side. What comes from
a file is data: it is checked while it is read, unknown keys are refused, and the records check their own values.

>>> from pathlib import Path
>>> from aitune.records import DType, ONNXArtifact, TunedTensorSpec
>>> spec = TunedTensorSpec("x", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4), 0)
>>> artifact = ONNXArtifact(path=Path("model.onnx"), fingerprint="0" * 64, inputs=(spec,), outputs=(spec,))
>>> load_artifact(dump_artifact(artifact), Path(".")) == artifact
True
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from aitune.errors import RecordError
from aitune.records.artifact import Artifact, Companion, ONNXArtifact, TensorRTPlanArtifact
from aitune.records.evidence import Evidence
from aitune.records.plans import PlanFacts
from aitune.records.shapes import TunedTensorSpec

__all__ = [
    "SCHEMA_VERSION",
    "Document",
    "dump",
    "dump_artifact",
    "dumps_document",
    "load",
    "load_artifact",
    "loads_document",
    "read_document",
]

SCHEMA_VERSION = 1
_ARTIFACTS: dict[str, type[Artifact]] = {kind.format: kind for kind in (Artifact, ONNXArtifact, TensorRTPlanArtifact)}
_ARTIFACT_KEYS = ("format", "file", "fingerprint", "inputs", "outputs", "companions", "evidence")
_PLAN_KEY = "plan"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What ``aitune.json`` holds.

    Attributes:
        artifact: The record; its path is the model file beside the document.
        config: Text of the config.pbtxt this version was published with; None before publication.
    """

    artifact: Artifact
    config: str | None = None


def dump(value: object) -> Any:
    """A record as JSON values: dataclasses become objects, tuples lists, enums their value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: dump(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [dump(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a record cannot hold {type(value).__name__} {value!r}")


def load(kind: type, data: object, where: str = "record") -> Any:
    """A record from JSON values; the exact inverse of :func:`dump`.

    Args:
        kind: The dataclass to make.
        data: JSON values.
        where: What to call it in an error.

    Raises:
        RecordError: If a key is missing or unknown, or a value is not one the field can hold.
    """
    return _load(kind, data, where)


def dump_artifact(artifact: Artifact) -> dict[str, Any]:
    """An artifact as a JSON object; of its path only the file name is kept."""
    data = {
        "format": artifact.format,
        "file": artifact.path.name,
        "fingerprint": artifact.fingerprint,
        "inputs": dump(artifact.inputs),
        "outputs": dump(artifact.outputs),
        "companions": dump(artifact.companions),
        "evidence": dump(artifact.evidence),
    }
    if isinstance(artifact, TensorRTPlanArtifact):
        data[_PLAN_KEY] = dump(artifact.plan)
    return data


def load_artifact(data: object, folder: Path) -> Artifact:
    """An artifact from a JSON object.

    Args:
        data: What :func:`dump_artifact` made.
        folder: Folder that holds the model file.

    Raises:
        RecordError: If it is not such an object.
    """
    is_plan = isinstance(data, Mapping) and data.get("format") == TensorRTPlanArtifact.format
    keys = (*_ARTIFACT_KEYS, _PLAN_KEY) if is_plan else _ARTIFACT_KEYS
    found = _object(data, keys, "artifact", frozenset({_PLAN_KEY}))
    kind = _ARTIFACTS.get(found["format"]) if isinstance(found["format"], str) else None
    if kind is None:
        raise RecordError(f"format of an artifact must be one of {', '.join(_ARTIFACTS)}, got {found['format']!r}")
    file = found["file"]
    if not isinstance(file, str) or not file or "/" in file or file in (".", ".."):
        raise RecordError(f"file of an artifact must be a plain file name, got {file!r}")
    specs = tuple[TunedTensorSpec, ...]
    more = {"plan": _load(PlanFacts | None, found.get(_PLAN_KEY), "artifact.plan")} if is_plan else {}
    return kind(
        path=folder / file,
        fingerprint=_load(str, found["fingerprint"], "artifact.fingerprint"),
        inputs=_load(specs, found["inputs"], "artifact.inputs"),
        outputs=_load(specs, found["outputs"], "artifact.outputs"),
        companions=_load(tuple[Companion, ...], found["companions"], "artifact.companions"),
        evidence=_load(Evidence | None, found["evidence"], "artifact.evidence"),
        **more,
    )


def dumps_document(document: Document) -> str:
    """The text of ``aitune.json``: stable key order, two blanks of indent, a final newline."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "artifact": dump_artifact(document.artifact),
        "config": document.config,
    }
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def loads_document(text: str, folder: Path) -> Document:
    """A document from its text.

    Args:
        text: What :func:`dumps_document` made.
        folder: Folder that holds the model file.

    Raises:
        RecordError: If it is not JSON, was written by a newer schema, or holds anything that is not a record.
    """
    data = _parse(text)
    if not isinstance(data, dict) or not isinstance(data.get("schema_version"), int):
        raise RecordError("aitune.json needs a schema_version", hint="give the file that aitune wrote")
    version = data["schema_version"]
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"aitune.json has schema version {version}, this aitune reads up to {SCHEMA_VERSION}",
            hint="upgrade aitune-triton",
        )
    if version != SCHEMA_VERSION:
        raise RecordError(f"aitune.json has schema version {version!r}, which never existed")
    found = _object(data, ("schema_version", "artifact", "config"), "aitune.json")
    return Document(
        artifact=load_artifact(found["artifact"], folder),
        config=_load(str | None, found["config"], "aitune.json.config"),
    )


def read_document(path: Path) -> Document:
    """The document in a file.

    Raises:
        RecordError: If it cannot be read, or is not such a document.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise RecordError(f"record {str(path)!r} cannot be read: {(reason or '').lower()}") from error
    try:
        return loads_document(text, path.parent)
    except (RecordError, TypeError) as error:
        hint = error.hint if isinstance(error, RecordError) else ""
        raise RecordError(f"record {str(path)!r} cannot be used: {error}", hint=hint) from error


def _parse(text: str) -> object:
    def refuse(word: str) -> object:
        raise RecordError(f"aitune.json holds {word}, which is not a JSON number")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise RecordError("aitune.json has a key twice in one object")
        return found

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except RecursionError as error:
        raise RecordError("aitune.json is nested too deeply") from error
    except RecordError:
        raise
    except ValueError as error:  # no JSON, or a number with more digits than Python converts
        raise RecordError(f"aitune.json is not JSON: {error}") from error


def _object(data: object, keys: tuple[str, ...], where: str, optional: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A JSON object with exactly these keys."""
    if not isinstance(data, Mapping):
        raise RecordError(f"{where} must be an object, got {data!r}")
    unknown = [key for key in data if key not in keys]
    if unknown:
        raise RecordError(f"{where} has the unknown key {unknown[0]!r}; known are {', '.join(keys)}")
    missing = [key for key in keys if key not in data and key not in optional]
    if missing:
        raise RecordError(f"{where} lacks the key {missing[0]!r}")
    return dict(data)


def _load(kind: Any, data: object, where: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _load_union(typing.get_args(kind), data, where)
    if origin is tuple:
        return _load_tuple(typing.get_args(kind), data, where)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _load_record(kind, data, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _load_enum(kind, data, where)
    return _load_scalar(kind, data, where)


def _load_record(kind: type, data: object, where: str) -> Any:
    fields = dataclasses.fields(kind)
    optional = frozenset(
        field.name
        for field in fields
        if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    )
    found = _object(data, tuple(field.name for field in fields), where, optional)
    hints = typing.get_type_hints(kind)
    return kind(**{name: _load(hints[name], value, f"{where}.{name}") for name, value in found.items()})


def _load_tuple(args: tuple[Any, ...], data: object, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise RecordError(f"{where} must be a list, got {data!r}")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_load(args[0], item, f"{where}[{index}]") for index, item in enumerate(data))
    if len(args) != len(data):
        raise RecordError(f"{where} must have {len(args)} entries, got {len(data)}")
    return tuple(_load(arg, item, f"{where}[{i}]") for i, (arg, item) in enumerate(zip(args, data, strict=True)))


def _load_union(args: tuple[Any, ...], data: object, where: str) -> Any:
    if data is None and type(None) in args:
        return None
    rest = [arg for arg in args if arg is not type(None)]
    if len(rest) == 1:
        return _load(rest[0], data, where)
    for arg in rest:
        if type(data) is arg:
            return data
    names = ", ".join(arg.__name__ for arg in rest)
    raise RecordError(f"{where} must be one of {names}, got {data!r}")


def _load_enum(kind: type[Enum], data: object, where: str) -> Enum:
    try:
        return kind(data)
    except ValueError as error:
        known = ", ".join(str(item.value) for item in kind)
        raise RecordError(f"{where} must be one of {known}, got {data!r}") from error


def _load_scalar(kind: type, data: object, where: str) -> Any:
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is float and not math.isfinite(data):
        raise RecordError(f"{where} must be finite, got {data!r}")
    if type(data) is not kind:
        raise RecordError(f"{where} must be of type {kind.__name__}, got {data!r}")
    return data
