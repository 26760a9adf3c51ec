"""What measuring keeps while it goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from aitune.numerics import Array
from aitune.records.evidence import Measurement
from aitune.tuning.journal import Journal
from aitune.tuning.measure import MAX_ROUNDS, ByName, Clock, Times, Turn, measure_in_turns, median_interval, quiet
from aitune.tuning.progress import Progress

__all__ = ["Ledger", "Point", "Requests"]


class Requests(Protocol):
    """Makes a request of so many rows at one of the shapes; None rows for a model that does not batch."""

    def __call__(self, rows: int | None, label: str = "typical", /) -> Mapping[str, Array]:
        """The request."""
        ...


@dataclass(frozen=True, slots=True)
class Point:
    """What one row of measurements is about.

    Attributes:
        candidate: Name of the candidate.
        batch: Rows per run.
        shape: ``"smallest"``, ``"typical"`` or ``"largest"``.
    """

    candidate: str
    batch: int
    shape: str = "typical"


@dataclass(slots=True)
class Ledger:
    """What was measured so far, and how long there is.

    Attributes:
        clock: Tells the time, in seconds.
        deadline: When the budget ends, on that clock.
        seconds: The whole budget, in seconds.
        progress: Told of every round.
        journal: Knows steps that were taken before.
        measured: Measurements by what they are about.
        replayed_s: Seconds that the steps known before had taken.
        passed: How often it was begun again.
        fastest: Seconds of fast turns, per run, by what it is about: slower ones are known to be disturbed.
    """

    clock: Clock
    deadline: float
    seconds: float
    progress: Progress
    journal: Journal = field(default_factory=Journal)
    measured: dict[Point, Measurement] = field(default_factory=dict)
    replayed_s: float = 0.0
    passed: int = 0
    fastest: dict[Point, float] = field(default_factory=dict)

    def begin_again(self) -> None:
        """Forget what was measured, but not how fast it can be: the next steps are other ones than those before."""
        self.measured.clear()
        self.passed += 1

    def left(self) -> float:
        """Seconds that are left of the budget, counting those of steps that were known before."""
        return self.deadline - self.clock() - self.replayed_s

    @contextmanager
    def unbudgeted(self) -> Iterator[None]:
        """What is done meanwhile is not measuring: the budget is as large as before."""
        start = self.clock()
        try:
            yield
        finally:
            self.deadline += self.clock() - start

    def step(self, name: str, take: Callable[[], Any]) -> Any:
        """:meth:`Journal.step`, its time counted whether it was taken now or before."""
        name = f"{name}, again" if self.passed else name

        def take_timed() -> Any:
            start, deadline = self.clock(), self.deadline
            found = take()
            return {"found": found, "seconds": self.clock() - start - (self.deadline - deadline)}

        known = name in self.journal
        entry = self.journal.step(name, take_timed)
        if known:
            self.replayed_s += entry["seconds"]
        return entry["found"]

    def measure(
        self,
        step: str,
        contestants: Callable[[], Mapping[str, Turn]],
        meaning: Mapping[str, Point],
        *,
        seconds: float,
        settled: Callable[[ByName], bool],
        hopeless: Callable[[ByName], Collection[str]] = lambda times: (),
        max_rounds: int = MAX_ROUNDS,
    ) -> Times:
        """Measure in turns as one step, and keep a measurement of each.

        Args:
            step: Name of the step.
            contestants: Makes what is run; not called when the step is known.
            meaning: What each is about, by name.
            seconds: Budget of the step.
            settled: See :func:`~aitune.tuning.measure.measure_in_turns`.
            hopeless: The same.
            max_rounds: The same.
        """

        def take() -> Any:
            return asdict(
                measure_in_turns(
                    contestants(),
                    seconds=max(0.0, seconds),
                    clock=self.clock,
                    settled=settled,
                    hopeless=hopeless,
                    max_rounds=max_rounds,
                    fastest={name: self.fastest[point] for name, point in meaning.items() if point in self.fastest},
                    progress=self.progress,
                )
            )

        times = Times(**self.step(step, take))
        self._keep(times, meaning)
        return times

    def _keep(self, times: Times, meaning: Mapping[str, Point]) -> None:
        for name, values in times.times_s.items():
            point, found = meaning[name], median_interval(values)
            self.fastest[point] = min(quiet(values), self.fastest.get(point, math.inf))
            known = self.measured.get(point)
            if known is not None and known.runs > times.runs[name]:
                continue
            self.measured[point] = Measurement(
                candidate=point.candidate,
                batch_size=point.batch,
                shape=point.shape,
                throughput_per_s=point.batch / found.median,
                p50_us=found.median * 1e6,
                low_us=found.low * 1e6,
                high_us=found.high * 1e6,
                p95_us=times.p95_s[name] * 1e6 if name in times.p95_s else None,
                runs=times.runs[name],
            )
