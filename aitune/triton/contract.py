"""The contract that travels inside a config: enough of a record to be read back from a running server, and proved.

``parameters["aitune.record.N"]`` holds the contract of served version N as compact JSON of at most 16 KB: bounds, batch
axis, the identity over the model *and* its companions, and the golden probe. It names no path, no user, no host, and
carries no value of anybody's samples.

>>> from pathlib import Path
>>> from aitune.records import DType, ONNXArtifact, TunedTensorSpec
>>> spec = TunedTensorSpec("x", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4), 0)
>>> artifact = ONNXArtifact(path=Path("m.onnx"), fingerprint="0" * 64, inputs=(spec,), outputs=(spec,))
>>> parse_contract(contract_text(artifact)) == contract_of(artifact)
True
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aitune.errors import RecordError
from aitune.records import codec
from aitune.records.artifact import Artifact
from aitune.records.dtypes import DType
from aitune.records.evidence import Probe
from aitune.records.shapes import TunedTensorSpec
from aitune.triton.layout import PARAMETER_PREFIX

__all__ = [
    "LIMIT_BYTES",
    "PARAMETER_PREFIX",
    "SCHEMA_VERSION",
    "Contract",
    "contract_of",
    "contract_text",
    "contracts_in",
    "parameter_name",
    "parse_contract",
]

SCHEMA_VERSION = 1
LIMIT_BYTES = 16 * 1024
_VERDICTS = ("batched", "unbatched", "unproved")
_KEYS = ("schema_version", "format", "identity", "batching", "forms", "inputs", "outputs", "probe")
_FURTHER_KEYS = ("precision",)
"""Written only where they say something."""


@dataclass(frozen=True, slots=True)
class _Form:
    """All of a tensor contract but its name."""

    dtype: DType
    shape: tuple[int | str | None, ...]
    min_shape: tuple[int, ...]
    max_shape: tuple[int, ...]
    batch_axis: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a server says about the version it serves.

    Attributes:
        format: Format of the artifact, ``"onnx"`` or ``"tensorrt_plan"``.
        identity: SHA-256 over the model and its companions: what is *claimed*.
        batching: ``"batched"`` or ``"unbatched"`` when proved, ``"unproved"`` otherwise.
        inputs: Contracts of the inputs, in the file's order.
        outputs: Contracts of the outputs, in the file's order.
        probe: The golden probe, with which the claim can be *proved*; None when there is none.
        precision: What it computes in: ``"fp32"`` for the model's own numbers, else e.g. ``"int8"``.
    """

    format: str
    identity: str
    batching: str
    inputs: tuple[TunedTensorSpec, ...]
    outputs: tuple[TunedTensorSpec, ...]
    probe: Probe | None = None
    precision: str = "fp32"

    def __post_init__(self) -> None:
        if self.batching not in _VERDICTS:
            raise RecordError(f"batching of a contract must be one of {', '.join(_VERDICTS)}, got {self.batching!r}")
        if len(self.identity) != 64 or set(self.identity) - set("0123456789abcdef"):
            raise RecordError(f"identity of a contract must be 64 hexadecimal digits, got {self.identity!r}")


def parameter_name(version: int) -> str:
    """Key of the contract of a version in ``parameters``."""
    return f"{PARAMETER_PREFIX}{version}"


def contract_of(artifact: Artifact) -> Contract:
    """What of an artifact travels. The probe stays at home when all together would be over the limit."""
    evidence = artifact.evidence
    contract = Contract(
        format=artifact.format,
        identity=artifact.identity,
        batching=evidence.batching.verdict if evidence is not None and evidence.batching is not None else "unproved",
        inputs=artifact.inputs,
        outputs=artifact.outputs,
        probe=evidence.probe if evidence is not None else None,
        precision=artifact.precision,
    )
    if contract.probe is not None and len(dump_contract(contract)) > LIMIT_BYTES:
        return dataclasses.replace(contract, probe=None)
    return contract


def contract_text(artifact: Artifact) -> str:
    """The contract as compact JSON in ASCII, at most 16 KB.

    Raises:
        RecordError: If the tensors alone need more than that.
    """
    text = dump_contract(contract_of(artifact))
    if len(text) > LIMIT_BYTES:
        count = len(artifact.inputs) + len(artifact.outputs)
        raise RecordError(
            f"the contract of {count} tensors takes {len(text)} bytes, a config carries at most {LIMIT_BYTES}",
            hint="give the tensors shorter names, or split the model",
        )
    return text


def dump_contract(contract: Contract) -> str:
    """The JSON of a contract. Tensors that differ in name only share one form: caches have hundreds of them."""
    forms: dict[str, int] = {}

    def refer(spec: TunedTensorSpec) -> list[object]:
        data = [spec.dtype.value, spec.shape, spec.min_shape, spec.max_shape, spec.batch_axis]
        return [spec.name, forms.setdefault(_compact(data), len(forms))]

    inputs = [refer(spec) for spec in contract.inputs]
    outputs = [refer(spec) for spec in contract.outputs]
    data = {
        "schema_version": SCHEMA_VERSION,
        "format": contract.format,
        "identity": contract.identity,
        "batching": contract.batching,
        "forms": [json.loads(form) for form in forms],
        "inputs": inputs,
        "outputs": outputs,
        "probe": codec.dump(contract.probe),
        **({} if contract.precision == "fp32" else {"precision": contract.precision}),
    }
    return _compact(data)


def parse_contract(text: str) -> Contract:
    """A contract from the value of its parameter.

    Raises:
        RecordError: If it is not a contract, or was written by a newer schema.
    """
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise RecordError(f"the contract in the config is not JSON: {error}") from error
    if not isinstance(data, dict) or type(data.get("schema_version")) is not int:
        raise RecordError("the contract in the config has no schema_version")
    if data["schema_version"] > SCHEMA_VERSION:
        raise RecordError(
            f"the contract in the config has schema version {data['schema_version']}, "
            f"this aitune reads up to {SCHEMA_VERSION}",
            hint="upgrade aitune-triton",
        )
    return _load(data)


def contracts_in(config: Any) -> dict[int, Contract]:
    """The contracts in a ``ModelConfig`` message, by version.

    Raises:
        RecordError: If a parameter has the name of a contract and is none.
    """
    found = {}
    for key, parameter in config.parameters.items():
        number = key.removeprefix(PARAMETER_PREFIX)
        if number != key and number.isdecimal() and number.isascii():
            found[int(number)] = parse_contract(parameter.string_value)
    return dict(sorted(found.items()))


def _load(data: dict[str, Any]) -> Contract:
    wrong = (set(data) - set(_FURTHER_KEYS)) ^ set(_KEYS)
    if wrong:
        key = min(wrong)
        raise RecordError(f"the contract in the config {'lacks' if key in _KEYS else 'has the unknown'} key {key!r}")
    fields = [field.name for field in dataclasses.fields(_Form)]
    forms: list[_Form] = []
    for index, row in enumerate(_list(data["forms"], "forms")):
        where = f"contract.forms[{index}]"
        if not isinstance(row, list) or len(row) != len(fields):
            raise RecordError(f"{where} must be a list of {len(fields)}, got {row!r}")
        forms.append(codec.load(_Form, dict(zip(fields, row, strict=True)), where))
    return Contract(
        format=codec.load(str, data["format"], "contract.format"),
        identity=codec.load(str, data["identity"], "contract.identity"),
        batching=codec.load(str, data["batching"], "contract.batching"),
        inputs=_specs(data["inputs"], forms, "inputs"),
        outputs=_specs(data["outputs"], forms, "outputs"),
        probe=None if data["probe"] is None else codec.load(Probe, data["probe"], "contract.probe"),
        precision=codec.load(str, data.get("precision", "fp32"), "contract.precision"),
    )


def _specs(rows: object, forms: Sequence[_Form], field: str) -> tuple[TunedTensorSpec, ...]:
    specs = []
    for row in _list(rows, field):
        known = isinstance(row, list) and len(row) == 2 and type(row[1]) is int and 0 <= row[1] < len(forms)
        if not known:
            raise RecordError(f"contract.{field} must hold pairs of a name and a form, got {row!r}")
        form = forms[row[1]]
        specs.append(TunedTensorSpec(row[0], form.dtype, form.shape, form.min_shape, form.max_shape, form.batch_axis))
    return tuple(specs)


def _list(value: object, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise RecordError(f"contract.{field} must be a list, got {value!r}")
    return value


def _compact(data: object) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
