"""One choice on its way: which candidate serves the model, and up to which batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aitune.errors import SourceError
from aitune.numerics import Array
from aitune.records.evidence import Measurement, Tried, Tuning
from aitune.tuning.admission import Admission
from aitune.tuning.candidate import Candidate
from aitune.tuning.goal import Goal
from aitune.tuning.largest import smaller_in_doubt, useful_batch
from aitune.tuning.ledger import Ledger, Point, Requests
from aitune.tuning.measure import MIN_ROUNDS, ByName, Times, ratios
from aitune.tuning.pool import Pool
from aitune.tuning.runoff import NEAR, Pairs, per_row, run_off
from aitune.tuning.survey import survey
from aitune.tuning.verdicts import comparison, hopeless, too_few, winner_of

__all__ = ["Choice", "Contest"]

_RUNS_TO_DECIDE = 12
"""Runs that each candidate needs at least: warming up, comparing answers, some rounds."""
_ROUNDS_FOR_P95 = 20
"""Of so many runs, one lies beyond the 95th percentile."""
_SURVEY_SHARE = 0.15
"""Share of the budget that is kept for the other sizes and batches, which inform and do not decide."""

_MUCH = 0.15
"""A first candidate that loses by more than this share is looked at once more."""
_DOUBT_S, _DOUBT_SHARE, _DOUBT_ROUNDS = 6.0, 0.1, 1000
"""For so many seconds, so large a share of the budget, and so many rounds at most."""
_AGAIN_SHARE = 0.5
"""Share of the budget that it takes to decide again."""

Tensors = Mapping[str, Array]


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


@dataclass(frozen=True, slots=True)
class _Decision:
    """What one pass through all measurements decided.

    Attributes:
        winner: Name of the winner.
        batch: Its largest useful batch; 1 for a model that does not batch.
        reason: Why.
        rows: Rows at which all candidates were compared; None for a model that does not batch.
        times_s: Seconds per run of that comparison, by name.
    """

    winner: str
    batch: int
    reason: str
    rows: int | None
    times_s: ByName


@dataclass(slots=True)
class Contest:
    """One choice on its way; see :func:`aitune.tuning.choose`.

    Attributes:
        candidates: Simplest first, names unique.
        pool: Where they are open.
        requests: Makes valid requests.
        goal: What the winner must be best at.
        ledger: Budget, and where measurements are kept.
        admission: Knows who may win.
        labels: Shapes that differ from each other.
    """

    candidates: Sequence[Candidate]
    pool: Pool
    requests: Requests
    goal: Goal
    ledger: Ledger
    admission: Admission
    labels: Sequence[str]

    @property
    def order(self) -> list[str]:
        """Names, simplest first."""
        return [candidate.name for candidate in self.candidates]

    def decide(self) -> Choice:
        """Measure, and choose.

        Raises:
            SourceError: If no candidate runs.
        """
        found = self._decide()
        if self._was_disturbed(found):
            self.ledger.progress.note(f"{self.order[0]!r} is much faster now than it was: all is measured again")
            self.ledger.begin_again()
            self.admission.begin_again()
            found = self._decide()
        admitted = [name for name in self.order if name not in self.admission.rejected]
        survey(self.pool, self.requests, self.ledger, admitted, found.winner, found.batch, self.labels,
               batched=self.goal.batched)  # fmt: skip
        return Choice(
            tuning=self._record(found.winner, found.reason),
            winner=self.order.index(found.winner),
            max_batch_size=found.batch if self.goal.batched else None,
        )

    def _decide(self) -> _Decision:
        batch, why = self._first_batch()
        rows = self._rows(batch)
        self.admission.admit(self.candidates, rows)
        times = self._measure_all(rows or 1, self.requests(rows))
        pairs = Pairs(times, dict.fromkeys(self.order, rows or 1), dict.fromkeys(self.order, why))
        if rows == batch and self._batch_is_open():
            pairs = self._run_off(times, batch, why)
        winner, reason = self._winner(pairs.times, pairs.batches, beside=times)
        if rows == batch:
            batch, why = pairs.batches[winner], pairs.why[winner]
        if self._batch_is_open():
            seen = winner if Point(winner, batch) in self.ledger.measured else self.order[0]
            batch, because = smaller_in_doubt(seen, batch, max(1, self.goal.least_batch), self.ledger)
            why = because or why
        if self.goal.batched:
            reason = f"{reason}; {why}"
        return _Decision(winner, batch if self.goal.batched else 1, reason, rows, times.times_s)

    def _was_disturbed(self, found: _Decision) -> bool:
        """Whether the first candidate lost by much, and is much faster a little later.

        A shared host may give two processors that work together at a third of the speed, for seconds: then what needs
        one only wins. What wins by much is looked at once more, while there is time to decide again.
        """
        first, goal = self.order[0], self.goal
        if found.winner == first or not {first, found.winner} <= found.times_s.keys():
            return False
        lost = ratios(found.times_s[first], found.times_s[found.winner]).median > 1 + _MUCH
        if not lost or self.ledger.left() < goal.seconds * (_AGAIN_SHARE + _DOUBT_SHARE):
            return False
        point, request = Point(first, found.rows or 1), self.requests(found.rows)
        before = self.ledger.fastest[point]

        def faster(times_s: ByName) -> bool:
            """By some turns, not by one that was lucky."""
            some = sorted(times_s[first])[:MIN_ROUNDS]
            return len(some) == MIN_ROUNDS and some[-1] * (1 + _MUCH) < before

        times = self.ledger.measure(
            f"{first} at {found.rows} rows once more",
            lambda: {first: self.pool.turn(first, request)},
            {first: point},
            seconds=min(_DOUBT_S, goal.seconds * _DOUBT_SHARE),
            settled=faster,
            max_rounds=_DOUBT_ROUNDS,
        )
        return first in times.times_s and faster(times.times_s)

    def _first_batch(self) -> tuple[int, str]:
        """The largest batch as the first candidate has it."""
        goal = self.goal
        if not goal.batched or goal.fixed_batch:
            return goal.limit, f"batch {goal.limit} was asked for"
        return useful_batch(
            self.order[0], self.pool, self.requests, goal.limit, max(1, goal.least_batch), self.ledger,
            p95_s=goal.p95_s,
        )  # fmt: skip

    def _batch_is_open(self) -> bool:
        """Whether the winner may have another batch than the first candidate."""
        return self.goal.batched and not self.goal.fixed_batch and self.goal.objective == "throughput"

    def _run_off(self, times: Times, batch: int, why: str) -> Pairs:
        goal = self.goal
        late = self._late(times)
        in_time = {name: values for name, values in times.times_s.items() if name not in late}
        pairs = run_off(
            dataclasses.replace(times, times_s=in_time), self.order, batch, why, self.pool, self.requests, self.ledger,
            limit=goal.limit, least=max(1, goal.least_batch), p95_s=goal.p95_s, keep_share=_SURVEY_SHARE,
        )  # fmt: skip
        self.admission.rejected |= late | pairs.times.failures
        return pairs

    def _rows(self, batch: int) -> int | None:
        """How many rows the candidates are compared at: for throughput the largest batch that fits into the budget."""
        if not self.goal.batched:
            return None
        if self.goal.objective == "latency":
            return 1
        request = self.requests(batch)
        name = self.order[0]
        cost: float = self.ledger.step(
            f"one run of batch {batch} of {name}", lambda: self.pool.turn(name, request)(1).total_s
        )
        left = max(0.0, self.ledger.left() - self.goal.seconds * _SURVEY_SHARE)
        needed = cost * len(self.candidates) * _RUNS_TO_DECIDE
        return batch if needed <= left else 1 << max(0, int(batch * left / needed).bit_length() - 1)

    def _measure_all(self, rows: int, request: Tensors) -> Times:
        ledger = self.ledger
        contenders = [name for name in self.order if name not in self.admission.rejected]
        ledger.progress.start(f"measuring {len(contenders)} candidates", None)
        try:
            times = ledger.measure(
                f"{', '.join(contenders)} at {rows} rows",
                lambda: {name: self.pool.turn(name, request) for name in contenders},
                {name: Point(name, rows) for name in contenders},
                seconds=ledger.left() - self.goal.seconds * _SURVEY_SHARE,
                settled=self._settled,
                hopeless=hopeless,
            )
        finally:
            ledger.progress.done()
        self.admission.rejected |= times.failures
        if not times.times_s:
            raise SourceError(f"no candidate runs: {self.admission.rejected[self.order[0]]}")
        for name in times.times_s:
            found = ledger.measured[Point(name, rows)]
            ledger.progress.note(f"{name}: {found.throughput_per_s:.4g} rows per second at batch {rows}")
        return times

    def _settled(self, times_s: ByName) -> bool:
        """Whether the winner is certain; where a percentile counts, only after enough rounds to see one."""
        seen = self.goal.p95_ms is None or min(map(len, times_s.values())) >= _ROUNDS_FOR_P95
        return seen and winner_of(times_s, self.order)[1]

    def _late(self, times: Times) -> dict[str, str]:
        """Those that take longer than is allowed, and why they are out; none where all do."""
        if self.goal.p95_s is None:
            return {}
        late = {name: value for name, value in times.p95_s.items() if value > self.goal.p95_s}
        return {
            name: f"takes {value * 1e3:.4g} ms at the 95th percentile, {self.goal.p95_ms:g} ms are allowed"
            for name, value in late.items()
            if len(late) < len(times.times_s)
        }

    def _winner(self, times: Times, batches: Mapping[str, int], *, beside: Times) -> tuple[str, str]:
        """The winner, and a sentence with the numbers that decided; ``beside`` has those that went no further, too."""
        late = self._late(times)
        self.admission.rejected |= late
        times_s = per_row({name: values for name, values in times.times_s.items() if name not in late}, batches)
        name, certain = winner_of(times_s, self.order)
        aside = ""
        if self.goal.p95_s is not None and times.p95_s[name] > self.goal.p95_s:
            aside = f"; no candidate ends within {self.goal.p95_ms:g} ms at the 95th percentile"
        lost = beside.times_s.keys() - times_s.keys() - self.admission.rejected.keys()
        return name, self._reason(name, certain, batches, times_s, lost=bool(lost)) + aside

    def _reason(self, winner: str, certain: bool, batches: Mapping[str, int], times_s: ByName, *, lost: bool) -> str:
        rows = batches[winner]
        best = self.ledger.measured[Point(winner, rows)]
        what = f"a batch of {rows}" if rows > 1 else "one request"
        speed = (
            f"{winner!r} answers {what} in {best.p50_us / 1e3:.2f} ms ({best.throughput_per_s:,.1f} rows per second)"
        )
        if len(times_s) == 1:  # nothing to be uncertain about
            if lost:
                return f"{speed}; every other that may win was more than {NEAR:.0%} slower where all were compared"
            return f"{speed}, the only candidate" + (" that may win" if len(self.order) > 1 else "")
        if too_few(times_s):
            return f"{speed}; too few rounds fit into the budget of {self.goal.seconds:g} s to prefer another"
        beside = comparison(winner, times_s, self.order, batches)
        return f"{speed}, {beside}" + ("" if certain else "; the budget ended before that was certain")

    def _record(self, winner: str, reason: str) -> Tuning:
        return Tuning(
            objective=self.goal.objective,
            p95_ms=self.goal.p95_ms,
            winner=winner,
            reason=reason,
            settings=tuple(self.candidates[self.order.index(winner)].settings.items()),
            candidates=tuple(
                Tried(name=one.name, precision=one.precision, settings=tuple(one.settings.items()))
                for one in self.candidates
            ),
            measurements=_sorted(self.ledger.measured, self.order),
            accuracy=tuple(self.admission.accuracy),
            rejected=tuple(self.admission.rejected.items()),
        )


def _sorted(measured: Mapping[Point, Measurement], order: Sequence[str]) -> tuple[Measurement, ...]:
    """By shape, candidate and batch."""

    def place(point: Point) -> tuple[bool, str, int, int]:
        return point.shape != "typical", point.shape, order.index(point.candidate), point.batch

    return tuple(measured[point] for point in sorted(measured, key=place))
