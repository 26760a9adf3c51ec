"""Which samples are published with a version: none, those that were made up, or also those that a user recorded."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

from aitune.errors import ArtifactIntegrityError, UsageError
from aitune.records.artifact import Artifact
from aitune.records.evidence import Sample, SampleFile, SampleTensor
from aitune.triton.layout import SAMPLES

__all__ = ["KEEP_SAMPLES", "check_keep_samples", "keep_samples"]

KEEP_SAMPLES = ("none", "synthetic", "recorded")


def check_keep_samples(keep: str) -> None:
    """Refuse a choice that does not exist.

    Raises:
        UsageError: If ``keep`` is none of `KEEP_SAMPLES`.
    """
    if keep not in KEEP_SAMPLES:
        raise UsageError(f"keep_samples must be one of {', '.join(KEEP_SAMPLES)}, got {keep!r}")


def keep_samples(artifact: Artifact, keep: str) -> tuple[SampleFile | None, bytes]:
    """The index and the bytes of the samples to publish.

    Args:
        artifact: The record; its sample file lies beside the model.
        keep: ``"none"``, ``"synthetic"`` (a user's own data is left out) or ``"recorded"`` (all of them).

    Raises:
        ArtifactIntegrityError: If the sample file cannot be read or is not the recorded one.
    """
    file = artifact.evidence.samples if artifact.evidence is not None else None
    if file is None or keep == "none":
        return None, b""
    wanted = [sample for sample in file.samples if keep == "recorded" or sample.origin == "synthetic"]
    if not wanted:
        return None, b""
    data = _read(artifact.path.parent / file.name, file.fingerprint)
    kept, samples = bytearray(), []
    for sample in wanted:
        samples.append(_move(sample, data, kept))
    index = SampleFile(name=SAMPLES, fingerprint=hashlib.sha256(kept).hexdigest(), samples=tuple(samples))
    return index, bytes(kept)


def _move(sample: Sample, data: bytes, kept: bytearray) -> Sample:
    """Append the bytes of a sample to ``kept``; the sample with its new offsets."""

    def move(tensor: SampleTensor) -> SampleTensor:
        piece = data[tensor.offset : tensor.offset + tensor.nbytes]
        if len(piece) != tensor.nbytes:
            raise ArtifactIntegrityError(f"the sample file ends before tensor {tensor.name!r} of a sample does")
        offset = len(kept)
        kept.extend(piece)
        return dataclasses.replace(tensor, offset=offset)

    return dataclasses.replace(
        sample,
        inputs=tuple(move(tensor) for tensor in sample.inputs),
        outputs=tuple(move(tensor) for tensor in sample.outputs),
    )


def _read(path: Path, fingerprint: str) -> bytes:
    hint = "publish with --keep-samples none, or build again"
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise ArtifactIntegrityError(f"sample file {str(path)!r} cannot be read: {reason}", hint=hint) from error
    if hashlib.sha256(data).hexdigest() != fingerprint:
        raise ArtifactIntegrityError(f"sample file {str(path)!r} is not the recorded one", hint=hint)
    return data
