"""On a real server under perf_analyzer: beside Triton's defaults, beside a bare loop, and with int8."""

from __future__ import annotations

import re
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuning_bench.models import BATCHES, Model, Row, aitune, build, say

TRIES, STEADY = 4, 1.15
"""So many times as many rounds, at most, until enough had a loop as fast after the server as before it."""
SHARED_MEMORY = ("--shared-memory", "system", "--output-shared-memory-size", 1 << 20)
"""What a loop has in its memory comes to the server the same way, and not through a socket."""
PARAMETERS = re.compile(r"parameters \{\n  key: \"(?!aitune)[^\"]*\"\n  value \{[^}]*\}\n\}\n")


def auto_completed(tuned: Path, target: Path, name: str) -> None:
    """The same model as Triton's auto-complete serves it."""
    shutil.copytree(tuned, target)
    path = target / name / "config.pbtxt"
    text = PARAMETERS.sub("", path.read_text(encoding="utf-8"))
    text = re.sub(r"optimization \{ graph \{ level: -?\d+ \} \}", "", text)
    text = re.sub(r"max_batch_size: (\d+)", lambda found: f"max_batch_size: {min(4, int(found[1]))}", text)
    text = re.sub(r"(?ms)^dynamic_batching \{.*?^\}", "dynamic_batching { }", text)
    text = re.sub(r"(?ms)^model_warmup \{.*?^\}\n", "", text)
    path.write_text(text.replace("count: 1\n", "count: 2\n"), encoding="utf-8")


def served(model: Model, root: Path, *words: object, passed_on: Sequence[object] = ()) -> Row:
    """One measurement of perf_analyzer on a real server."""
    report = aitune("perf", root, "-m", model.name, "--shape", "typical", *words, passed_on=passed_on)
    return {**report["points"][0], "proved_by": report.get("proved_by")}


def serving(model: Model, folder: Path, rounds: int) -> Row:
    """The winner beside Triton's defaults and beside a bare loop."""
    plain = folder / f"{model.name}-default"
    auto_completed(model.root, plain, model.name)
    found: dict[str, list[Row]] = {"default": [], "tuned": []}
    for number in range(rounds):
        for word, root in (("default", plain), ("tuned", model.root)):
            say(f"{model.name}: serving, round {number + 1}, {word}")
            found[word].append(served(model, root, "--concurrency", 8))
    by = found["tuned"][0]["proved_by"]
    row: Row = {"server": f"tritonserver {by['server']} with the backend {by['implementation']}"}
    for word, points in found.items():
        row[f"{word}_per_s"] = statistics.median(point["throughput_per_s"] for point in points)
        row[f"{word}_p99_ms"] = statistics.median(point["p99_us"] for point in points) / 1e3
    row["gain"] = row["tuned_per_s"] / row["default_per_s"]
    return row | beside_a_loop(model, rounds)


def beside_a_loop(model: Model, rounds: int) -> Row:
    """Requests of the loop's best batch beside the loop, in turns, while the loop is as fast as before.

    A shared host runs two threads that wait for each other at half the speed for seconds. A round counts when the loop
    was as fast after the server as before it.
    """
    best: dict[int, float] = {}
    largest = model.artifact.max_batch_size or 1
    loops = {rows: loop(model, rows) for rows in BATCHES if rows <= largest}
    for rows, run in loops.items():
        best[rows] = rows / run()
    rows = max(best, key=lambda rows: best[rows])
    seen: list[tuple[float, float, float]] = []
    for number in range(rounds * TRIES):
        say(f"{model.name}: beside a bare loop of batch {rows}, round {number + 1}")
        before = rows / loops[rows]()
        server = served(model, model.root, "--concurrency", 3, "-b", rows, passed_on=SHARED_MEMORY)["throughput_per_s"]
        after = rows / loops[rows]()
        seen.append((max(before, after) / min(before, after), (before + after) / 2, server))
        say(f"  the loop {before:,.1f} rows/s, the server {server:,.1f}, the loop again {after:,.1f}")
        if sum(change < STEADY for change, _, _ in seen) == rounds:
            break
    steadiest = sorted(seen)[:rounds]
    return {
        "loop_batch": rows,
        "loop_per_s": statistics.median(bare for _, bare, _ in steadiest),
        "served_per_s": statistics.median(server for _, _, server in steadiest),
        "share_of_loop": statistics.median(server / bare for _, bare, server in steadiest),
        "loop_rounds": len(seen),
        "loop_counted": len(steadiest),
        "loop_change": steadiest[-1][0] - 1,
    }


def loop(model: Model, rows: int, seconds: float = 2.0) -> Callable[[], float]:
    """A bare ``session.run`` loop as anybody would write it, or under the winner's settings if that is faster."""
    import onnxruntime

    from aitune.onnx.runtime import session_options

    feed = model.request(rows if model.artifact.max_batch_size else None)
    settings = model.artifact.evidence.tuning.settings
    sessions = [
        onnxruntime.InferenceSession(str(model.file), options, providers=["CPUExecutionProvider"])
        for options in (onnxruntime.SessionOptions(), session_options(dict(settings)))
    ]

    def run() -> float:
        return min(_seconds_per_run(session, feed, seconds) for session in sessions)

    return run


def _seconds_per_run(session: Any, feed: Mapping[str, Any], seconds: float) -> float:
    for _ in range(3):
        session.run(None, feed)
    start, runs = time.perf_counter(), 0
    while time.perf_counter() - start < seconds or runs < 3:
        session.run(None, feed)
        runs += 1
    return (time.perf_counter() - start) / runs


def int8(model: Model, folder: Path, tune_seconds: float, rounds: int) -> Row:
    """What is gained, and lost in accuracy, where int8 is allowed."""
    allowed = build(model.name, folder, tune_seconds, "--precision", "fp32,int8")
    tuning = allowed.built["tuning"]
    precisions = {one["name"]: one["precision"] for one in tuning["candidates"]}
    rejected = dict(tuning["rejected"]) if isinstance(tuning["rejected"], list) else tuning["rejected"]
    row: Row = {"int8_winner": tuning["winner"], "int8_batch": allowed.built["max_batch_size"]}
    row["int8_rejected"] = {name: why for name, why in rejected.items() if precisions.get(name) == "int8"}
    row["int8"] = "; ".join(f"{one}: {why}" for one, why in row["int8_rejected"].items()) or "was not the fastest"
    if precisions[tuning["winner"]] == "int8":
        row["int8_accuracy"] = [one for one in tuning["accuracy"] if one["candidate"] == tuning["winner"]]
        mine, other = [], []
        for number in range(rounds):
            say(f"{model.name}: int8 beside fp32, round {number + 1}")
            mine.append(served(allowed, allowed.root, "--concurrency", 8)["throughput_per_s"])
            other.append(served(model, model.root, "--concurrency", 8)["throughput_per_s"])
            say(f"  int8 {mine[-1]:,.1f} rows/s, fp32 {other[-1]:,.1f}")
        row["int8_gain"] = statistics.median(mine) / statistics.median(other)
        worst = min(one["cosine"] for one in row["int8_accuracy"])
        row["int8"] = f"{row['int8_gain']:.2f} times as fast as fp32, smallest cosine {worst:.5f}"
    return row
