"""Hypothesis strategies for records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from aitune.records import DType, ONNXArtifact, TensorRTPlanArtifact, TunedTensorSpec
from aitune.records.artifact import Companion
from aitune.records.evidence import (
    Accuracy,
    Batching,
    Evidence,
    InputDomain,
    Measurement,
    Probe,
    ProbeOutput,
    Sample,
    SampleFile,
    SampleTensor,
    Trial,
    Tried,
    Tuning,
)
from aitune.records.plans import HARDWARE_LEVELS, PlanFacts, PlanTensor, PlanVariant, Profile, ProfileRange

texts = st.text(st.characters(codec="utf-8"), max_size=12)
names = texts.filter(str.strip)
finite = st.floats(allow_nan=False, allow_infinity=False)
sizes = st.integers(1, 1 << 40)
shapes = st.lists(sizes, max_size=4).map(tuple)
fingerprints = st.text("0123456789abcdef", min_size=64, max_size=64)
pairs = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)


def many(strategy: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    """Tuples of it."""
    return st.lists(strategy, max_size=most).map(tuple)


@st.composite
def tuned_specs(draw: st.DrawFn) -> TunedTensorSpec:
    """Any valid contract; symbols are used once, so that one symbol has one range."""
    shape, low, high = [], [], []
    for axis in range(draw(st.integers(0, 4))):
        first, second = sorted((draw(sizes), draw(sizes)))
        kind = draw(st.sampled_from(["fixed", "symbol", "unnamed"]))
        shape.append({"fixed": first, "symbol": f"s{axis}", "unnamed": None}[kind])
        low.append(first)
        high.append(first if kind == "fixed" else second)
    axes = st.none() | st.integers(0, len(shape) - 1) if shape else st.none()
    return TunedTensorSpec(draw(names), draw(st.sampled_from(DType)), tuple(shape), tuple(low), tuple(high), draw(axes))


@st.composite
def domains(draw: st.DrawFn) -> InputDomain:
    """Any valid domain."""
    low, high = sorted((draw(finite), draw(finite)))
    return InputDomain(
        name=draw(names), typical_shape=draw(shapes), low=low, high=high, zeros_valid=draw(st.booleans())
    )


trials = st.builds(Trial, check=texts, batch_sizes=many(sizes), tensor=texts, passed=st.booleans(), detail=texts)
batchings = st.builds(Batching, verdict=st.sampled_from(["batched", "unbatched"]), reason=texts, evidence=many(trials))
measurements = st.builds(
    Measurement,
    candidate=texts,
    batch_size=sizes,
    shape=texts,
    throughput_per_s=finite,
    p50_us=finite,
    low_us=finite,
    high_us=finite,
    p95_us=st.none() | finite,
    runs=sizes,
)
tried = st.builds(Tried, name=texts, precision=texts, settings=pairs)
accuracies = st.builds(
    Accuracy,
    candidate=texts,
    output=texts,
    max_abs=st.none() | finite,
    max_rel=st.none() | finite,
    cosine=st.none() | finite,
    passed=st.booleans(),
    detail=texts,
)
tunings = st.builds(
    Tuning,
    objective=texts,
    p95_ms=st.none() | finite,
    winner=texts,
    reason=texts,
    settings=pairs,
    candidates=many(tried),
    measurements=many(measurements),
    accuracy=many(accuracies),
    rejected=pairs,
)
sample_tensors = st.builds(SampleTensor, name=names, shape=shapes, offset=sizes, nbytes=sizes)
samples = st.builds(
    Sample,
    label=st.sampled_from(["smallest", "typical", "largest"]),
    origin=st.sampled_from(["synthetic", "recorded"]),
    inputs=many(sample_tensors),
    outputs=many(sample_tensors),
)
sample_files = st.builds(
    SampleFile, name=st.sampled_from(["aitune_samples.bin", "s.bin"]), fingerprint=fingerprints, samples=many(samples)
)
probe_outputs = st.builds(
    ProbeOutput, name=names, shape=shapes, stride=sizes, values=many(finite | st.integers(-(2**60), 2**60) | texts)
)
probes = st.builds(Probe, seed=sizes, inputs=many(domains()), outputs=many(probe_outputs))
evidences = st.builds(
    Evidence,
    batching=st.none() | batchings,
    inputs=many(domains()),
    probe=st.none() | probes,
    samples=st.none() | sample_files,
    tuning=st.none() | tunings,
    provenance=pairs,
    notes=many(texts),
)


@st.composite
def profile_ranges(draw: st.DrawFn) -> ProfileRange:
    """Any valid range of a profile."""
    triples = [sorted(draw(st.tuples(sizes, sizes, sizes))) for _ in range(draw(st.integers(0, 3)))]
    low, typical, high = (tuple(triple[index] for triple in triples) for index in range(3))
    return ProfileRange(name=draw(names), min=low, opt=typical, max=high, values=draw(st.booleans()))


profiles = st.builds(Profile, inputs=many(profile_ranges()))
plan_tensors = st.builds(
    PlanTensor, name=names, format=st.sampled_from(["LINEAR", "CHW32"]), shape_tensor=st.booleans()
)
plan_facts = st.builds(
    PlanFacts,
    builder=st.sampled_from(["tensorrt", "tensorrt_rtx"]),
    version=texts,
    compute_capability=st.sampled_from(["", "8.9", "12.0"]),
    hardware_compatibility=st.sampled_from(HARDWARE_LEVELS),
    version_compatible=st.booleans(),
    profiles=many(profiles),
    tensors=many(plan_tensors),
    variants=st.sampled_from([(), (PlanVariant(compute_capability="8.0", file="", version="10.5.0.18"),)]),
)


@st.composite
def artifacts(draw: st.DrawFn) -> ONNXArtifact | TensorRTPlanArtifact:
    """Any valid artifact, in the folder ``f``."""
    kind = draw(st.sampled_from([ONNXArtifact, TensorRTPlanArtifact]))

    def unique() -> tuple[TunedTensorSpec, ...]:
        return tuple(draw(st.lists(tuned_specs(), max_size=3, unique_by=lambda spec: spec.name)))

    companion_names = st.sampled_from(["a.data", "b/c.data", "é", "x y"])
    companions = draw(st.lists(companion_names, unique=True, max_size=3))
    return kind(
        path=Path("f") / "m.onnx",
        fingerprint=draw(fingerprints),
        inputs=unique(),
        outputs=unique(),
        companions=tuple(Companion(name=name, fingerprint=draw(fingerprints)) for name in companions),
        evidence=draw(st.none() | evidences),
        **({"plan": draw(st.none() | plan_facts)} if kind is TensorRTPlanArtifact else {}),
    )
