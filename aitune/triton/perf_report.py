"""A measurement for people and for pipelines: a table, CSV, a self-contained HTML page, and a folder with them."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aitune import __version__
from aitune.triton.perf_records import PerfPoint, PerfReport
from aitune.triton.report_files import write_texts
from aitune.triton.templates import render_template
from aitune.triton.validation_report import proved_lines

__all__ = ["csv_text", "to_html", "to_rows", "write_report"]

HEADINGS = ("load", "batch", "rows/s", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "rows per execution")
_CSV = ("load_kind", "load", "batch_size", "shape_label", "shape", "throughput_per_s", "p50_us", "p90_us", "p95_us")
_CSV_TAIL = ("p99_us", "inferences", "executions")
_WIDTH, _HEIGHT, _BASE, _TOP = 640.0, 220.0, 190.0, 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bar:
    """One load level in a chart."""

    x: float
    y: float
    width: float
    height: float
    middle: float
    label: str
    throughput: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dot:
    """One latency in a chart."""

    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chart:
    """Everything a template needs to draw the levels of one shape."""

    title: str
    shape: str
    axis: str
    bars: tuple[_Bar, ...]
    dots: tuple[_Dot, ...]
    line: str
    rows: tuple[tuple[str, ...], ...]
    most_ms: str
    width: float = _WIDTH
    height: float = _HEIGHT
    base: float = _BASE


def to_rows(report: PerfReport) -> tuple[tuple[str, ...], ...]:
    """Cells of a table for people, under :data:`HEADINGS`."""
    return tuple(_cells(point) for point in report.points)


def csv_text(report: PerfReport) -> str:
    """One line a point, with a heading."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow((*_CSV, *_CSV_TAIL))
    for point in report.points:
        shape = " ".join(f"{name}:{','.join(map(str, sizes))}" for name, sizes in point.shape)
        head = (point.kind, f"{point.level:g}", point.batch_size, point.label, shape, point.throughput_per_s)
        times = (point.p50_us, point.p90_us, point.p95_us, point.p99_us)
        writer.writerow((*head, *times, point.inferences, point.executions))
    return stream.getvalue()


def to_html(report: PerfReport) -> str:
    """A page that needs nothing but itself."""
    labels = dict.fromkeys((point.label, point.batch_size) for point in report.points)
    charts = [_chart([point for point in report.points if (point.label, point.batch_size) == key]) for key in labels]
    return render_template(
        "perf.html.j2",
        report=report,
        charts=charts,
        command=shlex.join(report.command),
        proved_by=list(proved_lines(report.proved_by)),
        version=__version__,
    )


def write_report(report: PerfReport, folder: Path) -> tuple[Path, ...]:
    """Write ``perf.json``, ``perf.csv`` and ``perf.html`` into a folder, which is made if need be.

    The data files that perf_analyzer was given lie beside them, and the command in the report names those, so that it
    can be run again.

    Raises:
        UsageError: If the folder cannot be written.
    """
    report = replace(report, command=_lasting(report, folder))
    texts = {
        "perf.json": json.dumps(report.to_json(), indent=2) + "\n",
        "perf.csv": csv_text(report),
        "perf.html": to_html(report),
        **{f"requests-{label}.json": text for label, text in report.requests},
    }
    return write_texts(folder, texts)


def _lasting(report: PerfReport, folder: Path) -> tuple[str, ...]:
    """The command with files in the folder in place of those that were only there for the run."""
    command = list(report.command)
    kept = {"-f": "perf_analyzer.csv"}
    if report.requests:
        kept["--input-data"] = f"requests-{report.requests[0][0]}.json"
    for index, word in enumerate(command[:-1]):
        if word in kept:
            command[index + 1] = str(folder / kept[word])
    return tuple(command)


def _cells(point: PerfPoint) -> tuple[str, ...]:
    rows = point.rows_per_execution
    times = (f"{value / 1000:.2f}" for value in (point.p50_us, point.p90_us, point.p95_us, point.p99_us))
    merged = "unknown" if rows is None else f"{rows:.2f}"
    return (f"{point.level:g}", str(point.batch_size), f"{point.throughput_per_s:.1f}", *times, merged)


def _chart(points: Sequence[PerfPoint]) -> _Chart:
    """Bars for the throughput and a line for the latency, each scaled to its largest value."""
    slot = _WIDTH / len(points)
    most_per_s = max(point.throughput_per_s for point in points) or 1.0
    most_us = max(point.p99_us for point in points) or 1.0
    bars, dots = [], []
    for index, point in enumerate(points):
        height = round((_BASE - _TOP) * point.throughput_per_s / most_per_s, 1)
        middle = round(slot * (index + 0.5), 1)
        width = round(min(slot * 0.7, 80.0), 1)
        bars.append(
            _Bar(
                x=round(middle - width / 2, 1),
                y=round(_BASE - height, 1),
                width=width,
                height=height,
                middle=middle,
                label=f"{point.level:g}",
                throughput=f"{point.throughput_per_s:.0f}",
            )
        )
        dots.append(_Dot(x=middle, y=round(_BASE - (_BASE - _TOP) * point.p99_us / most_us, 1)))
    first = points[0]
    return _Chart(
        title=f"{first.label.capitalize()} shape, batch {first.batch_size}",
        shape=", ".join(f"{name} {list(sizes)}" for name, sizes in first.shape),
        axis=first.kind.replace("_", " "),
        bars=tuple(bars),
        dots=tuple(dots),
        line=" ".join(f"{dot.x},{dot.y}" for dot in dots) if len(dots) > 1 else "",
        rows=tuple(map(_cells, points)),
        most_ms=f"{most_us / 1000:.2f}",
    )
