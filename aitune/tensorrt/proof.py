"""What is known of a plan once it is built: proved on it where there is a GPU, else carried over and marked so."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from aitune.errors import NumericsError
from aitune.numerics import check_probe, probe_request
from aitune.records.artifact import Artifact, ONNXArtifact, TensorRTPlanArtifact
from aitune.records.evidence import Batching, Evidence, InputDomain
from aitune.records.fingerprints import fingerprint_file
from aitune.records.interface import Interface
from aitune.records.plans import PlanFacts
from aitune.tensorrt.files import copy_beside
from aitune.tensorrt.options import BuildOptions
from aitune.tensorrt.runner import PlanCandidate, PlanRunner
from aitune.tuning.finish import finish
from aitune.tuning.progress import Progress
from aitune.tuning.shapes import Ranges, ShapeRange

__all__ = ["carry_over", "prove_plan", "ranges_of"]

Pairs = Sequence[tuple[str, str]]


def carry_over(
    source: ONNXArtifact, plan: Path, facts: PlanFacts, options: BuildOptions, provenance: Pairs, why: str
) -> TensorRTPlanArtifact:
    """The artifact of a plan that could not be run here: what was proved on the ONNX model, marked as such.

    Warm-up requests are not carried over, for one that fails can end a server; answers are, where the plan computes in
    the types of the model.

    Args:
        source: The ONNX model the plan was built from.
        plan: The plan.
        facts: What is known of it.
        options: How it was built.
        provenance: What to record.
        why: Why it could not be run.
    """
    before = source.evidence
    notes = [f"the plan was not run here ({why}): its record holds what was proved on the ONNX model it was built from"]
    same = options.precision == "model"
    evidence = Evidence(provenance=tuple(provenance), notes=tuple(notes))
    if before is not None:
        if not same:
            notes.append(f"no answers are kept: the plan computes in {options.precision}, the ONNX model did not")
        evidence = Evidence(
            batching=_said_of_the_model(before.batching),
            inputs=tuple(dataclasses.replace(domain, zeros_valid=False) for domain in before.inputs),
            probe=before.probe if same else None,
            samples=before.samples if same and _copy_samples(source, plan) else None,
            provenance=tuple(provenance),
            notes=(*notes, *before.notes),
        )
    return TensorRTPlanArtifact(
        path=plan,
        fingerprint=fingerprint_file(plan),
        inputs=source.inputs,
        outputs=source.outputs,
        evidence=evidence,
        plan=facts,
    )


def _said_of_the_model(batching: Batching | None) -> Batching | None:
    if batching is None:
        return None
    reason = batching.reason.strip().rstrip(".")
    return dataclasses.replace(batching, reason=f"{reason} (proved on the ONNX model the plan was built from)")


def _copy_samples(source: ONNXArtifact, plan: Path) -> bool:
    """Put the samples beside the plan; whether there are any."""
    found = source.evidence.samples if source.evidence is not None else None
    return found is not None and copy_beside(found.name, source.path.parent, plan.parent)


def prove_plan(
    trt: ModuleType,
    source: ONNXArtifact,
    plan: Path,
    interface: Interface,
    facts: PlanFacts,
    options: BuildOptions,
    provenance: Pairs,
    progress: Progress,
) -> TensorRTPlanArtifact:
    """The artifact of a plan that runs here: proved like any other model, and held against the ONNX model's answer.

    Raises:
        NumericsError: If it computes in the model's types and answers otherwise than the ONNX model.
        BatchingError: If the ONNX model batches and the plan does not.
    """
    notes = _agreement(trt, source, plan, options)
    made = finish(
        plan,
        interface,
        ranges_of(source),
        domains_of(source),
        [PlanCandidate(plan, trt)],
        requested_max_batch_size=source.max_batch_size or 0,
        tune=False,
        provenance=provenance,
        notes=notes,
        progress=progress,
    )
    return dataclasses.replace(_as_plan(made), plan=facts)


def _as_plan(made: Artifact) -> TensorRTPlanArtifact:
    if not isinstance(made, TensorRTPlanArtifact):
        raise TypeError(f"a plan must become a TensorRTPlanArtifact, got {type(made).__name__}")
    return made


def _agreement(trt: ModuleType, source: ONNXArtifact, plan: Path, options: BuildOptions) -> tuple[str, ...]:
    """Hold the plan against the golden probe of the ONNX model."""
    probe = source.evidence.probe if source.evidence is not None else None
    if probe is None:
        return ()
    runner = PlanRunner(plan, trt)
    try:
        found = check_probe(probe, runner.run(probe_request(probe, source.inputs)), source.outputs)
    finally:
        runner.close()
    if not found.agrees and options.precision == "model":
        raise NumericsError(
            f"the plan does not answer like the ONNX model it was built from: {found.detail}",
            hint="serve the ONNX model, or accept it with another precision if that is meant",
        )
    word = "agrees with" if found.agrees else f"differs ({options.precision}) from"
    return (f"the plan {word} the golden probe of the ONNX model: {found.detail}",)


def domains_of(source: Artifact) -> tuple[InputDomain, ...]:
    """The domains of the inputs; the largest shape is typical where nothing is known."""
    known = {domain.name: domain for domain in (source.evidence.inputs if source.evidence is not None else ())}
    return tuple(
        known.get(spec.name) or InputDomain(name=spec.name, typical_shape=spec.max_shape) for spec in source.inputs
    )


def ranges_of(source: Artifact) -> Ranges:
    """The shapes of a record, as a tuner takes them."""
    typical = {domain.name: domain.typical_shape for domain in domains_of(source)}
    return Ranges(
        inputs=tuple(
            ShapeRange(
                name=spec.name, min_shape=spec.min_shape, typical_shape=typical[spec.name], max_shape=spec.max_shape
            )
            for spec in source.inputs
        ),
        max_batch_size=source.max_batch_size,
    )
