"""The largest batch that is worth having, found by doubling; each point is really run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from aitune.errors import SourceError
from aitune.tuning.ledger import Ledger, Requests, runs_of
from aitune.tuning.measure import Clock, measure_in_turns, ratios
from aitune.tuning.progress import SILENT, Progress
from aitune.tuning.runner import Runner

__all__ = ["MIN_GAIN", "largest_batch", "useful_batch"]

MIN_GAIN = 0.05
"""A larger batch must bring this share more rows per second, or it is not worth its wait."""
_STEP_SHARE = 0.08
"""Share of the budget that one comparison of two batch sizes may take."""
_CHOICE_SHARE = 0.5
"""Share of the budget that is kept for comparing the candidates."""


def largest_batch(
    name: str,
    runner: Runner,
    requests: Requests,
    limit: int,
    *,
    seconds: float = 30.0,
    clock: Clock = time.perf_counter,
    progress: Progress = SILENT,
) -> tuple[int, str]:
    """The largest useful batch by doubling, and a sentence why.

    A size is useful when it brings 5 % more rows per second than the largest useful one before it. Two sizes in a row
    that do not end the search, so that one odd size does not.

    Args:
        name: What to call the runner.
        runner: Runs the model.
        requests: Makes a request of so many rows.
        limit: Largest size to try.
        seconds: Budget, in seconds.
        clock: Tells the time.
        progress: Told of every round.
    """
    ledger = Ledger(clock=clock, deadline=clock() + seconds, seconds=seconds, progress=progress)
    return useful_batch(name, runner, requests, limit, 1, ledger)


def useful_batch(
    name: str, runner: Runner, requests: Requests, limit: int, least: int, ledger: Ledger
) -> tuple[int, str]:
    """:func:`largest_batch` on the clock and budget of ``ledger``, and at least ``least``, which users send."""
    ledger.progress.start("finding the largest useful batch", None)
    try:
        best, why = _double(name, runner, requests, limit, ledger)
    finally:
        ledger.progress.done()
    if best < min(least, limit):
        return min(least, limit), f"batch {min(least, limit)} is what users send, though {why}"
    return best, why


def _double(name: str, runner: Runner, requests: Requests, limit: int, ledger: Ledger) -> tuple[int, str]:
    best = size = 1
    misses = 0
    why = f"batch {limit} is the largest that was allowed"
    while size < limit and misses < 2:
        size = min(2 * size, limit)
        known = ledger.measured.get((name, best))
        needed = known.p50_us * 1e-6 * size / best * 5 if known else 0.0
        if needed >= ledger.left() - ledger.seconds * _CHOICE_SHARE:
            return best, f"larger batches than {best} did not fit into the budget of {ledger.seconds:g} s"
        gain, failure = _gain(name, runner, requests, best, size, ledger)
        if failure:
            return best, f"batch {size} does not run ({failure})"
        if gain > MIN_GAIN:
            best, misses = size, 0
            why = f"batch {limit} is the largest that was allowed"
        elif misses == 0:
            why = f"batch {size} brings {gain:+.0%} rows per second over batch {best}, less than {MIN_GAIN:.0%}"
            misses = 1
        else:
            misses += 1
    return best, why


def _gain(name: str, runner: Runner, requests: Requests, small: int, large: int, ledger: Ledger) -> tuple[float, str]:
    """How many more rows per second the larger batch brings, as a share; or why it does not run."""
    feeds = {str(small): requests(small), str(large): requests(large)}
    target = large / small / (1 + MIN_GAIN)

    def settled(times: Mapping[str, Sequence[float]]) -> bool:
        if len(times) < 2:
            return True
        longer = ratios(times[str(large)], times[str(small)])
        return longer.high < target or longer.low > target

    times = measure_in_turns(
        {key: runs_of(runner, feed) for key, feed in feeds.items()},
        seconds=min(ledger.left(), ledger.seconds * _STEP_SHARE),
        clock=ledger.clock,
        settled=settled,
        progress=ledger.progress,
    )
    if str(small) in times.failures:
        raise SourceError(f"{name} does not run at batch {small}: {times.failures[str(small)]}")
    ledger.keep(times, {key: (name, int(key)) for key in feeds})
    if str(large) in times.failures:
        return 0.0, times.failures[str(large)]
    longer = ratios(times.times_s[str(large)], times.times_s[str(small)])
    return large / small / longer.median - 1, ""
