"""The results as a page of tables."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tuning_bench.models import Row

TABLES: tuple[tuple[str, str, dict[str, str]], ...] = (
    (
        "gain",
        "Under perf_analyzer at concurrency 8, requests of one row: the winner beside the settings of Triton's\n"
        "auto-complete for the same file (two instances, all threads each, batches of at most 4), in turns.",
        {
            "winner": "{winner} at {batch}",
            "auto-complete": "{default_per_s:,.1f} rows/s, p99 {default_p99_ms:,.1f} ms",
            "tuned": "{tuned_per_s:,.1f} rows/s, p99 {tuned_p99_ms:,.1f} ms",
            "gain": "{gain:.2f}",
        },
    ),
    (
        "share_of_loop",
        "Requests of the batch at which a bare `session.run` loop is fastest, through shared memory, beside that\n"
        "loop, in turns: those rounds in which the loop was most nearly as fast after the server as before it.",
        {
            "batch": "{loop_batch}",
            "bare loop": "{loop_per_s:,.1f} rows/s",
            "server": "{served_per_s:,.1f} rows/s",
            "share": "{share_of_loop:.2f}",
            "before and after": "within {loop_change:.1%}, {loop_counted} of {loop_rounds} rounds",
        },
    ),
    (
        "share_of_best",
        "The choice beside a grid of every candidate at every batch the tuner can reach, each point for 30 rounds.\n"
        "Right after a choice it is measured in turns with each candidate at the grid's best batch for it, while\n"
        "the machine is as fast as it was for the grid; on a quiet machine it is made again, twice at most, when\n"
        "the machine was not. Busy: five choices while another process works and rests in turns. The host of a\n"
        "virtual machine may run two processors that wait for each other more slowly for a minute, and then other\n"
        "batches are the best: a choice that was made then, or could only be judged then, says so.",
        {
            "chosen": "{chosen}",
            "of the best": "{share_of_best:.3f}",
            "chosen when busy, of the best": "{chosen_when_busy}",
            "best of the grid": "{grid_best}",
            "time of choosing": "{choosing_seconds:.0f} s of {grid_seconds:.0f} s for {grid_points} points "
            "({share_of_time:.0%})",
        },
    ),
    (
        "int8",
        "Where int8 is allowed (`--precision fp32,int8`), at concurrency 8.",
        {"winner": "{int8_winner} at {int8_batch}", "what happened to int8": "{int8}"},
    ),
)


def tables(rows: Sequence[Row]) -> str:
    """All rows as a page of tables."""
    import onnxruntime

    from aitune.numerics.processor import processor

    servers = " and ".join(sorted({row["server"] for row in rows if "server" in row}))
    page = [
        "# What tuning brings",
        "",
        f"Written by `scripts/bench_tuning` on {processor()} with {os.cpu_count()} processors and ONNX Runtime",
        f"{onnxruntime.__version__}; served by {servers}.",
    ]
    for part, what, columns in TABLES:
        having = [row for row in rows if part in row]
        if having:
            page += ["", what, "", line(["model", *columns]), line(["---"] * (len(columns) + 1))]
            page += [line([row["model"], *(text.format(**row) for text in columns.values())]) for row in having]
    return "\n".join(page) + "\n"


def line(cells: Sequence[str]) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"
