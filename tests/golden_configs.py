"""The plans whose rendered bytes are kept; run as a program, this writes them anew.

``PYTHONPATH=. python tests/golden_configs.py``; then read the diff.
"""

from __future__ import annotations

from pathlib import Path

import handmade
from handmade import rows, whole

from aitune.records import DType, TensorRTPlanArtifact, TunedTensorSpec
from aitune.records.accelerators import GPU_ACCELERATOR
from aitune.records.artifact import Companion
from aitune.records.evidence import Tried, Tuning
from aitune.records.plans import PlanFacts, PlanTensor, PlanVariant, Profile, ProfileRange
from aitune.triton.plan import Plan, PlanOptions, plan
from aitune.triton.plan_accelerator import AcceleratorOptions
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
    inputs = (rows('a "quoted" # name', DType.FLOAT32, "line\nbreak"), rows("it's é \x01", DType.FLOAT32, 2))
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


def engines() -> Plan:
    """Plans for two kinds of GPU with two profiles, CUDA graphs, and a vectorised input."""
    specs = (rows("x", DType.FLOAT16, 8, "h", "w"), rows("y", DType.FLOAT16, 1000))
    ranges = [ProfileRange(name="x", min=(1, 8, 1, 1), opt=(8, 8, 2, 2), max=(8, 8, top, top)) for top in (2, 8)]
    facts = PlanFacts(
        builder="tensorrt",
        version="10.5.0.18",
        compute_capability="8.9",
        profiles=tuple(Profile(inputs=(item,)) for item in ranges),
        tensors=(PlanTensor(name="x", format="HWC8"), PlanTensor(name="y")),
        variants=(
            PlanVariant(compute_capability="8.9", file="", version="10.5.0.18"),
            PlanVariant(compute_capability="9.0", file="model_sm90.plan", version="10.5.0.18"),
        ),
    )
    artifact = TensorRTPlanArtifact(
        path=Path("m.plan"),
        fingerprint="cd" * 32,
        inputs=specs[:1],
        outputs=specs[1:],
        companions=(Companion(name="model_sm90.plan", fingerprint="ef" * 32),),
        evidence=handmade.evidence(specs[:1]),
        plan=facts,
    )
    return plan(artifact, model_name="engines", options=PlanOptions(warmup="none", cuda_graphs=True))


def shapes() -> Plan:
    """A TensorRT plan with a shape tensor: no batch, no graphs."""
    inputs = (whole("x", DType.FLOAT32, "n"), whole("size", DType.INT32, 2))
    facts = PlanFacts(
        builder="tensorrt",
        version="10.5.0.18",
        profiles=(
            Profile(
                inputs=(
                    ProfileRange(name="x", min=(1,), opt=(2,), max=(2,)),
                    ProfileRange(name="size", min=(1, 1), opt=(1, 2), max=(2, 2), values=True),
                )
            ),
        ),
        tensors=(PlanTensor(name="x"), PlanTensor(name="size", shape_tensor=True), PlanTensor(name="y")),
    )
    artifact = TensorRTPlanArtifact(
        path=Path("m.plan"),
        fingerprint="cd" * 32,
        inputs=inputs,
        outputs=(whole("y", DType.FLOAT32, "a", "b"),),
        evidence=handmade.evidence(inputs, batched=False, reason="input 'size' has no rows"),
        plan=facts,
    )
    return plan(artifact, model_name="shapes", options=PlanOptions(cuda_graphs=True))


def accelerated() -> Plan:
    """An ONNX model for which the server builds TensorRT engines, beside a tuned graph level."""
    inputs = (
        TunedTensorSpec("ids", DType.INT64, ("batch", "sequence"), (1, 8), (8, 512), 0),
        TunedTensorSpec("mask", DType.BOOL, ("batch", "sequence"), (1, 8), (8, 512), 0),
    )
    proof = handmade.evidence(inputs, tuning=handmade.tuning(**{"optimization.graph.level": "1"}))
    options = PlanOptions(
        accelerator=AcceleratorOptions(
            name="tensorrt", precision="fp16", cache="/var/cache/trt/", workspace_bytes=1 << 30
        )
    )
    artifact = handmade.record(inputs, [rows("y", DType.FLOAT32, 4)], proof=proof)
    return plan(artifact, model_name="accelerated", options=options)


def tensorrt_won() -> Plan:
    """An ONNX model whose winner, measured on a GPU, ran in ONNX Runtime's TensorRT provider in float16."""
    inputs = (TunedTensorSpec("ids", DType.INT64, ("batch", "sequence"), (1, 8), (8, 512), 0),)
    tuning = Tuning(
        objective="throughput",
        winner="tensorrt-fp16",
        reason="'tensorrt-fp16' answers a batch of 8 in 1.93 ms (4,145.1 rows per second), 2.4 times 'default'",
        settings=((GPU_ACCELERATOR, "tensorrt:fp16"),),
        candidates=(Tried(name="default"), Tried(name="tensorrt-fp16", precision="fp16")),
    )
    proof = handmade.evidence(inputs, tuning=tuning)
    artifact = handmade.record(inputs, [rows("y", DType.FLOAT32, 4)], proof=proof)
    return plan(artifact, model_name="tensorrt_won", options=PlanOptions(target="gpu"))


PLANS = {
    plan.__name__: plan
    for plan in (encoder, scalars, labels, by_hand, nasty, engine, engines, shapes, accelerated, tensorrt_won)
}


def texts() -> dict[str, str]:
    """Every kept text by its file name."""
    found = {f"{name}.pbtxt": render(make()) for name, make in PLANS.items()}
    return {**found, "encoder.cpu.pbtxt": overlay(found["encoder.pbtxt"], "cpu")}


if __name__ == "__main__":
    for name, text in texts().items():
        (FOLDER / name).write_bytes(text.encode())
