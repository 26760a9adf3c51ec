"""What a config must say of a TensorRT plan beyond tensors: profiles, files by GPU, CUDA graphs (rules §6)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from aitune.errors import RecordError, UsageError
from aitune.records.artifact import Artifact, TensorRTPlanArtifact
from aitune.records.dtypes import DType
from aitune.records.plans import PlanFacts, PlanTensor, Profile
from aitune.records.shapes import TunedTensorSpec
from aitune.triton.compatibility import warnings_of
from aitune.triton.plan_batching import BatchPlan
from aitune.triton.plan_tensors import PlannedTensor
from aitune.triton.releases import Release

__all__ = [
    "EnginePlan",
    "GraphSpec",
    "engine_warnings",
    "facts_of",
    "limit_by_profiles",
    "mark_tensors",
    "plan_engine",
    "select_profiles",
]

_LINEAR_DIMS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSpec:
    """One CUDA graph to capture.

    Attributes:
        batch_size: Rows; 0 for a model without a batch (R283).
        dims: Shape of each input in the plan's order, without the batch.
    """

    batch_size: int
    dims: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """The part of a config that only a TensorRT plan has.

    Attributes:
        platform: Triton's word for a plan; without it the fields of §6 are refused (R93, R94, R115).
        profiles: Optimisation profiles that instances hold; empty leaves it to Triton, which takes the first.
        files: (compute capability, file) pairs where there are several plans.
        graphs: CUDA graphs to capture; none when they are not wanted.
        graph_note: Why there are none although they were wanted, ``""`` otherwise.
        loads_in: Who wrote the plan, for a comment; ``""`` when nobody knows.
    """

    platform: str = "tensorrt_plan"
    profiles: tuple[int, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    graphs: tuple[GraphSpec, ...] = ()
    graph_note: str = ""
    loads_in: str = ""


def facts_of(artifact: Artifact) -> PlanFacts | None:
    """What is known of the plan of an artifact; None for another format, or when nobody wrote it down."""
    return artifact.plan if isinstance(artifact, TensorRTPlanArtifact) else None


def select_profiles(facts: PlanFacts, asked: tuple[int, ...]) -> tuple[int, ...]:
    """The profiles that are served: those asked for, else all.

    Raises:
        UsageError: If the plan has no such profile (R280).
    """
    count = len(facts.profiles)
    for index in asked:
        if not 0 <= index < count:
            raise UsageError(f"profile {index} was asked for, the plan has {count}, numbered from 0")
    return tuple(dict.fromkeys(asked)) or tuple(range(count))


def limit_by_profiles(batching: BatchPlan, facts: PlanFacts | None, asked: tuple[int, ...]) -> BatchPlan:
    """No more than the smallest of the largest batches of the profiles, and none where one does not take one row.

    Triton takes a profile for each batch as it comes, so that what every profile holds is always served (R199, R294).

    Args:
        batching: What record and wish allow.
        facts: What is known of the plan.
        asked: Profiles by request.
    """
    if facts is None or batching.max_batch_size == 0:
        return batching
    for index in select_profiles(facts, asked):
        profile = facts.profiles[index]
        if profile.min_batch_size != 1:
            reason = f"No batching: profile {index} of the plan needs at least {profile.min_batch_size} rows."
            return BatchPlan(max_batch_size=0, reason=reason, warning=batching.warning)
        if profile.max_batch_size < batching.max_batch_size:
            reason = f"{batching.reason} Profile {index} of the plan holds {profile.max_batch_size}."
            batching = dataclasses.replace(batching, max_batch_size=profile.max_batch_size, reason=reason)
    return batching


def mark_tensors(
    tensors: Sequence[PlannedTensor], specs: Sequence[TunedTensorSpec], facts: PlanFacts | None, *, release: Release
) -> tuple[PlannedTensor, ...]:
    """The tensors with the words that only a plan needs: shape tensors and vectorised layouts.

    Raises:
        RecordError: If no config of that release can say it (R84, R95, R264, R265, R270).
    """
    if facts is None:
        return tuple(tensors)
    return tuple(
        _mark(tensor, spec, facts.tensor(spec.name), release) for tensor, spec in zip(tensors, specs, strict=True)
    )


def _mark(tensor: PlannedTensor, spec: TunedTensorSpec, known: PlanTensor, release: Release) -> PlannedTensor:
    if known.shape_tensor:
        _check_shape_tensor(spec, release)
    if not known.linear:
        _check_vectorised(tensor, known, release)
    return dataclasses.replace(tensor, shape_tensor=known.shape_tensor, non_linear=not known.linear)


def _check_shape_tensor(spec: TunedTensorSpec, release: Release) -> None:
    if not spec.shape:
        raise RecordError(
            f"tensor {spec.name!r} is a scalar that decides shapes, and a config has no word for that",
            hint="give it one axis of size 1 in the model",
        )
    if spec.dtype is DType.INT64 and not release.has("tensorrt_int64_shape_input"):
        raise RecordError(
            f"tensor {spec.name!r} decides shapes and is int64, which Triton takes from 24.07 on, "
            f"not in {release.name}",
            hint="publish for a newer server (--triton 24.07), or make it int32 in the model",
        )


def _check_vectorised(tensor: PlannedTensor, known: PlanTensor, release: Release) -> None:
    if not release.knows_field("ModelInput.is_non_linear_format_io"):
        raise RecordError(
            f"tensor {tensor.name!r} has the layout {known.format}, which Triton takes from 24.08 on, "
            f"not in {release.name}",
            hint="publish for a newer server (--triton 24.08), or build the plan with row-major inputs and outputs",
        )
    if len(tensor.dims) != _LINEAR_DIMS:
        raise RecordError(
            f"tensor {tensor.name!r} has the layout {known.format} and {len(tensor.dims)} dims: Triton takes 3",
            hint="build the plan with row-major inputs and outputs",
        )


def plan_engine(
    artifact: TensorRTPlanArtifact, *, max_batch_size: int, profiles: tuple[int, ...], cuda_graphs: bool
) -> EnginePlan:
    """The part of a config that only a plan has.

    Args:
        artifact: The plan and its record.
        max_batch_size: Of the config.
        profiles: Profiles by request; all when empty.
        cuda_graphs: Whether CUDA graphs are wanted.
    """
    facts = artifact.plan
    if facts is None:
        note = "the record does not say which shapes the plan holds" if cuda_graphs else ""
        return EnginePlan(graph_note=note)
    selected = select_profiles(facts, profiles)
    graphs, note = _graphs(artifact, facts, selected, max_batch_size) if cuda_graphs else ((), "")
    target = f" for compute capability {facts.compute_capability}" if facts.compute_capability else ""
    return EnginePlan(
        profiles=selected,
        files=tuple((item.compute_capability, item.file) for item in facts.variants),
        graphs=graphs,
        graph_note=note,
        loads_in=f"Built by {facts.builder} {facts.version}{target}." if facts.version else "",
    )


def engine_warnings(facts: PlanFacts | None, release: Release) -> tuple[str, ...]:
    """What a person should know who publishes the plan for a release."""
    if facts is None:
        return ("the record does not say who built the plan: whether a server loads it is not known",)
    return warnings_of(facts, release.name)


def _graphs(
    artifact: TensorRTPlanArtifact, facts: PlanFacts, selected: tuple[int, ...], max_batch_size: int
) -> tuple[tuple[GraphSpec, ...], str]:
    """Graphs for one row and the largest batch at the typical shape, or why there are none."""
    for tensor in facts.tensors:
        if tensor.shape_tensor:
            return (), f"tensor {tensor.name!r} decides shapes, which a CUDA graph cannot follow"
    domains = {item.name: item for item in (artifact.evidence.inputs if artifact.evidence is not None else ())}
    shapes = {
        spec.name: domains[spec.name].typical_shape if spec.name in domains else spec.max_shape
        for spec in artifact.inputs
    }
    batches = tuple(sorted({1, max_batch_size})) if max_batch_size else (0,)
    graphs = []
    for batch in batches:
        full = {name: (batch, *shape[1:]) if batch else shape for name, shape in shapes.items()}
        if any(_holds(facts.profiles[index], full) for index in selected):
            dims = tuple(shape[1:] if batch else shape for shape in full.values())
            graphs.append(GraphSpec(batch_size=batch, dims=dims))
    return tuple(graphs), "" if graphs else "no profile holds the typical shape"


def _holds(profile: Profile, shapes: dict[str, tuple[int, ...]]) -> bool:
    return all(
        len(item.min) == len(shapes[item.name])
        and all(low <= size <= high for low, size, high in zip(item.min, shapes[item.name], item.max, strict=True))
        for item in profile.inputs
        if item.name in shapes
    )
