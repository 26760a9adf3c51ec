"""The plans whose rendered bytes are kept; run as a program, this writes them anew.

``PYTHONPATH=. python tests/golden_configs.py``; then read the diff.
"""

from __future__ import annotations

from pathlib import Path

import handmade
from handmade import rows, whole

from aitune.records import DType, TensorRTPlanArtifact, TunedTensorSpec
from aitune.triton.plan import Plan, PlanOptions, plan
from aitune.triton.rendering import overlay, render

FOLDER = Path(__file__).parent / "golden" / "configs"


def encoder() -> Plan:
    """A sentence encoder with everything a tuner leaves: proof, samples' ranges, settings and a golden probe."""
    inputs = (
        TunedTensorSpec("input_ids", DType.INT64, ("batch", "sequence"), (1, 8), (8, 512), 0),
        TunedTensorSpec("attention_mask", DType.BOOL, ("batch", "sequence"), (1, 8), (8, 512), 0),
    )
    outputs = (TunedTensorSpec("embedding", DType.FLOAT32, ("batch", "sequence", 768), (1, 8, 768), (8, 512, 768), 0),)
    settings = {"intra_op_thread_count": "2", "inter_op_thread_count": "1", "optimization.graph.level": "1"}
    proof = handmade.evidence(
        inputs, tuning=handmade.tuning(**settings), probe=handmade.probe(inputs, outputs, count=12)
    )
    return plan(handmade.record(inputs, outputs, proof=proof), model_name="encoder", version=3)


def scalars() -> Plan:
    """Scalars, a string, a vector of rows: no batch, and the reason."""
    inputs = (whole("rate", DType.INT64), whole("text", DType.STRING, 1), whole("audio", DType.FLOAT32, "samples"))
    proof = handmade.evidence(inputs, batched=False, reason="output 'mean' is a scalar, it has no rows")
    return plan(handmade.record(inputs, [whole("mean")], proof=proof), model_name="scalars")


def labels() -> Plan:
    """One value a row on both sides, pinned to the CPU, without a warm-up by request."""
    inputs = (rows("id", DType.UINT32),)
    options = PlanOptions(target="cpu", warmup="none", instance_count=2, max_queue_delay_us=0)
    artifact = handmade.record(inputs, [rows("label", DType.STRING)], proof=handmade.evidence(inputs))
    return plan(artifact, model_name="labels", options=options)


def by_hand() -> Plan:
    """A record without evidence."""
    artifact = handmade.record([rows("x", DType.FLOAT32, 3, "h", "w")], [rows("y", DType.FLOAT32, 10)])
    return plan(artifact, model_name="by_hand")


def nasty() -> Plan:
    """Names that look like syntax, in the config and in its comments."""
    inputs = (rows('a "quoted" # name', DType.FLOAT32, "line\nbreak"), rows("it's é \x00", DType.FLOAT32, 2))
    reason = "output 'y\n}' has no rows"
    proof = handmade.evidence(inputs, batched=False, reason=reason)
    return plan(handmade.record(inputs, [whole("y\n}")], proof=proof), model_name="nasty")


def engine() -> Plan:
    """A TensorRT plan."""
    specs = (rows("x", DType.FLOAT16, 3, 224, 224), rows("y", DType.FLOAT16, 1000))
    artifact = TensorRTPlanArtifact(
        path=Path("m.plan"),
        fingerprint="cd" * 32,
        inputs=specs[:1],
        outputs=specs[1:],
        evidence=handmade.evidence(specs[:1]),
    )
    return plan(artifact, model_name="engine", options=PlanOptions(warmup="small"))


PLANS = {plan.__name__: plan for plan in (encoder, scalars, labels, by_hand, nasty, engine)}


def texts() -> dict[str, str]:
    """Every kept text by its file name."""
    found = {f"{name}.pbtxt": render(make()) for name, make in PLANS.items()}
    return {**found, "encoder.cpu.pbtxt": overlay(found["encoder.pbtxt"], "cpu")}


if __name__ == "__main__":
    for name, text in texts().items():
        (FOLDER / name).write_bytes(text.encode())
