"""What a measurement found: points and the whole report, plain values with a stable JSON form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aitune.triton.proved_by import ProvedBy

__all__ = ["PerfPoint", "PerfReport"]

SCHEMA_VERSION = 1
_COLUMNS = ("throughput_per_s", "p50_us", "p90_us", "p95_us", "p99_us", "inferences", "executions")


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfPoint:
    """One load level at one shape.

    Attributes:
        kind: ``"concurrency"`` or ``"request_rate"``.
        level: Requests outstanding, or requests a second.
        batch_size: Rows a request.
        label: Which shape: ``"smallest"``, ``"typical"`` or ``"largest"``.
        shape: (input, sizes of a request without the batch axis) pairs.
        throughput_per_s: Rows answered a second.
        p50_us: Median latency of a request, microseconds; the next three are further percentiles.
        p90_us: See ``p50_us``.
        p95_us: See ``p50_us``.
        p99_us: See ``p50_us``.
        inferences: Rows the server answered in this run, warm-up included; None when it cannot be told for one level.
        executions: Executions of the model they took; None when it cannot be told.
        parts_us: (part, average microseconds) pairs: where the time of a request went.
    """

    kind: str
    level: float
    batch_size: int
    label: str
    shape: tuple[tuple[str, tuple[int, ...]], ...]
    throughput_per_s: float
    p50_us: float
    p90_us: float
    p95_us: float
    p99_us: float
    inferences: int | None
    executions: int | None
    parts_us: tuple[tuple[str, float], ...] = ()

    @property
    def rows_per_execution(self) -> float | None:
        """Average batch the model ran; None when it cannot be told."""
        if not self.executions or self.inferences is None:
            return None
        return self.inferences / self.executions

    def to_json(self) -> dict[str, Any]:
        """The form that goes into the document."""
        level = int(self.level) if self.level == int(self.level) else self.level
        return {
            "concurrency": level if self.kind == "concurrency" else None,
            "request_rate": level if self.kind == "request_rate" else None,
            "batch_size": self.batch_size,
            "shape": {name: list(sizes) for name, sizes in self.shape},
            "shape_label": self.label,
            **{column: getattr(self, column) for column in _COLUMNS},
            "parts_us": dict(self.parts_us),
        }


def _stalled(point: PerfPoint) -> bool:
    """Whether some requests waited for about half a second where most take a few milliseconds.

    That is the period after which Triton's dynamic batcher looks at its queue unasked. Seen on 2.51: with
    ``max_queue_size`` or a timeout in ``default_queue_policy`` it is not woken for a request that comes while the only
    instance has answered, but not yet returned, and the request lies there until then.
    """
    return point.p50_us < 100_000 and 400_000 <= point.p99_us < 600_000


def _stall(point: PerfPoint) -> str:
    level = f"{point.kind.replace('_', ' ')} {point.level:g} ({point.label})"
    return (
        f"requests stalled for half a second at {level}: with a bounded queue the batcher of this Triton can miss a "
        "request; leave default_queue_policy out, or serve two instances"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfReport:
    """Everything that one measurement found.

    Attributes:
        model: Name of the model.
        version: Its version.
        command: The command for the whole range of load levels; run level by level, to tell executions apart.
        points: What was measured.
        unstable: Load levels without stable numbers, in words.
        missing: Load levels that perf_analyzer left out of a range it was given whole, in words.
        batching: Whether the config asks for batches to be formed.
        requests: (shape label, JSON text) pairs: the data files that perf_analyzer was given.
        proved_by: The software that was measured.
        server: Where it was; ``"local"`` for a server of our own.
    """

    model: str
    version: str
    command: Sequence[str]
    points: tuple[PerfPoint, ...]
    unstable: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    batching: bool = False
    requests: tuple[tuple[str, str], ...] = ()
    proved_by: ProvedBy | None = None
    server: str = "local"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers alone do not say."""
        counted = [point for point in self.points if point.inferences and point.executions]
        notes = []
        for point in counted:
            many = point.kind == "request_rate" or point.level > 1
            alone = (point.inferences or 0) <= (point.executions or 0) * point.batch_size
            if self.batching and many and alone:
                word = point.kind.replace("_", " ")
                notes.append(
                    f"no batch was formed at {word} {point.level:g} ({point.label}): "
                    f"{point.inferences} rows in {point.executions} executions"
                )
        notes += [_stall(point) for point in self.points if _stalled(point)]
        notes += [f"not stable: {level}" for level in self.unstable]
        return (*notes, *(f"no numbers: {level} (beyond a threshold, or not stable)" for level in self.missing))

    def to_json(self) -> dict[str, Any]:
        """The document of ``perf --format json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "version": self.version,
            "server": self.server,
            "command": list(self.command),
            "points": [point.to_json() for point in self.points],
            "notes": list(self.notes),
            "proved_by": None if self.proved_by is None else self.proved_by.to_json(),
        }
