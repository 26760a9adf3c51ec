"""What measuring keeps while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aitune.numerics import Array
from aitune.records.evidence import Measurement
from aitune.tuning.measure import Clock, Times, median_interval
from aitune.tuning.progress import Progress
from aitune.tuning.runner import Runner

__all__ = ["Ledger", "Requests", "runs_of"]

Requests = Callable[[int | None], Mapping[str, Array]]
"""A request at the typical shape with so many rows; None for a model that does not batch."""


@dataclass(slots=True)
class Ledger:
    """What was measured so far, and how long there is.

    Attributes:
        clock: Tells the time, in seconds.
        deadline: When the budget ends, on that clock.
        seconds: The whole budget, in seconds.
        progress: Told of every round.
        measured: Measurements by candidate and batch size.
    """

    clock: Clock
    deadline: float
    seconds: float
    progress: Progress
    measured: dict[tuple[str, int], Measurement] = field(default_factory=dict)

    def left(self) -> float:
        """Seconds that are left of the budget."""
        return self.deadline - self.clock()

    def keep(self, times: Times, meaning: Mapping[str, tuple[str, int]]) -> None:
        """Make measurements of times; ``meaning`` tells candidate and batch of each name."""
        for name, values in times.times_s.items():
            candidate, batch = meaning[name]
            found = median_interval(values)
            self.measured[candidate, batch] = Measurement(
                candidate=candidate,
                batch_size=batch,
                throughput_per_s=batch / found.median,
                p50_us=found.median * 1e6,
                low_us=found.low * 1e6,
                high_us=found.high * 1e6,
                runs=times.runs[name],
            )


def runs_of(runner: Runner, feed: Mapping[str, Array]) -> Callable[[], object]:
    """The runs of one request, for timing."""
    return lambda: runner.run(feed)
