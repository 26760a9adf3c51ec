"""Which candidate serves the model, and up to which batch: both decided by measuring."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from aitune.errors import UsageError
from aitune.numerics import Array
from aitune.records import TensorSpec
from aitune.tuning.accuracy import Judge
from aitune.tuning.admission import Admission, Ask
from aitune.tuning.candidate import Candidate, Launch, open_here
from aitune.tuning.contest import Choice, Contest
from aitune.tuning.goal import OBJECTIVES, Goal
from aitune.tuning.journal import Journal
from aitune.tuning.ledger import Ledger, Requests
from aitune.tuning.measure import Clock
from aitune.tuning.pool import Pool
from aitune.tuning.progress import SILENT, Progress
from aitune.tuning.verdicts import EQUIVALENT, winner_of

__all__ = ["EQUIVALENT", "OBJECTIVES", "Choice", "Goal", "choose", "winner_of"]

Tensors = Mapping[str, Array]


def choose(
    candidates: Sequence[Candidate],
    requests: Requests,
    outputs: Sequence[TensorSpec],
    goal: Goal,
    *,
    judge: Judge | None = None,
    reference: Ask | None = None,
    samples: Sequence[Tensors] = (),
    labels: Sequence[str] = ("typical",),
    launch: Launch = open_here,
    journal: Journal | None = None,
    clock: Clock = time.perf_counter,
    progress: Progress = SILENT,
) -> Choice:
    """Measure, and choose the largest useful batch and the winning candidate.

    The batch is found with the first candidate; all candidates that give the source's answers are then measured in
    turns, at that batch for throughput, at one row for latency. For throughput, the fastest of them go on to look for a
    batch of their own, and the pairs of candidate and batch are measured in turns.

    Args:
        candidates: Simplest first, names unique; the first is the baseline.
        requests: Makes valid requests.
        outputs: Outputs, for comparing answers.
        goal: What the winner must be best at.
        judge: Compares answers; by default with the table of tolerances.
        reference: The source model itself; by default the first candidate stands for it.
        samples: Recorded requests, whose answers are compared as well.
        labels: Shapes that differ from each other, the typical one among them.
        launch: Opens a candidate for measuring.
        journal: Knows what was measured before.
        clock: Tells the time.
        progress: Told of every round.

    Raises:
        UsageError: If two candidates have one name.
        SourceError: If no candidate runs.
    """
    names = [candidate.name for candidate in candidates]
    if len(set(names)) != len(names):
        raise UsageError(f"candidates {names} cannot be tuned: names must be unique")
    ledger = Ledger(
        clock=clock,
        deadline=clock() + goal.seconds,
        seconds=goal.seconds,
        progress=progress,
        journal=journal or Journal(),
    )
    with Pool(candidates, launch, clock=clock, making=ledger.unbudgeted) as pool:
        admission = Admission(pool, requests, ledger, judge or Judge(outputs), reference, samples)
        return Contest(candidates, pool, requests, goal, ledger, admission, labels).decide()
