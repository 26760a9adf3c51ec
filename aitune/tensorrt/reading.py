"""A plan that somebody else built: described by its record, or by the engine where one can be loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from aitune.errors import ArtifactIntegrityError, BatchingError, SourceError, UnavailableError, UsageError
from aitune.numerics.domains import observe_domains
from aitune.records.artifact import TensorRTPlanArtifact
from aitune.records.codec import read_document
from aitune.records.fingerprints import copy_hashed, fingerprint_file
from aitune.records.interface import Interface, Port
from aitune.records.plans import PlanFacts, PlanHeader, Profile
from aitune.records.shapes import TensorSpec
from aitune.tensorrt.cuda import compute_capability, device_problem
from aitune.tensorrt.engine import engine_facts, engine_interface, open_engine
from aitune.tensorrt.files import make_workspace
from aitune.tensorrt.header import read_header
from aitune.tensorrt.library import load_tensorrt
from aitune.tensorrt.making import PLAN_FILE
from aitune.tensorrt.runner import PlanCandidate
from aitune.tuning.finish import finish
from aitune.tuning.ports import tensor_specs
from aitune.tuning.progress import SILENT, Progress
from aitune.tuning.shapes import Ranges, ShapeRange, resolve_ranges

__all__ = ["describe", "find_record", "profile_ranges", "tune"]

RECORD = "aitune.json"
Shapes = Mapping[str, Sequence[int]]


def describe(path: Path, *, trt: ModuleType | None = None) -> Interface:
    """What a plan declares: its record says so where one lies beside it, else the engine, where it can be loaded.

    Args:
        path: The plan.
        trt: The library; the one the header names when None.

    Raises:
        SourceError: If it is no plan, or the library does not load it.
        ArtifactIntegrityError: If the record beside it is another plan's.
        UnavailableError: If there is no record and no GPU.
    """
    header = read_header(path)
    record = find_record(path)
    if record is not None:
        return _recorded(record)
    return _open(path, header, trt)[0]


def find_record(path: Path) -> TensorRTPlanArtifact | None:
    """The record beside a plan, or None.

    Raises:
        ArtifactIntegrityError: If it is the record of another file of that name.
        RecordError: If it cannot be read.
    """
    place = path.parent / RECORD
    if not place.is_file():
        return None
    artifact = read_document(place).artifact
    if not isinstance(artifact, TensorRTPlanArtifact):
        return None
    files = {artifact.path.name: artifact.fingerprint, **{one.name: one.fingerprint for one in artifact.companions}}
    if path.name not in files:
        return None
    if fingerprint_file(path) != files[path.name]:
        raise ArtifactIntegrityError(
            f"{str(path)!r} is not the plan of the record beside it", hint="restore the plan, or remove aitune.json"
        )
    return artifact


def tune(
    path: Path,
    *,
    min_shapes: Shapes | None = None,
    opt_shapes: Shapes | None = None,
    max_shapes: Shapes | None = None,
    max_batch_size: int | None = None,
    samples: Sequence[Mapping[str, Any]] = (),
    keep_samples: str = "synthetic",
    tune: bool = True,
    tune_seconds: float = 60.0,
    objective: str = "throughput",
    trt: ModuleType | None = None,
    workspace: Path | None = None,
    progress: Progress = SILENT,
) -> TensorRTPlanArtifact:
    """The artifact of a plan file: its record where one lies beside it, else proved by running it.

    Args:
        path: The plan.
        min_shapes: Smallest full shape by input; the profiles' when None. The same for the next two.
        opt_shapes: Typical full shape by input.
        max_shapes: Largest full shape by input.
        max_batch_size: The largest batch, exactly; 0 for none; None for the profile's.
        samples: Recorded requests, arrays by input name.
        keep_samples: ``"none"``, ``"synthetic"`` or ``"recorded"``.
        tune: Whether to measure.
        tune_seconds: Budget of measuring, in seconds.
        objective: ``"throughput"`` or ``"latency"``.
        trt: The library; the one the header names when None.
        workspace: Folder for a copy of the plan; None for a new one in the cache.
        progress: Told of every step.

    Raises:
        SourceError: If it is no plan, or does not load or run.
        UnavailableError: If there is no record and no GPU.
        BatchingError: If a batch was demanded and is not there.
    """
    header = read_header(path)
    record = find_record(path)
    if record is not None:
        if max_batch_size and (record.max_batch_size or 0) < max_batch_size:
            raise BatchingError(
                f"a batch of {max_batch_size} was demanded, the record proves {record.max_batch_size or 'none'}"
            )
        return record
    interface, facts = _open(path, header, trt)
    inputs = tensor_specs(interface.inputs, "input")
    ranges = _ranges(facts.profiles, inputs, min_shapes, opt_shapes, max_shapes)
    plan = make_workspace(workspace) / PLAN_FILE
    if plan.resolve() != path.resolve():
        expected = fingerprint_file(path)
        copy_hashed(path, plan, lambda found: _same(path, expected, found))
    made = finish(
        plan,
        interface,
        ranges,
        observe_domains(inputs, ranges.shapes("typical"), samples),
        [PlanCandidate(plan, trt)],
        requested_max_batch_size=max_batch_size,
        tune=tune,
        seconds=tune_seconds,
        objective=objective,
        samples=samples,
        keep_samples=keep_samples,
        provenance=[
            ("source", "plan"),
            (facts.builder, facts.version),
            ("compute_capability", facts.compute_capability),
        ],
        progress=progress,
    )
    if not isinstance(made, TensorRTPlanArtifact):
        raise TypeError(f"a plan must become a TensorRTPlanArtifact, got {type(made).__name__}")
    return dataclasses.replace(made, plan=facts)


def profile_ranges(profiles: Sequence[Profile]) -> Ranges:
    """The shapes that the profiles of a plan allow together: the smallest, the first one's best, the largest."""
    first = profiles[0]
    found = []
    for index, item in enumerate(first.inputs):
        all_of_it = [profile.inputs[index] for profile in profiles]
        low = tuple(map(min, zip(*(part.min for part in all_of_it), strict=True)))
        high = tuple(map(max, zip(*(part.max for part in all_of_it), strict=True)))
        found.append(ShapeRange(name=item.name, min_shape=low, typical_shape=item.opt, max_shape=high))
    return Ranges(inputs=tuple(found), max_batch_size=max(profile.max_batch_size for profile in profiles) or None)


def _ranges(
    profiles: Sequence[Profile],
    inputs: Sequence[TensorSpec],
    min_shapes: Shapes | None,
    opt_shapes: Shapes | None,
    max_shapes: Shapes | None,
) -> Ranges:
    if any(item.values for profile in profiles for item in profile.inputs):
        raise UsageError(
            "the plan has shape tensors, whose values nobody can guess",
            hint="build the plan from its ONNX model and samples, which writes its record",
        )
    if not (min_shapes or opt_shapes or max_shapes):
        return profile_ranges(profiles)
    allowed = profile_ranges(profiles).inputs
    return resolve_ranges(
        inputs,
        min_shapes={**{item.name: item.min_shape for item in allowed}, **(min_shapes or {})},
        typical_shapes=opt_shapes,
        max_shapes={**{item.name: item.max_shape for item in allowed}, **(max_shapes or {})},
    )


def _open(path: Path, header: PlanHeader, trt: ModuleType | None) -> tuple[Interface, PlanFacts]:
    problem = device_problem()
    if problem:
        raise UnavailableError(
            f"plan {str(path)!r} has no record beside it, and cannot be loaded here: {problem}",
            hint="put the aitune.json of its build beside it, or run this on the machine it was built for",
        )
    trt = trt if trt is not None else load_tensorrt(header.builder)
    engine = open_engine(trt, path.read_bytes(), path.name)
    return engine_interface(trt, engine), engine_facts(trt, engine, header, compute_capability())


def _recorded(artifact: TensorRTPlanArtifact) -> Interface:
    facts = artifact.plan
    return Interface(
        format=artifact.format,
        inputs=tuple(Port(name=spec.name, dtype=spec.dtype, shape=spec.shape) for spec in artifact.inputs),
        outputs=tuple(Port(name=spec.name, dtype=spec.dtype, shape=spec.shape) for spec in artifact.outputs),
        producer=f"{facts.builder} {facts.version}" if facts is not None else "",
        source="record",
    )


def _same(path: Path, expected: str, found: str) -> None:
    if found != expected:
        raise SourceError(f"{str(path)!r} changed while it was copied", hint="run it again when it is complete")
