"""A plan against the model it was built from."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import handmade
import numpy as np
import pytest
from handmade import rows
from tuning_fakes import Fake, FakeClock

from aitune.records import Artifact, DType, ONNXArtifact, TensorRTPlanArtifact
from aitune.tensorrt import contest
from aitune.tensorrt.proof import domains_of, ranges_of


def pair() -> tuple[ONNXArtifact, TensorRTPlanArtifact]:
    """A model of four floats a row, and its plan."""
    inputs = (rows("x", DType.FLOAT32, 4),)
    proof = handmade.evidence(inputs, tuning=handmade.tuning(intra_op_thread_count="2"))
    model = handmade.record(inputs, [rows("y", DType.FLOAT32, 4)], proof=proof)
    plan = TensorRTPlanArtifact(
        path=Path("m.plan"),
        fingerprint="cd" * 32,
        inputs=model.inputs,
        outputs=model.outputs,
        evidence=handmade.evidence(inputs),
    )
    return model, plan


def timed(clock: FakeClock, seconds: float, change: float = 0.0) -> Callable[[np.ndarray[Any, Any]], Any]:
    """``y = 2 x``, taking a while."""

    def run(x: np.ndarray[Any, Any]) -> Any:
        clock.spend(seconds)
        return x * 2 + np.float32(change)

    return run


@pytest.mark.parametrize(
    ("model_s", "plan_s", "change", "winner"),
    [(0.010, 0.002, 0.0, "tensorrt_plan"), (0.010, 0.010, 0.0, "onnx"), (0.010, 0.002, 0.5, "onnx")],
)
def test_the_faster_one_that_answers_alike_is_served(model_s: float, plan_s: float, change: float, winner: str) -> None:
    """Equally fast: the model, which serves everywhere. Faster and wrong: the model as well."""
    model, plan = pair()
    clock = FakeClock()
    candidates = [Fake(timed(clock, model_s), "onnxruntime"), Fake(timed(clock, plan_s, change), "tensorrt")]
    found: Artifact = contest(model, plan, candidates, seconds=20, clock=clock)
    assert found.format == winner
    assert found.evidence is not None
    assert found.evidence.tuning is not None
    assert found.evidence.tuning.winner == ("tensorrt" if winner == "tensorrt_plan" else "onnxruntime")
    assert dict(found.evidence.tuning.settings) == ({} if winner == "tensorrt_plan" else {"intra_op_thread_count": "2"})
    assert all(candidate.opened == candidate.closed for candidate in candidates)


def stalling(clock: FakeClock) -> Callable[[np.ndarray[Any, Any]], Any]:
    """``y = 2 x`` in two milliseconds, and every eighth time in thirty."""
    calls = itertools.count(1)

    def run(x: np.ndarray[Any, Any]) -> Any:
        clock.spend(0.030 if next(calls) % 8 == 0 else 0.002)
        return x * 2

    return run


@pytest.mark.parametrize(("p95_ms", "winner"), [(None, "tensorrt_plan"), (20.0, "onnx")])
def test_a_plan_that_ends_too_late_is_not_served(p95_ms: float | None, winner: str) -> None:
    """``--p95-ms``: a plan that is faster most of the time and stalls now and then loses against a steady model."""
    model, plan = pair()
    clock = FakeClock()
    candidates = [Fake(timed(clock, 0.010), "onnxruntime"), Fake(stalling(clock), "tensorrt")]
    found: Artifact = contest(model, plan, candidates, seconds=60, p95_ms=p95_ms, clock=clock)
    assert found.format == winner
    assert found.evidence is not None
    assert found.evidence.tuning is not None
    assert found.evidence.tuning.p95_ms == p95_ms
    late = dict(found.evidence.tuning.rejected).get("tensorrt", "")
    assert ("at the 95th percentile, 20 ms are allowed" in late) is (winner == "onnx")


def test_a_record_without_evidence_keeps_none() -> None:
    """There is nowhere to write the measurements."""
    import dataclasses

    model, plan = (dataclasses.replace(found, evidence=None) for found in pair())
    clock = FakeClock()
    candidates = [Fake(timed(clock, 0.01), "onnxruntime"), Fake(timed(clock, 0.001), "tensorrt")]
    found = contest(model, plan, candidates, seconds=20, clock=clock)  # type: ignore[arg-type]
    assert (found.format, found.evidence) == ("tensorrt_plan", None)


def test_shapes_that_nobody_knows_are_the_largest() -> None:
    """A record without evidence is measured at its upper bounds."""
    import dataclasses

    model = dataclasses.replace(pair()[0], evidence=None)
    assert domains_of(model)[0].typical_shape == model.inputs[0].max_shape
    assert ranges_of(model).shapes("typical") == {"x": model.inputs[0].max_shape}
