"""What perf_analyzer measured, read from the CSV file it writes."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass

from aitune.errors import ProgramError

__all__ = ["Row", "parse_csv"]

_LEVELS = ("Concurrency", "Request Rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One load level of a report.

    Attributes:
        level: Concurrency, or requests a second.
        throughput_per_s: Rows answered a second.
        p50_us: Median latency of a request, microseconds; the next three are further percentiles.
        p90_us: See ``p50_us``.
        p95_us: See ``p50_us``.
        p99_us: See ``p50_us``.
        parts_us: (part, average microseconds) pairs: where the time of a request went, as perf_analyzer breaks it down.
    """

    level: float
    throughput_per_s: float
    p50_us: float
    p90_us: float
    p95_us: float
    p99_us: float
    parts_us: tuple[tuple[str, float], ...] = ()


_PARTS = {
    "Client Send": "client_send",
    "Network+Server Send/Recv": "network",
    "Server Queue": "queue",
    "Server Compute Input": "compute_input",
    "Server Compute Infer": "compute_infer",
    "Server Compute Output": "compute_output",
    "Client Recv": "client_receive",
}


def parse_csv(text: str) -> tuple[Row, ...]:
    """The rows of a report; empty for an empty file.

    Args:
        text: What perf_analyzer wrote with ``-f``. Reports of several models follow each other after a blank line;
            the first one is read (an ensemble's parts come later).

    Raises:
        ProgramError: If a column is missing or holds no number.
    """
    table = text.strip().partition("\n\n")[0]
    rows = list(csv.DictReader(io.StringIO(table)))
    return tuple(sorted((_row(row) for row in rows), key=lambda row: row.level))


def _row(row: Mapping[str, str]) -> Row:
    level = next((name for name in _LEVELS if name in row), None)
    try:
        if level is None:
            raise KeyError(" or ".join(_LEVELS))
        return Row(
            level=float(row[level]),
            throughput_per_s=float(row["Inferences/Second"]),
            p50_us=float(row["p50 latency"]),
            p90_us=float(row["p90 latency"]),
            p95_us=float(row["p95 latency"]),
            p99_us=float(row["p99 latency"]),
            parts_us=tuple((word, float(row[column])) for column, word in _PARTS.items() if row.get(column)),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise ProgramError(
            f"the report of perf_analyzer cannot be read: {error}", hint="is this perf_analyzer 2.50 or newer?"
        ) from error
