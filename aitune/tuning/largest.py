"""The largest batch that is worth having, found by doubling, then by halving the gap; each point is really run."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aitune.errors import SourceError
from aitune.tuning.candidate import Candidate
from aitune.tuning.ledger import Ledger, Point, Requests
from aitune.tuning.measure import Clock, ratios
from aitune.tuning.pool import Pool
from aitune.tuning.progress import SILENT, Progress

__all__ = ["MIN_GAIN", "largest_batch", "smaller_in_doubt", "useful_batch"]

MIN_GAIN = 0.015
"""A batch twice as large must bring this share more rows per second, or it is not worth its wait."""
_DOUBTFUL_GAIN = 0.02
"""The same for a batch of any size, as long as it is not certain that it brings more."""
_STEP_SHARE = 0.08
"""Share of the budget that one comparison of two batch sizes may take."""
_CHOICE_SHARE = 0.5
"""Share of the budget that is kept for comparing the candidates."""


def largest_batch(
    candidate: Candidate,
    requests: Requests,
    limit: int,
    *,
    p95_s: float | None = None,
    seconds: float = 30.0,
    clock: Clock = time.perf_counter,
    progress: Progress = SILENT,
) -> tuple[int, str]:
    """The largest useful batch of a candidate, and a sentence why.

    A size is useful when it brings 1.5 % more rows per second than half of it, and ends in time where there is a limit
    of time. Two sizes in a row that are not useful end the doubling, so that one odd size does not; then the gap to the
    first of them is halved: once, and where a size cannot be, until the gap is an eighth of the batch.

    Args:
        candidate: The model.
        requests: Makes a request of so many rows.
        limit: Largest size to try.
        p95_s: Seconds within which 95 % of the runs must end; None for no limit.
        seconds: Budget, in seconds.
        clock: Tells the time.
        progress: Told of every round.
    """
    ledger = Ledger(clock=clock, deadline=clock() + seconds, seconds=seconds, progress=progress)
    with Pool([candidate], clock=clock) as pool:
        return useful_batch(candidate.name, pool, requests, limit, 1, ledger, p95_s=p95_s)


def useful_batch(
    name: str,
    pool: Pool,
    requests: Requests,
    limit: int,
    least: int,
    ledger: Ledger,
    *,
    start: int = 1,
    grow: bool = True,
    p95_s: float | None = None,
    keep_share: float = _CHOICE_SHARE,
) -> tuple[int, str]:
    """:func:`largest_batch` on the clock and budget of ``ledger``.

    Args:
        name: The candidate.
        pool: Where it is open.
        requests: Makes a request of so many rows.
        limit: Largest size to try.
        least: The answer is at least this, for users send it.
        ledger: Clock and budget.
        start: Size to begin at. Where no larger one is useful, smaller ones are tried: what was useful for another
            candidate may be too much for this one.
        grow: Whether larger sizes are tried.
        p95_s: Seconds within which 95 % of the runs must end.
        keep_share: Share of the budget that is not spent here.
    """
    search = _Search(name, pool, requests, limit, ledger, p95_s, keep_share, best=start)
    ledger.progress.start(f"finding the largest useful batch of {name!r}", None)
    try:
        if grow:
            search.double()
            search.halve()
        if search.best == start:
            search.shrink(max(1, min(least, limit)))
    finally:
        ledger.progress.done()
    best, why = search.best, search.why or f"batch {limit} is the largest that was allowed"
    if best < min(least, limit):
        return min(least, limit), f"batch {min(least, limit)} is what users send, though {why}"
    return best, why


def smaller_in_doubt(name: str, batch: int, least: int, ledger: Ledger) -> tuple[int, str]:
    """The smallest size that may be as good as ``batch``, by all that was measured, and a sentence why; else ``batch``.

    Sizes are compared one after the other, and a machine whose processors get slower and faster in between can make any
    of them look better. So a size that is not certainly faster than a smaller one, and not by 2 % while nothing
    disturbs either, is not worth its wait.

    Args:
        name: The candidate.
        batch: The size that was found.
        least: Smallest size to take.
        ledger: What was measured.
    """
    points = {
        point.batch: point
        for point in ledger.measured
        if point.candidate == name and point.shape == Point(name, 1).shape and least <= point.batch <= batch
    }
    if batch not in points:
        return batch, ""
    fast = {size: size / ledger.fastest[point] for size, point in points.items()}
    best = max(fast.values())
    surely = ledger.measured[points[batch]].high_us / batch
    for size in sorted(size for size in points if size < batch):
        lead = 0.0 if surely < ledger.measured[points[size]].low_us / size else _DOUBTFUL_GAIN
        if fast[size] * (1 + lead) >= best:
            gain = f"{fast[batch] / fast[size] - 1:+.1%} rows per second over batch {size}"
            return size, f"batch {batch} brings {gain} while nothing disturbs them"
    return batch, ""


@dataclass(frozen=True, slots=True)
class _Step:
    """One comparison: the share of rows per second that a size brings, and why it is out of question."""

    gain: float
    stop: str = ""


@dataclass(slots=True)
class _Search:
    """The state of the search: ``best`` is useful, ``ceiling`` is the smallest size above it that is not."""

    name: str
    pool: Pool
    requests: Requests
    limit: int
    ledger: Ledger
    p95_s: float | None
    keep_share: float
    best: int = 1
    ceiling: int = 0
    hard: bool = False
    why: str = ""

    def double(self) -> None:
        """Twice as much, until two sizes in a row do not pay, or one cannot be."""
        size, misses = self.best, 0
        while size < self.limit and misses < 2 and not self.hard:
            size = min(2 * size, self.limit)
            if not self._affordable(size):
                self.ceiling = 0
                self.why = f"larger batches than {self.best} did not fit into the budget of {self.ledger.seconds:g} s"
                return
            step = self._compare(size, self.best, MIN_GAIN)
            if step.stop:
                self._stop(size, step)
            elif step.gain > MIN_GAIN:
                self.best, misses, self.ceiling, self.why = size, 0, 0, ""
            else:
                misses += 1
                self._miss(size, step)

    def halve(self) -> None:
        """Sizes between the two, as long as the difference matters."""
        while self.ceiling - self.best > max(1, self.best // 8 if self.hard else self.best // 2):
            size = (self.best + self.ceiling) // 2
            if not self._affordable(size):
                return
            share = MIN_GAIN * math.log2(size / self.best)
            step = self._compare(size, self.best, share)
            if step.stop:
                self._stop(size, step)
            elif step.gain > share:
                self.best = size
            else:
                self.ceiling = size

    def shrink(self, least: int) -> None:
        """Half as much, as long as that loses less than :data:`MIN_GAIN` of the fastest size."""
        fastest, size = self.best, self.best // 2
        while size >= least and self._affordable(fastest):
            step = self._compare(size, fastest, -MIN_GAIN)
            if step.stop or step.gain < -MIN_GAIN:
                return
            self.why = f"batch {fastest} brings {1 / (1 + step.gain) - 1:+.1%} rows per second over batch {size}"
            self.best = size
            if step.gain > 0:
                fastest = size
            size //= 2

    def _stop(self, size: int, step: _Step) -> None:
        self.ceiling, self.hard, self.why = size, True, f"batch {size} {step.stop}"

    def _miss(self, size: int, step: _Step) -> None:
        if not self.ceiling:
            self.ceiling = size
            less = f"less than {MIN_GAIN:.1%}"
            self.why = f"batch {size} brings {step.gain:+.1%} rows per second over batch {self.best}, {less}"

    def _affordable(self, size: int) -> bool:
        known = self.ledger.measured.get(Point(self.name, self.best))
        needed = known.p50_us * 1e-6 * size / self.best * 5 if known else 0.0
        return needed < self.ledger.left() - self.ledger.seconds * self.keep_share

    def _compare(self, size: int, beside: int, share: float) -> _Step:
        """How much more a size brings than another: measured until it is certainly more or less than ``share``."""
        one, other = str(beside), str(size)
        sizes = {one: beside, other: size}
        target = size / beside / (1 + share)

        def settled(times: Mapping[str, Sequence[float]]) -> bool:
            if len(times) < 2:
                return True
            longer = ratios(times[other], times[one])
            return longer.high < target or longer.low > target

        ledger = self.ledger
        times = ledger.measure(
            f"batch {one} and {other} of {self.name}",
            lambda: {word: self.pool.turn(self.name, self.requests(rows)) for word, rows in sizes.items()},
            {word: Point(self.name, rows) for word, rows in sizes.items()},
            seconds=min(ledger.left(), ledger.seconds * _STEP_SHARE),
            settled=settled,
        )
        if one in times.failures:
            raise SourceError(f"{self.name} does not run at batch {one}: {times.failures[one]}")
        if other in times.failures:
            return _Step(0.0, f"does not run ({times.failures[other]})")
        if self.p95_s is not None and times.p95_s[other] > self.p95_s:
            return _Step(0.0, f"takes {times.p95_s[other] * 1e3:.4g} ms at the 95th percentile")
        gain = size / beside / ratios(times.times_s[other], times.times_s[one]).median - 1
        ledger.progress.note(f"{self.name}: batch {size} brings {gain:+.1%} rows per second over batch {beside}")
        return _Step(gain)
