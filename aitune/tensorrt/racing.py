"""A plan against the ONNX model it was built from: which one is to be served?"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

from aitune.numerics import synthetic_inputs
from aitune.records.artifact import Artifact, ONNXArtifact, TensorRTPlanArtifact
from aitune.records.evidence import Tuning
from aitune.tensorrt.proof import domains_of, ranges_of
from aitune.tuning.candidate import Candidate
from aitune.tuning.choose import choose
from aitune.tuning.goal import Goal
from aitune.tuning.measure import Clock
from aitune.tuning.progress import SILENT, Progress

__all__ = ["contest"]

_SEED = 10


def contest(
    model: ONNXArtifact,
    plan: TensorRTPlanArtifact,
    candidates: Sequence[Candidate],
    *,
    objective: str = "throughput",
    seconds: float = 60.0,
    p95_ms: float | None = None,
    clock: Clock = time.perf_counter,
    progress: Progress = SILENT,
) -> Artifact:
    """The faster one of two artifacts, with the measurements in its evidence.

    Args:
        model: The ONNX artifact.
        plan: Its plan.
        candidates: The model under its own settings, then the plan.
        objective: ``"throughput"`` or ``"latency"``.
        seconds: Budget, in seconds.
        p95_ms: Time within which 95 % of the runs must end, in milliseconds; one that takes longer does not win, unless
            both do. None for no limit.
        clock: Tells the time.
        progress: Told of every step.

    Returns:
        ``model`` or ``plan``. Equally fast ones: the model, which serves on every host.
    """
    domains, ranges = domains_of(model), ranges_of(model)
    goal = Goal(
        objective=objective,
        batched=model.max_batch_size is not None,
        limit=model.max_batch_size or 1,
        fixed_batch=True,
        seconds=seconds,
        p95_ms=p95_ms,
    )
    choice = choose(
        candidates,
        lambda rows, label="typical", /: synthetic_inputs(
            model.inputs, domains, ranges.shapes(label, batch=rows), _SEED
        ),
        model.outputs,
        goal,
        clock=clock,
        progress=progress,
    )
    return _with(plan if choice.winner else model, choice.tuning)


def _with(artifact: Artifact, tuning: Tuning) -> Artifact:
    """The artifact with what was measured added; its own settings stay, and a plan has none."""
    if artifact.evidence is None:
        return artifact
    before = artifact.evidence.tuning
    kept = dataclasses.replace(
        tuning,
        settings=before.settings if before is not None else (),
        measurements=(*(before.measurements if before is not None else ()), *tuning.measurements),
        rejected=(*(before.rejected if before is not None else ()), *tuning.rejected),
    )
    return dataclasses.replace(artifact, evidence=dataclasses.replace(artifact.evidence, tuning=kept))
