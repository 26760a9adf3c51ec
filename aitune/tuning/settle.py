"""From ranges that a user hopes for to what was proved, measured and seen: the verdict, the winner, the shapes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from aitune.errors import BatchingError, SourceError
from aitune.numerics import Array, synthetic_inputs
from aitune.records import TensorSpec
from aitune.records.evidence import Batching, InputDomain, Tuning
from aitune.tuning.batching import prove_batching
from aitune.tuning.candidate import Candidate
from aitune.tuning.choose import Choice, choose
from aitune.tuning.contract import Observation, observe, run_checked
from aitune.tuning.measure import Clock
from aitune.tuning.progress import Progress
from aitune.tuning.runner import Runner
from aitune.tuning.shapes import DEFAULT_MAX_BATCH_SIZE, Ranges

__all__ = ["Job", "Measuring", "Settled", "settle"]

_SEED = 10
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

    def request(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, Array]:
        """A made-up request of these shapes."""
        return synthetic_inputs(self.inputs, self.domains, shapes, _SEED)

    @property
    def free_first(self) -> tuple[str, ...]:
        """Inputs whose first axis is dynamic."""
        return tuple(spec.name for spec in self.inputs if spec.shape and not isinstance(spec.shape[0], int))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """How to measure; see :func:`aitune.tuning.choose`."""

    objective: str
    seconds: float
    batch_cap: int
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settled:
    """What is certain now.

    Attributes:
        runner: The open winner.
        batching: The verdict.
        max_batch_size: Largest batch; None when batching was not proved.
        tuning: What was measured; None when nothing was.
        ranges: Final shapes of the inputs.
        observations: Requests of those shapes with their answers.
        warm_ups: Requests at the typical shape: one row and the largest batch, or the only one.
        notes: Lines a person should read.
    """

    runner: Runner
    batching: Batching
    max_batch_size: int | None
    tuning: Tuning | None
    ranges: Ranges
    observations: tuple[Observation, ...]
    warm_ups: tuple[Tensors, ...]
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
    ranges = _first_run(job, baseline, ranges)
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
        batching=found.batching,
        max_batch_size=batch,
        tuning=found.tuning,
        ranges=ranges,
        observations=observations,
        warm_ups=tuple(job.request(ranges.shapes("typical", batch=size)) for size in rows),
        notes=found.notes,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Verdict:
    """A verdict on one runner, for batches up to ``largest``."""

    runner: Runner
    batching: Batching
    largest: int
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
    batching = prove_batching(
        runner, job.inputs, job.outputs, job.domains, ranges, max_batch_size=largest, progress=job.progress
    )
    if job.requested and not batching.proved:
        raise BatchingError(
            f"max_batch_size {job.requested} was asked for, but the model does not batch: {batching.reason}",
            hint="leave max_batch_size out to serve it without batching, or change the model",
        )
    return batching


def _measure(job: Job, ranges: Ranges, found: _Verdict, measuring: Measuring, stack: ExitStack) -> _Verdict:
    """Choose the largest batch and the winner, and prove the batch again where either is new."""
    choice = choose(
        job.candidates,
        found.runner,
        lambda rows: job.request(ranges.shapes("typical", batch=rows)),
        job.outputs,
        batched=found.batching.proved,
        limit=job.requested or ranges.max_batch_size or max(measuring.batch_cap, found.largest),
        fixed_batch=bool(job.requested),
        least_batch=_sent(job, ranges),
        objective=measuring.objective,
        seconds=measuring.seconds,
        clock=measuring.clock,
        progress=job.progress,
    )
    runner = _open(job.candidates[choice.winner], stack) if choice.winner else found.runner
    largest = choice.max_batch_size or found.largest
    measured = dataclasses.replace(found, runner=runner, tuning=choice.tuning)
    if not found.batching.proved or (not choice.winner and largest == found.largest):
        return measured
    again = prove_batching(
        runner, job.inputs, job.outputs, job.domains, ranges, max_batch_size=largest, progress=job.progress
    )
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
        return ranges, observe(runner, job.inputs, job.outputs, job.domains, several)
    if not ranges.guessed:
        return ranges, observe(runner, job.inputs, job.outputs, job.domains, ranges)
    attempts = [ranges, *(ranges.with_first_axis(job.free_first, size, size, size) for size in _FIRST_AXIS_ATTEMPTS)]
    problems = []
    for attempt in attempts:
        try:
            return attempt, observe(runner, job.inputs, job.outputs, job.domains, attempt)
        except SourceError as error:
            problems.append(error)
    raise problems[-1]
