"""``perf``: perf_analyzer with valid data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aitune.cli.connecting import connection, server_options
from aitune.cli.console import Console, common_options, table
from aitune.cli.values import PATH, SECONDS

if TYPE_CHECKING:
    from aitune.triton.perf_records import PerfPoint, PerfReport

__all__ = ["perf_command"]


@click.command("perf", context_settings={"ignore_unknown_options": False})
@click.argument("repository", required=False, type=PATH)
@click.option("-m", "--model", required=True, help="The model to measure.")
@click.option("-x", "--model-version", "version", help="Its version.")
@click.option("--concurrency", metavar="START[:END[:STEP]]", help="Requests outstanding. [default: 1]")
@click.option("--request-rate-range", metavar="START[:END[:STEP]]", help="Requests a second, instead.")
@click.option("-b", "--batch-size", type=click.IntRange(1), default=1, show_default=True, help="Rows a request.")
@click.option(
    "--shape",
    "shapes",
    type=click.Choice(["smallest", "typical", "largest", "all"]),
    multiple=True,
    help="Which tuned shapes (repeatable). [default: typical]",
)
@click.option("--interval-ms", type=click.IntRange(100), default=2000, show_default=True, help="Measurement window.")
@server_options
@click.option("--perf-analyzer", help="Which perf_analyzer to run.")
@click.option("--timeout", "timeout_s", type=SECONDS, default=600.0, show_default=True, help="Seconds a run may take.")
@click.option("--report", type=click.Path(path_type=Path, file_okay=False), help="Also write HTML, JSON and CSV here.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@common_options("csv")
def perf_command(
    repository: Path | None,
    model: str,
    version: str | None,
    concurrency: str | None,
    request_rate_range: str | None,
    batch_size: int,
    shapes: tuple[str, ...],
    interval_ms: int,
    perf_analyzer: str | None,
    timeout_s: float,
    report: Path | None,
    flags: tuple[str, ...],
    console: Console,
    **options: Any,
) -> int:
    """Run perf_analyzer on one model with data it accepts.

    Starts a server for REPOSITORY (default model_repository), or measures the one at --url. Arguments after -- go to
    perf_analyzer. Exit code 4 when the numbers were not stable.
    """
    from aitune.triton.perf import SHAPES, UnstableMeasurement, perf
    from aitune.triton.perf_analyzer import Load

    if concurrency and request_rate_range:
        raise click.UsageError("--concurrency does not go with --request-rate-range")
    load = Load.parse(request_rate_range, "request_rate") if request_rate_range else Load.parse(concurrency or "1")
    arguments = connection(options)
    urls = arguments.pop("url")
    if urls and len(urls) > 1:
        raise click.UsageError("perf measures one address: give --url once")
    if repository is not None and str(repository).startswith("-"):
        flags, repository = (str(repository), *flags), None
    if repository is None and not urls:
        repository = Path("model_repository")
    progress = console.progress()
    try:
        found = perf(
            repository,
            model=model,
            version=version,
            url=urls[0] if urls else None,
            load=load,
            batch_size=batch_size,
            shapes=SHAPES if "all" in shapes else shapes or ("typical",),
            flags=flags,
            interval_ms=interval_ms,
            perf_analyzer=perf_analyzer,
            timeout_s=timeout_s,
            progress=progress,
            **arguments,
        )
    except UnstableMeasurement as error:
        progress.done()
        error.document = error.report.to_json()  # type: ignore[attr-defined]
        if not console.json:
            _print(error.report, report, console)
        raise
    finally:
        progress.done()
    _print(found, report, console)
    return 0


def _print(found: PerfReport, folder: Path | None, console: Console) -> None:
    if folder is not None:
        from aitune.triton.perf_report import write_report

        for path in write_report(found, folder):
            console.say(f"wrote {path}")
    if console.json:
        console.document(found.to_json())
        return
    if console.format == "csv":
        from aitune.triton.perf_report import csv_text

        console.result(csv_text(found).rstrip("\n"))
        return
    headers = ("load", "batch", "shape", "rows/s", "p50 µs", "p90 µs", "p95 µs", "p99 µs", "rows/run")
    console.result(table(headers, [_row(point) for point in found.points], right=(0, 1, 3, 4, 5, 6, 7, 8)))
    for note in found.notes:
        console.result(console.style(f"note: {note}", fg="yellow"))
    console.detail("command: " + " ".join(found.command))


def _row(point: PerfPoint) -> tuple[str, ...]:
    unit = "" if point.kind == "concurrency" else "/s"
    latencies = (f"{value:,.0f}" for value in (point.p50_us, point.p90_us, point.p95_us, point.p99_us))
    rows = point.rows_per_execution
    return (
        f"{point.level:g}{unit}",
        str(point.batch_size),
        point.label,
        f"{point.throughput_per_s:,.1f}",
        *latencies,
        "-" if rows is None else f"{rows:.2f}",
    )
