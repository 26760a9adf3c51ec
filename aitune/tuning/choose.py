"""Which candidate serves the model, and up to which batch: both decided by measuring."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aitune.errors import AituneError, SourceError, UsageError
from aitune.numerics import Array, compare
from aitune.records import TensorSpec
from aitune.records.evidence import Tuning
from aitune.tuning.candidate import Candidate
from aitune.tuning.largest import useful_batch
from aitune.tuning.ledger import Ledger, Requests, runs_of
from aitune.tuning.measure import MIN_ROUNDS, Clock, Times, measure_in_turns, median_interval, ratios
from aitune.tuning.progress import SILENT, Progress
from aitune.tuning.runner import Runner

__all__ = ["EQUIVALENT", "OBJECTIVES", "Choice", "choose", "winner_of"]

OBJECTIVES = ("throughput", "latency")
EQUIVALENT = 0.03
"""Candidates within this share of the best count as equally fast, and the simplest of them is taken."""
_RUNS_TO_DECIDE = 8
"""Runs that each candidate needs at least: warming up, comparing answers, five rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What measuring found.

    Attributes:
        tuning: The record of it.
        winner: Index of the winning candidate.
        max_batch_size: Largest useful batch; None for a model that does not batch.
    """

    tuning: Tuning
    winner: int
    max_batch_size: int | None


def choose(
    candidates: Sequence[Candidate],
    baseline: Runner,
    requests: Requests,
    outputs: Sequence[TensorSpec],
    *,
    batched: bool,
    limit: int = 1,
    fixed_batch: bool = False,
    least_batch: int = 1,
    objective: str = "throughput",
    seconds: float = 60.0,
    clock: Clock = time.perf_counter,
    progress: Progress = SILENT,
) -> Choice:
    """Measure, and choose the largest useful batch and the winning candidate.

    The batch is found with the first candidate; all candidates that give its answers are then measured in turns, at
    that batch for throughput, at one row for latency.

    Args:
        candidates: Simplest first, names unique; the first is the baseline.
        baseline: The open runner of the first; not closed.
        requests: Makes valid requests.
        outputs: Outputs, for comparing answers.
        batched: Whether batching was proved.
        limit: Largest batch that may be tried.
        fixed_batch: Whether the largest batch is ``limit``, whatever its speed.
        least_batch: The largest batch is at least this, because users send it.
        objective: ``"throughput"`` (rows per second) or ``"latency"`` (of one row).
        seconds: Budget, in seconds.
        clock: Tells the time.
        progress: Told of every round.

    Raises:
        UsageError: If the objective is unknown or two candidates have one name.
        SourceError: If the baseline does not run.
    """
    names = [candidate.name for candidate in candidates]
    if objective not in OBJECTIVES or len(set(names)) != len(names):
        wrong = f"objective {objective!r}" if objective not in OBJECTIVES else f"candidates {names}"
        raise UsageError(f"{wrong} cannot be tuned: objectives are {', '.join(OBJECTIVES)}, names must be unique")
    ledger = Ledger(clock=clock, deadline=clock() + seconds, seconds=seconds, progress=progress)
    batch, why = limit, f"batch {limit} was asked for"
    if batched and not fixed_batch:
        batch, why = useful_batch(names[0], baseline, requests, limit, max(1, least_batch), ledger)
    rows = None
    if batched:
        rows = _affordable(baseline, requests, batch, len(candidates), ledger) if objective == "throughput" else 1
    winner, reason, rejected = _measure_candidates(candidates, baseline, requests(rows), outputs, rows or 1, ledger)
    tuning = Tuning(
        objective=objective,
        winner=names[winner],
        reason=f"{reason}; {why}" if batched else reason,
        settings=tuple(candidates[winner].settings.items()),
        measurements=tuple(ledger.measured.values()),
        rejected=tuple(rejected.items()),
    )
    return Choice(tuning=tuning, winner=winner, max_batch_size=batch if batched else None)


def _affordable(runner: Runner, requests: Requests, batch: int, candidates: int, ledger: Ledger) -> int:
    """The batch at which all candidates can be measured in the time that is left: the largest, or a power of two."""
    feed = requests(batch)
    start = ledger.clock()
    runner.run(feed)
    needed = (ledger.clock() - start) * candidates * _RUNS_TO_DECIDE
    if needed <= ledger.left():
        return batch
    return 1 << max(0, int(batch * max(0.0, ledger.left()) / needed).bit_length() - 1)


def winner_of(times_s: Mapping[str, Sequence[float]], order: Sequence[str]) -> tuple[str, bool]:
    """The first in ``order`` that is as fast as the fastest within 3 %, and whether that is certain.

    It is certain when the interval of every earlier candidate's ratio to the fastest lies on one side of 3 %, and no
    other can still turn out more than 3 % faster than the winner. Fewer than five rounds decide nothing: then it is the
    first in ``order``, uncertain.

    Args:
        times_s: Seconds per run, round by round.
        order: Names, simplest first.

    >>> winner_of({"a": [1.0] * 5, "b": [0.99] * 5, "c": [2.0] * 5}, ["a", "b", "c"])
    ('a', True)
    >>> winner_of({"a": [1.0], "b": [0.5]}, ["a", "b"])
    ('a', False)
    """
    present = [name for name in order if name in times_s]
    if _too_few(times_s):
        return present[0], False
    fastest = min(present, key=lambda name: median_interval(times_s[name]).median)
    certain = True
    for name in present:
        ratio = ratios(times_s[name], times_s[fastest])
        certain = certain and (ratio.high <= 1 + EQUIVALENT or ratio.low > 1 + EQUIVALENT)
        if ratio.median <= 1 + EQUIVALENT:
            return name, certain and _unbeaten(times_s, name)
    return fastest, certain


def _too_few(times_s: Mapping[str, Sequence[float]]) -> bool:
    return len(times_s) > 1 and min(map(len, times_s.values())) < MIN_ROUNDS


def _unbeaten(times_s: Mapping[str, Sequence[float]], winner: str) -> bool:
    """Whether no other can still turn out more than 3 % faster than the winner."""
    return all(ratios(times_s[winner], times_s[name]).high <= 1 + EQUIVALENT for name in times_s)


def _measure_candidates(
    candidates: Sequence[Candidate],
    baseline: Runner,
    feed: Mapping[str, Array],
    outputs: Sequence[TensorSpec],
    rows: int,
    ledger: Ledger,
) -> tuple[int, str, dict[str, str]]:
    """Index of the winner, a sentence with the numbers, and those that were not allowed to win."""
    order = [candidate.name for candidate in candidates]
    expected = baseline.run(feed)
    runners = {order[0]: baseline}
    rejected: dict[str, str] = {}
    try:
        for candidate in candidates[1:]:
            problem = _admit(candidate, runners, feed, expected, outputs)
            if problem:
                rejected[candidate.name] = problem
        ledger.progress.start(f"measuring {len(runners)} candidates", None)
        try:
            times = measure_in_turns(
                {name: runs_of(runner, feed) for name, runner in runners.items()},
                seconds=max(0.0, ledger.left()),
                clock=ledger.clock,
                settled=lambda found: winner_of(found, order)[1],
                progress=ledger.progress,
            )
        finally:
            ledger.progress.done()
    finally:
        for name, runner in runners.items():
            if name != order[0]:
                runner.close()
    rejected |= times.failures
    if not times.times_s:
        raise SourceError(f"no candidate runs: {rejected[order[0]]}")
    ledger.keep(times, {name: (name, rows) for name in runners})
    name, certain = winner_of(times.times_s, order)
    return order.index(name), _reason(name, certain, rows, order, times, ledger), rejected


def _admit(
    candidate: Candidate,
    runners: dict[str, Runner],
    feed: Mapping[str, Array],
    expected: Mapping[str, Array],
    outputs: Sequence[TensorSpec],
) -> str:
    """Open a candidate and ask it what the baseline was asked; why it may not win, ``""`` when it may."""
    try:
        runner = candidate.open()
    except AituneError as error:
        return f"does not load: {error}"
    try:
        answer = runner.run(feed)
        problem = _difference(answer, expected, outputs)
    except AituneError as error:
        problem = f"does not run: {error}"
    except BaseException:
        runner.close()
        raise
    if problem:
        runner.close()
    else:
        runners[candidate.name] = runner
    return " ".join(problem.split())


def _difference(answer: Mapping[str, Array], expected: Mapping[str, Array], outputs: Sequence[TensorSpec]) -> str:
    for spec in outputs:
        if spec.name not in answer:
            return f"lacks output {spec.name!r}"
        found = compare(answer[spec.name], expected[spec.name], spec.dtype)
        if not found.agrees:
            return f"answers differently: output {spec.name!r}: {found.detail}"
    return ""


def _reason(winner: str, certain: bool, rows: int, order: Sequence[str], times: Times, ledger: Ledger) -> str:
    best = ledger.measured[winner, rows]
    what = f"a batch of {rows}" if rows > 1 else "one request"
    speed = f"{winner!r} answers {what} in {best.p50_us:.4g} us ({best.throughput_per_s:.4g} per second)"
    if len(times.times_s) == 1:  # nothing to be uncertain about
        return f"{speed}, the only candidate" + (" that may win" if len(order) > 1 else "")
    if _too_few(times.times_s):
        return f"{speed}; too few rounds fit into the budget of {ledger.seconds:g} s to prefer another"
    others = {name: ratios(values, times.times_s[winner]) for name, values in times.times_s.items() if name != winner}
    nearest = min(others, key=lambda name: others[name].median)
    ratio = others[nearest].median
    equal = ratio <= 1 + EQUIVALENT
    against = (
        f"as fast as {nearest!r} within {EQUIVALENT:.0%}" if equal else f"{ratio:.2f} times as fast as {nearest!r}"
    )
    simpler = " and simpler" if equal and order.index(winner) < order.index(nearest) else ""
    return f"{speed}, {against}{simpler}" + ("" if certain else "; the budget ended before that was certain")
