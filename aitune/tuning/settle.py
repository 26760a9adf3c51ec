"""From ranges that a user hopes for to what was proved, measured and seen: the verdict, the winner, the shapes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from aitune.errors import BatchingError, SourceError
from aitune.numerics import Array, Tolerance
from aitune.numerics.tolerance import REDUCED
from aitune.records import TensorSpec
from aitune.records.evidence import Batching, InputDomain, Tuning
from aitune.tuning.accuracy import Check, Judge
from aitune.tuning.admission import Ask
from aitune.tuning.batching import prove_batching
from aitune.tuning.candidate import Candidate, Launch, open_here
from aitune.tuning.choose import Choice, Goal, choose
from aitune.tuning.contract import Observation, observe, run_checked
from aitune.tuning.facts import digests
from aitune.tuning.journal import Journal, journal_key
from aitune.tuning.measure import Clock
from aitune.tuning.progress import Progress
from aitune.tuning.rows import Rows
from aitune.tuning.runner import Runner
from aitune.tuning.shapes import DEFAULT_MAX_BATCH_SIZE, Ranges

__all__ = ["Job", "Measuring", "Settled", "settle"]

LABELS = ("typical", "smallest", "largest")
_SEED = 10
_MOST_TELLING = 2
"""So many recorded samples are part of the comparison of answers."""
_RECORDED_ONLY = "the model refuses made-up values: it was proved and measured on the samples, cut or repeated to size"
_FIRST_AXIS_ATTEMPTS = (1, 2, 3, 4, DEFAULT_MAX_BATCH_SIZE)
"""Sizes to try on a first axis that nobody named and that cannot be 1 to 8."""

Tensors = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What stays the same on the way; see :func:`aitune.tuning.finish`."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    domains: tuple[InputDomain, ...]
    candidates: tuple[Candidate, ...]
    requested: int | None
    progress: Progress
    samples: tuple[Tensors, ...] = ()
    made_up: bool = True
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)

    @property
    def rows(self) -> Rows:
        """Where the values of requests come from."""
        return Rows(inputs=self.inputs, domains=self.domains, samples=self.samples, made_up=self.made_up)

    def request(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, Array]:
        """A request of these shapes."""
        return self.rows.request(shapes, _SEED)

    def allowed(self, candidate: Candidate) -> Mapping[str, Tolerance]:
        """How far outputs may differ, by name: wider for a candidate that computes in fewer bits."""
        reduced = REDUCED.get(candidate.precision)
        if reduced is None:
            return self.tolerances
        return {spec.name: reduced.tolerance for spec in self.outputs if spec.dtype.is_floating}

    @property
    def free_first(self) -> tuple[str, ...]:
        """Inputs whose first axis is dynamic."""
        return tuple(spec.name for spec in self.inputs if spec.shape and not isinstance(spec.shape[0], int))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """How to measure; see :func:`aitune.tuning.choose` and :func:`aitune.tuning.finish`."""

    objective: str
    seconds: float
    batch_cap: int
    clock: Clock
    p95_ms: float | None = None
    check: Check | None = None
    reference: Ask | None = None
    launch: Launch = open_here
    cache: Path | None = None
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settled:
    """What is certain now.

    Attributes:
        runner: The open winner.
        winner: The candidate that it is.
        batching: The verdict.
        max_batch_size: Largest batch; None when batching was not proved.
        tuning: What was measured; None when nothing was.
        ranges: Final shapes of the inputs.
        observations: Requests of those shapes with their answers.
        warm_ups: Requests at the typical shape: one row and the largest batch, or the only one.
        made_up: Whether the values of requests are made up; else they are those of the user's samples.
        notes: Lines a person should read.
    """

    runner: Runner
    winner: Candidate
    batching: Batching
    max_batch_size: int | None
    tuning: Tuning | None
    ranges: Ranges
    observations: tuple[Observation, ...]
    warm_ups: tuple[Tensors, ...]
    made_up: bool
    notes: tuple[str, ...]


def settle(job: Job, ranges: Ranges, measuring: Measuring | None, stack: ExitStack) -> Settled:
    """Prove, measure, prove again, and see the shapes.

    Args:
        job: The model and its candidates.
        ranges: Shapes that are hoped for.
        measuring: How to measure, None for not at all.
        stack: Closes what is opened here.

    Raises:
        BatchingError: If a batch was requested and batching was not proved.
        SourceError: If the model does not run at a shape of the ranges.
    """
    baseline = _open(job.candidates[0], stack)
    job, ranges = _first_request(job, baseline, ranges)
    largest = job.requested or ranges.max_batch_size or max(DEFAULT_MAX_BATCH_SIZE, _sent(job, ranges))
    found = _Verdict(runner=baseline, batching=_verdict(job, baseline, ranges, largest), largest=largest)
    if measuring is not None:
        found = _measure(job, ranges, found, measuring, stack)
    batch = found.largest if found.batching.proved else None
    if batch is not None:
        typical = ranges.inputs[0].typical_shape[0]
        ranges = ranges.with_first_axis(job.free_first, 1, min(typical, batch), batch)
    job.progress.start("running the smallest, the typical and the largest shape", None)
    ranges, observations = _observe(job, found.runner, ranges, batch)
    job.progress.done()
    rows = (None,) if batch is None else tuple(sorted({1, batch}))
    return Settled(
        runner=found.runner,
        winner=job.candidates[found.winner],
        batching=found.batching,
        max_batch_size=batch,
        tuning=found.tuning,
        ranges=ranges,
        observations=observations,
        warm_ups=tuple(job.request(ranges.shapes("typical", batch=size)) for size in rows),
        made_up=job.made_up,
        notes=(*found.notes, *(() if job.made_up else (_RECORDED_ONLY,))),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Verdict:
    """A verdict on one runner, for batches up to ``largest``."""

    runner: Runner
    batching: Batching
    largest: int
    winner: int = 0
    tuning: Tuning | None = None
    notes: tuple[str, ...] = ()


def _open(candidate: Candidate, stack: ExitStack) -> Runner:
    runner = candidate.open()
    stack.callback(runner.close)
    return runner


def _sent(job: Job, ranges: Ranges) -> int:
    """Largest first axis that users are known to send."""
    if ranges.guessed or len(job.free_first) != len(job.inputs):
        return 1
    return max((item.max_shape[0] for item in ranges.inputs), default=1)


def _first_request(job: Job, runner: Runner, ranges: Ranges) -> tuple[Job, Ranges]:
    """A request that runs: made up, else put together from the samples, whose values may belong together."""
    try:
        return job, _first_run(job, runner, ranges)
    except SourceError:
        if not job.samples:
            raise
    job = dataclasses.replace(job, made_up=False)
    return job, _first_run(job, runner, ranges)


def _first_run(job: Job, runner: Runner, ranges: Ranges) -> Ranges:
    """Make sure that the model runs; where the first axis is a guess, find a size at which it does."""
    if not ranges.guessed:
        run_checked(runner, job.request(ranges.shapes("typical")), job.outputs, "at its typical shape")
        return ranges
    problems = []
    for size in _FIRST_AXIS_ATTEMPTS:
        tried = ranges.with_first_axis(job.free_first, size, size, size)
        try:
            run_checked(runner, job.request(tried.shapes("typical")), job.outputs, "at its typical shape")
        except SourceError as error:
            problems.append(error)
            continue
        return ranges.with_first_axis(job.free_first, 1, size, max(size, DEFAULT_MAX_BATCH_SIZE))
    raise problems[0]


def _verdict(job: Job, runner: Runner, ranges: Ranges, largest: int) -> Batching:
    if job.requested == 0:
        return Batching(verdict="unbatched", reason="max_batch_size 0 was asked for")
    batching = _prove(job, job.candidates[0], runner, ranges, largest)
    if job.requested and not batching.proved:
        raise BatchingError(
            f"max_batch_size {job.requested} was asked for, but the model does not batch: {batching.reason}",
            hint="leave max_batch_size out to serve it without batching, or change the model",
        )
    return batching


def _prove(job: Job, candidate: Candidate, runner: Runner, ranges: Ranges, largest: int) -> Batching:
    return prove_batching(
        runner,
        job.inputs,
        job.outputs,
        job.domains,
        ranges,
        max_batch_size=largest,
        tolerances=job.allowed(candidate),
        samples=job.samples,
        made_up=job.made_up,
        progress=job.progress,
    )


def _measure(job: Job, ranges: Ranges, found: _Verdict, measuring: Measuring, stack: ExitStack) -> _Verdict:
    """Choose the largest batch and the winner, and prove the batch again where either is new."""
    goal = Goal(
        objective=measuring.objective,
        p95_ms=measuring.p95_ms,
        batched=found.batching.proved,
        limit=job.requested or ranges.max_batch_size or max(measuring.batch_cap, found.largest),
        fixed_batch=bool(job.requested),
        least_batch=_sent(job, ranges),
        seconds=measuring.seconds,
    )
    batch = 1 if found.batching.proved else None
    shapes = {label: ranges.shapes(label, batch) for label in LABELS}
    choice = choose(
        job.candidates,
        lambda rows, label="typical", /: job.request(ranges.shapes(label, batch=rows)),
        job.outputs,
        goal,
        judge=Judge(job.outputs, measuring.check, job.tolerances),
        reference=measuring.reference,
        samples=_telling_samples(job, ranges),
        labels=[label for label in LABELS if label == "typical" or shapes[label] != shapes["typical"]],
        launch=measuring.launch,
        journal=Journal(measuring.cache, journal_key(_facts(job, ranges, goal, measuring))),
        clock=measuring.clock,
        progress=job.progress,
    )
    runner = _open(job.candidates[choice.winner], stack) if choice.winner else found.runner
    largest = choice.max_batch_size or found.largest
    measured = dataclasses.replace(found, runner=runner, winner=choice.winner, tuning=choice.tuning)
    if not found.batching.proved or (not choice.winner and largest == found.largest):
        return measured
    again = _prove(job, job.candidates[choice.winner], runner, ranges, largest)
    if again.proved:
        return dataclasses.replace(measured, batching=again, largest=largest)
    return _retreat(job, found, choice, largest, again)


def _retreat(job: Job, found: _Verdict, choice: Choice, largest: int, again: Batching) -> _Verdict:
    """The winner, or the batch that was found, did not stand the proof: back to what did."""
    if choice.winner:
        name = job.candidates[0].name
        tuning = dataclasses.replace(
            choice.tuning,
            winner=name,
            settings=tuple(job.candidates[0].settings.items()),
            reason=f"{name!r}, because {choice.tuning.winner!r}, which was chosen by speed, does not batch",
            rejected=(*choice.tuning.rejected, (choice.tuning.winner, f"does not batch: {again.reason}")),
        )
        return dataclasses.replace(found, tuning=tuning, largest=min(largest, found.largest))
    if largest > found.largest:
        note = f"batches over {found.largest} are not allowed: {again.reason}"
        return dataclasses.replace(found, tuning=choice.tuning, notes=(*found.notes, note))
    return dataclasses.replace(found, tuning=choice.tuning, batching=again)


def _observe(job: Job, runner: Runner, ranges: Ranges, batch: int | None) -> tuple[Ranges, tuple[Observation, ...]]:
    """The shapes with their answers; where the first axis is a guess, as much of it as runs.

    Where batching was proved, the typical request has several rows even if users send one: a server makes batches.
    """
    if batch is not None:
        rows = max(ranges.inputs[0].typical_shape[0], math.isqrt(batch))
        several = ranges.with_first_axis(job.free_first, 1, rows, batch)
        return ranges, observe(runner, job.outputs, job.rows, several)
    if not ranges.guessed:
        return ranges, observe(runner, job.outputs, job.rows, ranges)
    attempts = [ranges, *(ranges.with_first_axis(job.free_first, size, size, size) for size in _FIRST_AXIS_ATTEMPTS)]
    problems = []
    for attempt in attempts:
        try:
            return attempt, observe(runner, job.outputs, job.rows, attempt)
        except SourceError as error:
            problems.append(error)
    raise problems[-1]


def _telling_samples(job: Job, ranges: Ranges) -> tuple[Tensors, ...]:
    """Some recorded samples of different sizes, no larger than the ranges."""
    largest = ranges.shapes("largest")

    def inside(sample: Tensors) -> bool:
        pairs = [pair for name, shape in largest.items() for pair in zip(sample[name].shape, shape, strict=True)]
        return all(size <= high for size, high in pairs)

    by_shape = {tuple(array.shape for array in sample.values()): sample for sample in job.samples if inside(sample)}
    return tuple(by_shape.values())[:_MOST_TELLING]


def _facts(job: Job, ranges: Ranges, goal: Goal, measuring: Measuring) -> dict[str, object]:
    """Everything that decides what is measured, for the key of the journal."""
    return {
        **measuring.facts,
        "candidates": [(one.name, one.precision, sorted(one.settings.items())) for one in job.candidates],
        "goal": asdict(goal),
        "ranges": asdict(ranges),
        "domains": [asdict(domain) for domain in job.domains],
        "made_up": job.made_up,
        "samples": digests(job.samples),
    }
