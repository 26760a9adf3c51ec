"""Several plans of one model, one for each kind of GPU, as one artifact."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from aitune.errors import SourceError, UsageError
from aitune.records.artifact import Companion, TensorRTPlanArtifact
from aitune.records.fingerprints import copy_hashed, fingerprint_file
from aitune.records.plans import PlanFacts, PlanVariant
from aitune.tensorrt.files import copy_beside, make_workspace
from aitune.tensorrt.header import read_header
from aitune.tensorrt.reading import find_record

__all__ = ["bundle", "parse_capability"]


def parse_capability(text: str) -> str:
    """A compute capability from ``"sm80"``, ``"80"`` or ``"8.0"``.

    Raises:
        UsageError: If it is none.

    >>> parse_capability("sm120"), parse_capability("8.9")
    ('12.0', '8.9')
    """
    digits = text.strip().lower().removeprefix("sm_").removeprefix("sm").replace(".", "")
    if not (digits.isdecimal() and digits.isascii() and 2 <= len(digits) <= 3):
        raise UsageError(f"{text!r} is not a compute capability", hint="write it like sm80 or 8.0")
    return f"{int(digits[:-1])}.{digits[-1]}"


def bundle(
    artifact: TensorRTPlanArtifact, plans: Mapping[str, Path], *, workspace: Path | None = None
) -> TensorRTPlanArtifact:
    """An artifact whose plan depends on the GPU that serves it.

    A GPU that none of the plans is for gets the artifact's own one, which is what Triton does.

    Args:
        artifact: One of the plans with its record.
        plans: Further plans by compute capability, e.g. ``{"9.0": Path("h100.plan")}``; what a record beside one says
            of its tensors and profiles must be what the artifact's says.
        workspace: Folder for copies; None for a new one in the cache.

    Returns:
        The artifact with the further plans as companions.

    Raises:
        SourceError: If a file is no plan, or the plan of another model.
        UsageError: If two plans are for the same GPU, or nobody knows which GPU the artifact's own plan is for.
    """
    facts = artifact.plan
    if facts is None or not facts.compute_capability:
        raise UsageError(
            f"nobody wrote down which GPU {artifact.path.name!r} is for",
            hint="build it with aitune, which records that",
        )
    folder = make_workspace(workspace)
    artifact.export_file(folder / artifact.path.name)
    if artifact.evidence is not None and artifact.evidence.samples is not None:
        copy_beside(artifact.evidence.samples.name, artifact.path.parent, folder)
    own = PlanVariant(compute_capability=facts.compute_capability, file="", version=facts.version)
    variants, companions = [own], list(artifact.companions)
    for capability, path in plans.items():
        if capability in [variant.compute_capability for variant in variants]:
            raise UsageError(f"there are two plans for compute capability {capability}")
        variant, companion = _add(artifact, facts, capability, path, folder)
        variants.append(variant)
        companions.append(companion)
    return dataclasses.replace(
        artifact,
        path=folder / artifact.path.name,
        companions=tuple(companions),
        plan=dataclasses.replace(facts, variants=tuple(variants)),
    )


def _add(
    artifact: TensorRTPlanArtifact, facts: PlanFacts, capability: str, path: Path, folder: Path
) -> tuple[PlanVariant, Companion]:
    header = read_header(path)
    if header.builder != facts.builder:
        raise SourceError(f"{str(path)!r} is a plan of {header.builder}, the others are of {facts.builder}")
    record = find_record(path)
    if record is not None:
        _demand_same(artifact, record, path, capability)
    name = f"model_sm{capability.replace('.', '')}.plan"
    fingerprint = fingerprint_file(path)
    copy_hashed(path, folder / name, partial(_demand_copied, path, fingerprint))
    version = header.version or facts.version
    return (
        PlanVariant(compute_capability=capability, file=name, version=version),
        Companion(name=name, fingerprint=fingerprint),
    )


def _demand_same(artifact: TensorRTPlanArtifact, other: TensorRTPlanArtifact, path: Path, capability: str) -> None:
    """Every plan of a bundle serves the same requests."""
    sides: Sequence[tuple[str, object, object]] = (
        ("inputs", artifact.inputs, other.inputs),
        ("outputs", artifact.outputs, other.outputs),
        ("profiles", artifact.plan and artifact.plan.profiles, other.plan and other.plan.profiles),
        ("tensors", artifact.plan and artifact.plan.tensors, other.plan and other.plan.tensors),
    )
    for what, mine, theirs in sides:
        if mine != theirs:
            raise SourceError(
                f"{str(path)!r} has other {what} than {artifact.path.name!r}: one config cannot serve both",
                hint="build both from the same ONNX artifact with the same options",
            )
    built_for = other.plan.compute_capability if other.plan is not None else ""
    if built_for not in ("", capability):
        raise SourceError(f"{str(path)!r} was built for compute capability {built_for}, not for {capability}")


def _demand_copied(path: Path, expected: str, found: str) -> None:
    if found != expected:
        raise SourceError(f"{str(path)!r} changed while it was copied", hint="run it again when it is complete")
