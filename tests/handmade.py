"""Artifacts made by hand: small ONNX files with known answers, and the evidence a tuner would have left."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aitune.records import DType, ONNXArtifact, TunedTensorSpec
from aitune.records.artifact import Companion
from aitune.records.evidence import (
    Batching,
    Evidence,
    InputDomain,
    Probe,
    ProbeOutput,
    Sample,
    SampleFile,
    SampleTensor,
    Tuning,
)

ONNX_TYPES = {
    DType.BOOL: 9,
    DType.UINT8: 2,
    DType.INT8: 3,
    DType.INT16: 5,
    DType.INT32: 6,
    DType.INT64: 7,
    DType.FLOAT16: 10,
    DType.FLOAT32: 1,
    DType.FLOAT64: 11,
    DType.UINT16: 4,
    DType.UINT32: 12,
    DType.UINT64: 13,
    DType.BFLOAT16: 16,
    DType.STRING: 8,
}


def sha256(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def scale_file(path: Path, factor: float, *, external: str | None = None) -> Path:
    """Write ``y = x * factor`` over (batch, 4) floats; the factor in a companion file if one is named."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.full(4, factor, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "scale",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if external is not None:
        (path.parent / external).parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(
        model,
        path,
        save_as_external_data=external is not None,
        location=external,
        size_threshold=0,
    )
    return path


def identity_file(path: Path, specs: Sequence[TunedTensorSpec]) -> Path:
    """Write a model that gives every input back, as output ``<name>_out``."""
    import onnx
    from onnx import helper

    nodes, inputs, outputs = [], [], []
    for spec in specs:
        kind = ONNX_TYPES[spec.dtype]
        nodes.append(helper.make_node("Identity", [spec.name], [f"{spec.name}_out"]))
        inputs.append(helper.make_tensor_value_info(spec.name, kind, list(spec.shape)))
        outputs.append(helper.make_tensor_value_info(f"{spec.name}_out", kind, list(spec.shape)))
    graph = helper.make_graph(nodes, "identity", inputs, outputs)
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def rows(name: str, dtype: DType = DType.FLOAT32, *sizes: int | str, most: int = 8) -> TunedTensorSpec:
    """A contract over ``("batch", *sizes)`` with the batch on axis 0; symbols run from 2 to 16."""
    shape = ("batch", *sizes)
    low = tuple(1 if size == "batch" else 2 if isinstance(size, str) else size for size in shape)
    high = tuple(most if size == "batch" else 16 if isinstance(size, str) else size for size in shape)
    return TunedTensorSpec(name, dtype, shape, low, high, 0)


def whole(name: str, dtype: DType = DType.FLOAT32, *shape: int | str) -> TunedTensorSpec:
    """A contract without a batch axis; symbols run from 2 to 16."""
    low = tuple(2 if isinstance(size, str) else size for size in shape)
    high = tuple(16 if isinstance(size, str) else size for size in shape)
    return TunedTensorSpec(name, dtype, shape, low, high)


def domain(spec: TunedTensorSpec, *, zeros_valid: bool = True) -> InputDomain:
    """What values of an input look like; the typical shape is one row, or the smallest."""
    return InputDomain(name=spec.name, typical_shape=spec.min_shape, low=0.0, high=1.0, zeros_valid=zeros_valid)


def evidence(
    inputs: Sequence[TunedTensorSpec], /, *, batched: bool = True, reason: str = "", **fields: object
) -> Evidence:
    """Evidence as a tuner leaves it."""
    reason = reason or ("rows are independent at batch sizes 1, 3 and 8" if batched else "output 'y' has no batch")
    found = Evidence(
        batching=Batching(verdict="batched" if batched else "unbatched", reason=reason),
        inputs=tuple(domain(spec) for spec in inputs),
    )
    return dataclasses.replace(found, **fields)


def record(
    inputs: Sequence[TunedTensorSpec],
    outputs: Sequence[TunedTensorSpec],
    *,
    path: Path = Path("model.onnx"),
    proof: Evidence | None = None,
) -> ONNXArtifact:
    """A record of a file that need not exist."""
    return ONNXArtifact(path=path, fingerprint="ab" * 32, inputs=tuple(inputs), outputs=tuple(outputs), evidence=proof)


def of_file(path: Path, inputs: Sequence[TunedTensorSpec], outputs: Sequence[TunedTensorSpec]) -> ONNXArtifact:
    """The record of a file that exists, with evidence."""
    return ONNXArtifact(
        path=path,
        fingerprint=sha256(path),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        evidence=evidence(inputs, batched=all(spec.batch_axis == 0 for spec in (*inputs, *outputs))),
    )


def scale(folder: Path, factor: float, *, external: str | None = None) -> ONNXArtifact:
    """The artifact ``y = x * factor`` in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = scale_file(folder / "scale.onnx", factor, external=external)
    found = of_file(path, [rows("x", DType.FLOAT32, 4)], [rows("y", DType.FLOAT32, 4)])
    if external is None:
        return found
    companion = Companion(name=external, fingerprint=sha256(folder / external))
    return dataclasses.replace(found, companions=(companion,))


def fake(folder: Path, content: bytes = b"weights", *, companions: Sequence[str] = ()) -> ONNXArtifact:
    """An artifact over bytes that are no model: publishing never looks into them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "some.onnx"
    path.write_bytes(content)
    for name in companions:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"more " + content)
    found = of_file(path, [rows("x", DType.FLOAT32, 4)], [rows("y", DType.FLOAT32, 4)])
    return dataclasses.replace(
        found, companions=tuple(Companion(name=name, fingerprint=sha256(folder / name)) for name in companions)
    )


def with_samples(artifact: ONNXArtifact, origins: Sequence[str] = ("synthetic", "recorded")) -> ONNXArtifact:
    """The artifact with a sample file beside it: one request a given origin, each filled with its own byte."""
    data, samples = b"", []
    for index, origin in enumerate(origins):
        places = []
        for name in ("x", "y"):
            places.append(SampleTensor(name=name, shape=(1, 4), offset=len(data), nbytes=16))
            data += bytes([index + 1]) * 16
        samples.append(Sample(label="typical", origin=origin, inputs=(places[0],), outputs=(places[1],)))
    path = artifact.path.parent / "aitune_samples.bin"
    path.write_bytes(data)
    file = SampleFile(name=path.name, fingerprint=sha256(path), samples=tuple(samples))
    assert artifact.evidence is not None
    return dataclasses.replace(artifact, evidence=dataclasses.replace(artifact.evidence, samples=file))


def probe(inputs: Sequence[TunedTensorSpec], outputs: Sequence[TunedTensorSpec], *, count: int = 4) -> Probe:
    """A golden probe with ``count`` made-up values for each output."""
    return Probe(
        seed=7,
        inputs=tuple(domain(spec) for spec in inputs),
        outputs=tuple(
            ProbeOutput(name=spec.name, shape=spec.min_shape, stride=1, values=tuple(0.5 + i for i in range(count)))
            for spec in outputs
        ),
    )


def tuning(**settings: str) -> Tuning:
    """What a tuner measured, with the winner's settings."""
    return Tuning(
        objective="throughput",
        winner="two threads",
        reason="1834/s at batch 8 against 1201/s",
        settings=tuple(settings.items()),
    )
