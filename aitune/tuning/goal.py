"""What the winner of a tuning must be best at."""

from __future__ import annotations

from dataclasses import dataclass

from aitune.errors import UsageError

__all__ = ["OBJECTIVES", "Goal"]

OBJECTIVES = ("throughput", "latency")


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What the winner must be best at.

    Attributes:
        objective: ``"throughput"`` (rows per second) or ``"latency"`` (of one row).
        p95_ms: Time within which 95 % of the runs must end, in milliseconds; None for no limit.
        batched: Whether batching was proved.
        limit: Largest batch that may be tried.
        fixed_batch: Whether the largest batch is ``limit``, whatever its speed.
        least_batch: The largest batch is at least this, because users send it.
        seconds: Budget, in seconds.

    Raises:
        UsageError: If the objective is unknown, or the time is not positive.
    """

    objective: str = "throughput"
    p95_ms: float | None = None
    batched: bool = False
    limit: int = 1
    fixed_batch: bool = False
    least_batch: int = 1
    seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            known = ", ".join(OBJECTIVES)
            raise UsageError(f"objective {self.objective!r} cannot be tuned: objectives are {known}")
        if self.p95_ms is not None and not self.p95_ms > 0:
            raise UsageError(f"p95_ms must be a time above 0, got {self.p95_ms!r}")

    @property
    def p95_s(self) -> float | None:
        """The limit in seconds."""
        return None if self.p95_ms is None else self.p95_ms / 1e3
