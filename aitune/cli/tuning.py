"""How ``build`` measures: its options, the table of candidates, and the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aitune.cli.console import table
from aitune.cli.values import MILLISECONDS, SECONDS

if TYPE_CHECKING:
    from aitune.records import Artifact
    from aitune.records.evidence import Measurement, Tuning

__all__ = ["candidate_table", "tuning_fields", "tuning_options", "write_report"]

F = TypeVar("F", bound=Callable[..., Any])
PRECISIONS = ("fp32", "fp16", "int8")

_OPTIONS = (
    click.option("--tune/--no-tune", default=True, help="Measure candidates, or take the plain settings."),
    click.option(
        "--tune-seconds",
        type=SECONDS,
        default=60.0,
        show_default=True,
        help="Budget of measuring, without making files of candidates.",
    ),
    click.option(
        "--objective",
        type=click.Choice(["throughput", "latency"]),
        default="throughput",
        show_default=True,
        help="What the winner is best at.",
    ),
    click.option(
        "--p95-ms",
        type=MILLISECONDS,
        help="Time within which 95 % of the runs must end: the best throughput under it wins.",
    ),
    click.option(
        "--precision",
        default="fp32",
        show_default=True,
        metavar="fp32[,fp16][,int8]",
        help="What candidates may compute in; fp32 stands for the model's own numbers.",
    ),
    click.option(
        "--accuracy",
        metavar="file.py:function",
        help="Your own check of a candidate: called with the expected and its outputs, returns True or why not.",
    ),
    click.option("--cache/--no-cache", default=True, help="Use again what was made or measured of the same before."),
    click.option(
        "--report",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Write tuning.html and tuning.json there.",
    ),
)


def tuning_options(function: F) -> F:
    """The options of ``build`` that are about measuring."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def tuning_fields(options: dict[str, Any]) -> dict[str, Any]:
    """What they say, as fields of a request."""
    wanted = tuple(dict.fromkeys(word.strip() for word in options["precision"].split(",") if word.strip()))
    for word in wanted:
        if word not in PRECISIONS:
            raise click.UsageError(f"--precision {word!r} is not known; known are {', '.join(PRECISIONS)}")
    names = ("tune", "tune_seconds", "objective", "p95_ms", "accuracy", "cache")
    return {name: options[name] for name in names} | {"precision": wanted}


def candidate_table(tuning: Tuning) -> str:
    """Every candidate with its best measurement at the typical shape, or why it may not win."""
    reasons = dict(tuning.rejected)
    rows = []
    for tried in tuning.candidates:
        mine = [item for item in tuning.measurements if (item.candidate, item.shape) == (tried.name, "typical")]
        best = max(mine, key=lambda item: item.throughput_per_s, default=None)
        mark = "won" if tried.name == tuning.winner else reasons.get(tried.name, "")
        numbers = _numbers(best) if best is not None else ("", "", "", "", "")
        rows.append((tried.name, tried.precision, *numbers, mark if len(mark) <= 60 else mark[:57] + "..."))
    headings = ("candidate", "precision", "batch", "rows/s", "p50 ms", "95 % interval", "p95 ms", "")
    return table(headings, rows, right=(2, 3, 4, 5, 6))


def _numbers(item: Measurement) -> tuple[str, ...]:
    late = "" if item.p95_us is None else f"{item.p95_us / 1e3:.2f}"
    interval = f"{item.low_us / 1e3:.2f} to {item.high_us / 1e3:.2f}"
    return str(item.batch_size), f"{item.throughput_per_s:.1f}", f"{item.p50_us / 1e3:.2f}", interval, late


def write_report(artifact: Artifact, model: str, folder: Path) -> tuple[Path, ...]:
    """Write ``tuning.json`` and ``tuning.html`` into a folder, which is made if need be; nothing without a tuning.

    Raises:
        UsageError: If the folder cannot be written.
    """
    from aitune.cli.tuning_page import to_html
    from aitune.records.codec import dump
    from aitune.triton.report_files import write_texts

    evidence = artifact.evidence
    if evidence is None or evidence.tuning is None:
        return ()
    data = {
        "schema_version": 1,
        "model": model,
        "tuning": dump(evidence.tuning),
        "provenance": dict(evidence.provenance),
    }
    texts = {"tuning.json": json.dumps(data, indent=2) + "\n", "tuning.html": to_html(artifact, model)}
    return write_texts(folder, texts)
