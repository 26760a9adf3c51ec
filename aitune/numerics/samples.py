"""The sample file: requests and their answers as Triton wire bytes, one tensor after the other.

The bytes stand in ``aitune_samples.bin`` beside the artifact; what lies where stands in the record
(:class:`~aitune.records.evidence.SampleFile`). The file is never larger than 1 MiB.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aitune.errors import ArtifactIntegrityError, UsageError
from aitune.numerics.dtypes import Array
from aitune.numerics.wire import from_wire, to_wire
from aitune.records import Artifact, TensorSpec
from aitune.records.evidence import SAMPLE_LABELS, Sample, SampleFile, SampleTensor
from aitune.records.fingerprints import write_atomically

__all__ = ["MAX_SAMPLE_BYTES", "SAMPLE_FILE_NAME", "Request", "read_sample", "read_samples", "write_samples"]

MAX_SAMPLE_BYTES = 1 << 20
"""Cap of a sample file, in bytes."""
SAMPLE_FILE_NAME = "aitune_samples.bin"

Tensors = dict[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """A request with the answer to it, in memory.

    Attributes:
        label: ``"smallest"``, ``"typical"`` or ``"largest"``.
        origin: ``"synthetic"`` or ``"recorded"``.
        inputs: What was sent, by name.
        outputs: What came back, by name.
    """

    label: str
    origin: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


def write_samples(
    folder: Path,
    name: str,
    requests: Sequence[Request],
    *,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    cap_bytes: int = MAX_SAMPLE_BYTES,
) -> SampleFile | None:
    """Write a sample file, atomically.

    Requests are taken whole while they fit under the cap: the smallest first, then the typical, then the largest ones,
    within a label in the given order; one that does not fit is left out.

    Args:
        folder: Where the artifact lies.
        name: Name of the file to write.
        requests: What to keep.
        inputs: Contracts of the inputs, for order and element types.
        outputs: Contracts of the outputs.
        cap_bytes: Largest size of the file.

    Returns:
        The index of the file; None, and no file is written, when no request fits.

    Raises:
        UsageError: If a request lacks a tensor, or a tensor does not hold what its contract says.
        OSError: If the file cannot be written.
    """
    content = bytearray()
    kept = []
    for request in sorted(requests, key=lambda request: SAMPLE_LABELS.index(request.label)):
        packed = [
            [(spec.name, to_wire(_tensor(tensors, spec), spec.dtype), tensors[spec.name].shape) for spec in specs]
            for tensors, specs in ((request.inputs, inputs), (request.outputs, outputs))
        ]
        if len(content) + sum(len(data) for side in packed for _, data, _ in side) > cap_bytes:
            continue
        sent, received = (_append(content, side) for side in packed)
        kept.append(Sample(label=request.label, origin=request.origin, inputs=sent, outputs=received))
    if not kept:
        return None
    write_atomically(folder / name, bytes(content))
    return SampleFile(name=name, fingerprint=hashlib.sha256(content).hexdigest(), samples=tuple(kept))


def read_sample(path: Path, sample: Sample, artifact: Artifact) -> tuple[Tensors, Tensors]:
    """Inputs and outputs of one sample.

    Args:
        path: The sample file.
        sample: One of those in the artifact's evidence.
        artifact: Its contract gives element types, its evidence the SHA-256 of the file.

    Raises:
        ArtifactIntegrityError: If the file cannot be read, or is not the one in the record.
    """
    return _unpack(_read(path, artifact), sample, artifact, path)


def read_samples(path: Path, artifact: Artifact) -> tuple[Request, ...]:
    """All samples of an artifact; none when its evidence has none.

    Args:
        path: The sample file.
        artifact: The record it belongs to.

    Raises:
        ArtifactIntegrityError: If the file cannot be read, or is not the one in the record.
    """
    if artifact.evidence is None or artifact.evidence.samples is None:
        return ()
    data = _read(path, artifact)
    found = []
    for sample in artifact.evidence.samples.samples:
        inputs, outputs = _unpack(data, sample, artifact, path)
        found.append(Request(label=sample.label, origin=sample.origin, inputs=inputs, outputs=outputs))
    return tuple(found)


def _tensor(tensors: Mapping[str, Array], spec: TensorSpec) -> Array:
    if spec.name not in tensors:
        raise UsageError(f"a sample lacks the tensor {spec.name!r}, it has {', '.join(map(repr, tensors))}")
    return tensors[spec.name]


def _append(content: bytearray, side: Iterable[tuple[str, bytes, tuple[int, ...]]]) -> tuple[SampleTensor, ...]:
    placed = []
    for name, data, shape in side:
        placed.append(SampleTensor(name=name, shape=shape, offset=len(content), nbytes=len(data)))
        content += data
    return tuple(placed)


def _read(path: Path, artifact: Artifact) -> bytes:
    """The bytes of the file that the record names."""
    index = artifact.evidence.samples if artifact.evidence is not None else None
    if index is None:
        raise UsageError(f"the record of {artifact.path.name!r} keeps no samples")
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ArtifactIntegrityError(f"sample file {str(path)!r} cannot be read: {reason}") from error
    found = hashlib.sha256(data).hexdigest()
    if found != index.fingerprint:
        raise ArtifactIntegrityError(
            f"sample file {str(path)!r} is not the recorded one: recorded sha256 {index.fingerprint[:12]}…, "
            f"found {found[:12]}…",
            hint="build the model again, or validate without samples",
        )
    return data


def _unpack(data: bytes, sample: Sample, artifact: Artifact, path: Path) -> tuple[Tensors, Tensors]:
    inputs, outputs = (
        {tensor.name: _slice(data, tensor, specs, path) for tensor in tensors}
        for tensors, specs in ((sample.inputs, artifact.inputs), (sample.outputs, artifact.outputs))
    )
    return inputs, outputs


def _slice(data: bytes, tensor: SampleTensor, specs: Sequence[TensorSpec], path: Path) -> Array:
    dtype = next((spec.dtype for spec in specs if spec.name == tensor.name), None)
    end = tensor.offset + tensor.nbytes
    if dtype is None or not 0 <= tensor.offset <= end <= len(data):
        problem = "no tensor of the contract" if dtype is None else f"bytes {tensor.offset}..{end} of {len(data)}"
        raise ArtifactIntegrityError(f"sample of tensor {tensor.name!r} in {str(path)!r} names {problem}")
    try:
        return from_wire(memoryview(data)[tensor.offset : end], dtype, tensor.shape)
    except UsageError as error:
        raise ArtifactIntegrityError(f"sample of tensor {tensor.name!r} in {str(path)!r}: {error}") from error
