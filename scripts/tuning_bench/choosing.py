"""What the tuner chooses, beside a grid of everything it could have chosen."""

from __future__ import annotations

import math
import multiprocessing
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tuning_bench.models import BATCHES, Model, Row, say

GRID_ROUNDS = 30
TRUTH_ROUNDS, TRUTH_S = 40, 25.0
TRIES, SLOWER = 3, 1.15
"""So often, at most, it is chosen on a quiet machine, and judged; not again when nothing runs so many times slower than
it did for the grid."""
BUSY_RUNS = 5


@dataclass(frozen=True)
class Pair:
    """A candidate at a batch."""

    candidate: str
    batch: int

    def __str__(self) -> str:
        return f"{self.candidate} at {self.batch}"


@dataclass(frozen=True)
class Found:
    """What the tuner found: the pair, rows per second of all it measured, how long it took, and who may not win."""

    pair: Pair
    speeds: Mapping[Pair, float]
    seconds: float
    rejected: Sequence[str]

    def slowness(self, grid: Mapping[Pair, float]) -> float:
        """How many times slower than for the grid the machine was meanwhile, in the median of what both measured."""
        return statistics.median([grid[pair] / self.speeds[pair] for pair in self.speeds.keys() & grid.keys()])


def choice(model: Model, tune_seconds: float) -> Row:
    """The tuner beside a grid, once on a quiet machine and five times while others work on it.

    What was chosen is measured right after, in turns with each candidate at the batch that is best for it in the grid,
    while the machine is as fast as it was for the grid: a shared host may not be, and is waited for.
    """
    say(f"{model.name}: measuring the grid")
    start = time.perf_counter()
    largest = 64 if model.artifact.max_batch_size else 1
    grid = measured(model, [Pair(name, rows) for name in every_candidate(model) for rows in BATCHES if rows <= largest])
    grid_seconds = time.perf_counter() - start
    leaders = {}
    for pair in sorted(grid, key=lambda one: grid[one]):
        leaders[pair.candidate] = pair
    say(f"{model.name}: the grid's best are {', '.join(map(str, leaders.values()))}; choosing")
    for _ in range(TRIES):
        found = choose_once(model, tune_seconds)
        if found.slowness(grid) < SLOWER:
            break
        say(f"  the machine is slower than it was, {found.slowness(grid):.2f} times: choosing again")
    quiet_one = judged(model, found, grid, leaders)
    busy_ones = []
    for number in range(BUSY_RUNS):
        say(f"{model.name}: choosing on a busy machine, {number + 1} of {BUSY_RUNS}")
        with others_at_work():
            found = choose_once(model, tune_seconds)
        busy_ones.append(judged(model, found, grid, leaders))
    seconds = [one["seconds"] for one in (quiet_one, *busy_ones)]
    return {
        "quiet": quiet_one,
        "busy": busy_ones,
        "chosen": quiet_one["chosen"],
        "share_of_best": quiet_one["share"],
        "chosen_when_busy": ", ".join(told(one) for one in busy_ones),
        "grid_points": len(grid),
        "grid_best": str(max(grid, key=lambda one: grid[one])),
        "grid_seconds": grid_seconds,
        "choosing_seconds": seconds[0],
        "share_of_time": seconds[0] / grid_seconds,
    }


def judged(model: Model, found: Found, grid: Mapping[Pair, float], leaders: Mapping[str, Pair]) -> Row:
    """A choice, and its share of the best of all that may win."""
    pair = found.pair
    others = [leader for name, leader in leaders.items() if name not in found.rejected]
    pairs = list(dict.fromkeys([pair, *others]))
    known = {one: one.batch / grid[one] for one in pairs if one in grid}
    slowness, truth = math.inf, dict[Pair, float]()
    for _ in range(TRIES):
        judgement = measured(model, pairs, TRUTH_ROUNDS, TRUTH_S, known)
        now = max((grid[one] / judgement[one] for one in known if one in judgement), default=1.0)
        if now < slowness:
            slowness, truth = now, judgement
        if slowness < SLOWER:
            break
        say(f"  the machine is slower than it was, {now:.2f} times: judging again")
    best = max(truth, key=lambda one: truth[one])
    say(f"  {truth[pair] / truth[best]:.3f} of the best, {best}")
    row: Row = {"chosen": str(pair), "seconds": found.seconds, "share": truth[pair] / truth[best], "best": str(best)}
    return row | {"slowness": slowness, "slowness_of_choosing": found.slowness(grid)}


def told(one: Row) -> str:
    """A choice with its share of the best, and whether the machine was slow when it was made or judged."""
    aside = ""
    for word, slowness in (("chosen", one["slowness_of_choosing"]), ("judged", one["slowness"])):
        aside += f", {word} on a machine {slowness:.1f} times slower" if slowness >= SLOWER else ""
    return f"{one['chosen']} ({one['share']:.3f}{aside})"


def every_candidate(model: Model) -> dict[str, Any]:
    """All candidates, by name."""
    from aitune.onnx.candidates import candidates

    return {one.name: one for one in candidates(model.file)}


def choose_once(model: Model, tune_seconds: float) -> Found:
    """What the tuner chooses."""
    from aitune.onnx.isolation import launch
    from aitune.records import TensorSpec
    from aitune.tuning import choose
    from aitune.tuning.choose import Goal

    artifact = model.artifact
    batched = artifact.max_batch_size is not None
    start = time.perf_counter()
    found = choose(
        tuple(every_candidate(model).values()),
        model.request,
        [TensorSpec(one.name, one.dtype, one.shape) for one in artifact.outputs],
        Goal(batched=batched, limit=64 if batched else 1, seconds=tune_seconds),
        launch=launch,
    )
    tuning, seconds = found.tuning, time.perf_counter() - start
    pair = Pair(tuning.winner, found.max_batch_size or 1)
    say(f"  {pair}: {tuning.reason}")
    speeds = {
        Pair(one.candidate, one.batch_size): one.batch_size / one.low_us * 1e6
        for one in tuning.measurements
        if one.shape == "typical"
    }
    return Found(pair, speeds, seconds, [name for name, why in tuning.rejected if "budget" not in why])


def measured(
    model: Model,
    pairs: Sequence[Pair],
    rounds: int = GRID_ROUNDS,
    seconds: float = math.inf,
    fastest: Mapping[Pair, float] | None = None,
) -> dict[Pair, float]:
    """Rows per second of every pair, all of them in turns; ``fastest`` has seconds of a run that were seen before."""
    from aitune.onnx.isolation import launch
    from aitune.tuning.measure import measure_in_turns, quiet
    from aitune.tuning.pool import Pool

    batched = model.artifact.max_batch_size is not None
    requests = {pair.batch: model.request(pair.batch if batched else None) for pair in pairs}
    known = every_candidate(model)
    with Pool([known[name] for name in {pair.candidate for pair in pairs}], launch, clock=time.perf_counter) as pool:
        times = measure_in_turns(
            {str(pair): pool.turn(pair.candidate, requests[pair.batch]) for pair in pairs},
            seconds=seconds,
            max_rounds=rounds,
            fastest={str(pair): value for pair, value in (fastest or {}).items()},
        )
    return {pair: pair.batch / quiet(times.times_s[str(pair)]) for pair in pairs if str(pair) in times.times_s}


@contextmanager
def others_at_work() -> Iterator[None]:
    """A process that works and rests in turns of random length, as on a machine that is shared."""
    with ExitStack() as stack:
        process = multiprocessing.Process(target=_work_and_rest, daemon=True)
        process.start()
        stack.callback(process.join)
        stack.callback(process.terminate)
        yield


def _work_and_rest() -> None:
    generator = random.Random(0)
    while True:
        end = time.perf_counter() + generator.uniform(0.0, 1.0)
        while time.perf_counter() < end:
            pass
        time.sleep(generator.uniform(0.0, 1.0))
