"""The second half of making an artifact, the same for every frontend: a file goes in, a proved record comes out.

A frontend writes or finds the model file, describes its interface, knows ranges of shapes and values, and can open the
file in its runtime (:class:`~aitune.tuning.Candidate`). :func:`finish` does the rest: prove the batch, measure, see the
bounds of the outputs, make the golden probe and the samples, and write it all into one record.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from aitune.errors import SourceError, UsageError
from aitune.numerics import (
    Array,
    Tolerance,
    require_dtype,
    write_samples,
)
from aitune.numerics.processor import processor
from aitune.numerics.samples import MAX_SAMPLE_BYTES, SAMPLE_FILE_NAME
from aitune.records import Artifact, ONNXArtifact, TensorRTPlanArtifact, TensorSpec
from aitune.records.artifact import Companion
from aitune.records.evidence import Evidence, InputDomain
from aitune.records.fingerprints import fingerprint_file
from aitune.records.interface import Interface
from aitune.tuning.accuracy import Check
from aitune.tuning.admission import Ask
from aitune.tuning.candidate import Candidate, Launch, open_here
from aitune.tuning.contract import make_contract
from aitune.tuning.facts import machine_facts, model_facts
from aitune.tuning.keeping import KEEP_SAMPLES, keep
from aitune.tuning.measure import Clock
from aitune.tuning.ports import tensor_specs
from aitune.tuning.progress import SILENT, Progress
from aitune.tuning.settle import Job, Measuring, settle
from aitune.tuning.shapes import Ranges
from aitune.tuning.zeros import prove_zeros

__all__ = ["BATCH_CAP", "KEEP_SAMPLES", "finish"]

BATCH_CAP = 64
"""The largest batch that measuring may find by itself; a larger one must be asked for."""
_ARTIFACTS: dict[str, type[Artifact]] = {kind.format: kind for kind in (ONNXArtifact, TensorRTPlanArtifact)}

Tensors = Mapping[str, Array]


def finish(
    file: Path,
    interface: Interface,
    ranges: Ranges,
    domains: Sequence[InputDomain],
    candidates: Sequence[Candidate],
    *,
    requested_max_batch_size: int | None = None,
    tune: bool = True,
    objective: str = "throughput",
    seconds: float = 60.0,
    batch_cap: int = BATCH_CAP,
    p95_ms: float | None = None,
    check: Check | None = None,
    reference: Ask | None = None,
    tolerances: Mapping[str, Tolerance] | None = None,
    launch: Launch = open_here,
    cache: Path | None = None,
    facts: Mapping[str, object] | None = None,
    samples: Sequence[Tensors] = (),
    keep_samples: str = "synthetic",
    provenance: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
    clock: Clock = time.perf_counter,
    progress: Progress = SILENT,
) -> Artifact:
    """Make the artifact of a model file.

    The steps: one request at the typical shape; the proof of batching; unless ``tune`` is off, measuring, and the proof
    again if the largest batch changed; the smallest, typical and largest shapes, for the bounds of the outputs; zeros;
    the golden probe; the sample file beside the model.

    Args:
        file: The model file, in a folder that belongs to the caller: the sample file is written beside it.
        interface: What the runtime says of the file; its ``companions`` lie beside it.
        ranges: Shapes of every input, e.g. of :func:`~aitune.tuning.resolve_ranges`. Where batching is proved, the
            first axes become 1 to the largest batch.
        domains: Range of values of every input, e.g. of :func:`aitune.numerics.observe_domains`; typical shape and
            ``zeros_valid`` are set here.
        candidates: Ways to run the file, simplest first; the first is the baseline, and the only one opened without
            ``tune``.
        requested_max_batch_size: The largest batch, exactly; 0 for none; None to let it be found, up to
            ``ranges.max_batch_size``, else ``batch_cap`` (without ``tune`` it is ``ranges.max_batch_size``, else 8).
        tune: Whether to measure.
        objective: ``"throughput"`` or ``"latency"``.
        seconds: Budget of the measuring, in seconds.
        batch_cap: Largest batch that measuring may find by itself.
        p95_ms: Time within which 95 % of the runs must end, in milliseconds.
        check: The user's own check of a candidate's answers.
        reference: The source model itself, whose answers candidates must give; the first candidate's by default.
        tolerances: Wider tolerances by output, for the proof and the comparison.
        launch: Opens a candidate for measuring, e.g. in a process of its own.
        cache: Folder of journals, see :class:`aitune.tuning.journal.Journal`; None to remember nothing.
        facts: What else decides the measurements, e.g. the version of the runtime, for the key of the journal.
        samples: Recorded requests, arrays by input name.
        keep_samples: ``"none"``, ``"synthetic"`` or ``"recorded"``.
        provenance: (key, value) pairs to record; versions, machine class and the origin of the samples are added.
        notes: Lines a person should read.
        clock: Tells the time while measuring.
        progress: Told of every step.

    Returns:
        An :class:`ONNXArtifact` or :class:`TensorRTPlanArtifact` whose evidence holds verdict, measurements and probe.

    Raises:
        BatchingError: If a batch was requested and batching was not proved.
        SourceError: If the model cannot be served, does not run at a shape of the ranges, or a sample does not fit.
        UsageError: If an option makes no sense.
        OSError: If the sample file cannot be written.
    """
    _check_options(interface, candidates, requested_max_batch_size, keep_samples)
    job = Job(
        inputs=tensor_specs(interface.inputs, "input"),
        outputs=tensor_specs(interface.outputs, "output"),
        domains=tuple(domains),
        candidates=tuple(candidates),
        requested=requested_max_batch_size,
        progress=progress,
        tolerances=tolerances or {},
    )
    _check_samples(job.inputs, samples)
    job = dataclasses.replace(job, samples=tuple({spec.name: one[spec.name] for spec in job.inputs} for one in samples))
    measuring = Measuring(
        objective=objective,
        seconds=seconds,
        batch_cap=batch_cap,
        clock=clock,
        p95_ms=p95_ms,
        check=check,
        reference=reference,
        launch=launch,
        cache=cache,
        facts={**model_facts(file, interface), **machine_facts(), **(facts or {})} if tune and cache else {},
    )
    with ExitStack() as stack:
        found = settle(job, ranges, measuring if tune else None, stack)
        contract = make_contract(
            job.inputs, job.outputs, found.observations, batch_axis=None if found.max_batch_size is None else 0
        )
        progress.start("asking the golden probe and keeping samples", None)
        marked = prove_zeros(found.runner, job.outputs, _typical(job.domains, found.ranges), found.warm_ups)
        probe, requests, remarks = keep(found, contract, marked, samples, keep_samples)
        progress.done()
    own = found.winner.model_file
    chosen, companions = (file, interface.companions) if own is None else (own, ())
    index = write_samples(chosen.parent, SAMPLE_FILE_NAME, requests, inputs=contract.inputs, outputs=contract.outputs)
    if requests and index is None:
        remarks += (f"no sample is kept: the smallest request is larger than {MAX_SAMPLE_BYTES >> 20} MiB",)
    return _ARTIFACTS[interface.format](
        path=chosen,
        fingerprint=fingerprint_file(chosen),
        inputs=contract.inputs,
        outputs=contract.outputs,
        companions=tuple(Companion(name=name, fingerprint=fingerprint_file(file.parent / name)) for name in companions),
        evidence=Evidence(
            batching=found.batching,
            inputs=marked,
            probe=probe,
            samples=index,
            tuning=found.tuning,
            provenance=_provenance(provenance, samples),
            notes=(*notes, *found.notes, *_busy(tune), *contract.notes, *remarks),
        ),
    )


def _check_options(
    interface: Interface, candidates: Sequence[Candidate], requested: int | None, keep_samples: str
) -> None:
    if interface.format not in _ARTIFACTS:
        raise UsageError(f"a model of format {interface.format!r} has no artifact; known are {', '.join(_ARTIFACTS)}")
    if not candidates:
        raise UsageError("tuning needs at least one candidate, got none")
    if requested is not None and requested < 0:
        raise UsageError(f"max_batch_size must be 0 or more, got {requested}", hint="0 turns batching off")
    if keep_samples not in KEEP_SAMPLES:
        raise UsageError(f"keep_samples must be one of {', '.join(KEEP_SAMPLES)}, got {keep_samples!r}")


def _check_samples(inputs: Sequence[TensorSpec], samples: Sequence[Tensors]) -> None:
    for index, sample in enumerate(samples):
        for spec in inputs:
            if spec.name not in sample:
                raise SourceError(f"sample {index} lacks input {spec.name!r}, it has {', '.join(map(repr, sample))}")
            try:
                require_dtype(sample[spec.name], spec.dtype, f"input {spec.name!r}")
            except UsageError as error:
                raise SourceError(f"sample {index} does not fit: {error}") from error


def _typical(domains: Sequence[InputDomain], ranges: Ranges) -> tuple[InputDomain, ...]:
    """The domains, their typical shapes within the final ranges."""
    shapes = ranges.shapes("typical")
    return tuple(
        dataclasses.replace(domain, typical_shape=shapes[domain.name]) for domain in domains if domain.name in shapes
    )


def _busy(tune: bool) -> tuple[str, ...]:
    """A note when so much else ran that the measurements say more about the machine than about the model."""
    load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if not tune or load <= 2 * cpus:
        return ()
    return (f"the machine was busy while it was measured: load {load:.0f} on {cpus} processors",)


def _provenance(given: Sequence[tuple[str, str]], samples: Sequence[Tensors]) -> tuple[tuple[str, str], ...]:
    """What was given, and what this room knows: never a path, a user or a host."""
    mine = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cpu": processor(),
        "cpus": str(len(os.sched_getaffinity(0))),
        "samples": "recorded" if samples else "synthetic",
    }
    return (*given, *((key, value) for key, value in mine.items() if key not in dict(given)))
