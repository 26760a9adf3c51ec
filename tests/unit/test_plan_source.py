"""From an ONNX artifact to a plan, and the choice between the two."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import handmade
import pytest
from handmade import rows

from aitune import pipeline, plan_source
from aitune.errors import MissingDependencyError, SourceError, UnavailableError, UsageError
from aitune.plan_source import OPTION_KEYS, PlanRequest, Race, parse_build_options, with_plan
from aitune.records import Artifact, ONNXArtifact, TensorRTPlanArtifact
from aitune.records.accelerators import GPU_ACCELERATOR
from aitune.records.evidence import Tried
from aitune.records.plans import PlanFacts
from aitune.tensorrt import cuda


def model() -> ONNXArtifact:
    """An ONNX artifact with evidence."""
    inputs = (rows("x"),)
    return handmade.record(inputs, [rows("y")], proof=handmade.evidence(inputs))


def plan_of(found: ONNXArtifact) -> TensorRTPlanArtifact:
    """The plan that a builder would have made."""
    return TensorRTPlanArtifact(
        path=Path("m.plan"),
        fingerprint="cd" * 32,
        inputs=found.inputs,
        outputs=found.outputs,
        evidence=found.evidence,
        plan=PlanFacts(builder="tensorrt", version="10.5.0.18", compute_capability="8.9"),
    )


def made(found: Artifact, race: Race | None = None, **request: Any) -> Artifact:
    """What is to be served."""
    return with_plan(found, PlanRequest(**request), race=race or Race(), workspace=Path("w"))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that says it has a GPU."""
    monkeypatch.setattr(cuda, "device_problem", lambda: "")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU."""
    monkeypatch.setattr(cuda, "device_problem", lambda: "there is no GPU")


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_model_stays_a_model() -> None:
    """Nothing is built and nothing is loaded."""
    found = model()
    assert made(found) is found
    assert made(found, format="onnx") is found


def test_on_the_cpu_no_plan_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """``--device cpu`` does not even ask whether there is a GPU."""
    monkeypatch.setattr(cuda, "device_problem", lambda: pytest.fail("asked for a GPU"))
    found = model()
    assert made(found, device="cpu") is found


@pytest.mark.usefixtures("no_gpu")
def test_a_demanded_gpu_that_is_not_there_is_exit_3() -> None:
    """``--device gpu``."""
    with pytest.raises(UnavailableError, match="no GPU can be used here: there is no GPU"):
        made(model(), device="gpu")


@pytest.mark.usefixtures("gpu")
def test_without_measuring_nothing_decides_for_a_plan() -> None:
    """``--no-tune`` keeps the model, which serves everywhere."""
    found = model()
    assert made(found, Race(tune=False)) is found


@pytest.mark.usefixtures("gpu")
def test_a_plan_that_cannot_be_built_leaves_the_model_and_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is in the record."""

    def refuse(*_: object) -> TensorRTPlanArtifact:
        raise SourceError("tensorrt 10 cannot build 'model.onnx': node 0 (Foo): no plugin")

    monkeypatch.setattr(plan_source, "_build", refuse)
    found = made(model())
    assert isinstance(found, ONNXArtifact)
    assert found.evidence is not None
    assert found.evidence.notes[-1].startswith("no TensorRT plan was measured: tensorrt 10 cannot build")


@pytest.mark.usefixtures("gpu")
def test_a_library_that_is_not_installed_matters_only_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the model is served as it is."""

    def missing(*_: object) -> TensorRTPlanArtifact:
        raise MissingDependencyError("tensorrt", extra="tensorrt")

    monkeypatch.setattr(plan_source, "_build", missing)
    found = model()
    assert made(found) is found
    with pytest.raises(MissingDependencyError):
        made(found, device="gpu")


def test_a_demanded_plan_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """``--artifact plan`` measures nothing."""
    monkeypatch.setattr(plan_source, "_build", lambda found, *_: plan_of(found))
    assert isinstance(made(model(), format="plan"), TensorRTPlanArtifact)


def test_a_plan_stays_a_plan_and_never_becomes_a_model() -> None:
    """What cannot be made is refused."""
    found = plan_of(model())
    assert made(found) is found
    with pytest.raises(UsageError, match="cannot become an ONNX model"):
        made(found, format="onnx")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"format": "plan", "device": "cpu"}, "not for the device cpu"),
        ({"format": "trt"}, "not something that can be made"),
    ],
)
def test_wishes_that_contradict_each_other_are_refused(request_: dict[str, Any], message: str) -> None:
    """Before anything is read."""
    with pytest.raises(UsageError, match=message):
        PlanRequest(**request_)


@pytest.mark.usefixtures("no_gpu")
def test_further_plans_need_a_plan() -> None:
    """An ONNX model has no kinds of GPU."""
    with pytest.raises(UsageError, match="--plan adds plans to a plan"):
        made(model(), plans=(("sm90", "h.plan"),))


def test_a_further_plan_is_named_once() -> None:
    """sm90 and 9.0 are one kind of GPU."""
    with pytest.raises(UsageError, match=r"twice for compute capability 9\.0"):
        made(plan_of(model()), plans=(("sm90", "a.plan"), ("9.0", "b.plan")))


def test_every_option_of_a_build_is_understood() -> None:
    """And each has its line in the table."""
    pairs = {
        "precision": "fp16", "compute_capability": "sm89", "workspace_mib": "64", "timing_cache": "t.bin",
        "optimization_level": "1", "version_compatible": "yes", "hardware_compatibility": "ampere_plus",
        "split.n": "2,4", "layout.x": "CHW32",
    }  # fmt: skip
    found = parse_build_options(pairs)
    assert (found.workspace_bytes, found.compute_capability, found.splits) == (64 << 20, "8.9", {"n": (2, 4)})
    assert (found.formats, found.version_compatible, found.timing_cache) == ({"x": "CHW32"}, True, Path("t.bin"))
    known = {key.partition(".")[0] for key in OPTION_KEYS}
    assert {key.partition(".")[0] for key in pairs} == known


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("speed", "9", "plan option 'speed' is not known"),
        ("workspace_mib", "lots", "must be a whole number"),
        ("version_compatible", "perhaps", "must be true or false"),
        ("split.n", "2,x", "must be a whole number"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(key: str, text: str, message: str) -> None:
    """The message names it."""
    with pytest.raises(UsageError, match=message):
        parse_build_options({key: text})


def test_a_record_without_evidence_takes_no_note() -> None:
    """There is nowhere to put it."""
    bare = dataclasses.replace(model(), evidence=None)
    assert plan_source._noted(bare, "note") is bare


@pytest.mark.usefixtures("gpu")
def test_a_plan_is_raced_against_its_model_under_the_given_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objective, budget and latency limit reach the measurement; the model runs under its tuned settings."""
    asked: dict[str, Any] = {}

    def race(artifact: Artifact, plan: Artifact, candidates: list[Any], **limits: Any) -> Artifact:
        asked.update(limits, names=[one.name for one in candidates], settings=dict(candidates[0].settings))
        return plan

    monkeypatch.setattr(plan_source, "_build", lambda found, *_: plan_of(found))
    monkeypatch.setattr("aitune.tensorrt.library.load_tensorrt", lambda *_: None)
    monkeypatch.setattr("aitune.tensorrt.racing.contest", race)
    inputs = (rows("x"),)
    tuned = handmade.evidence(inputs, tuning=handmade.tuning(intra_op_thread_count="2"))
    found = made(handmade.record(inputs, [rows("y")], proof=tuned), Race(seconds=5, objective="latency", p95_ms=7.5))
    assert isinstance(found, TensorRTPlanArtifact)
    assert (asked["seconds"], asked["objective"], asked["p95_ms"]) == (5, "latency", 7.5)
    assert (asked["names"], asked["settings"]) == (["onnxruntime", "tensorrt"], {"intra_op_thread_count": "2"})


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(("mocked", "device"), [("CUDAExecutionProvider", "cuda"), ("CPUExecutionProvider", "cpu")])
def test_the_model_races_where_it_would_be_served(mocked: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the GPU where ONNX Runtime, a mocked one here, can use it, in the precision and provider that won."""
    seen: list[Any] = []

    def race(artifact: Artifact, plan: Artifact, candidates: list[Any], **_: Any) -> Artifact:
        seen.append(candidates[0])
        return artifact

    monkeypatch.setattr(plan_source, "_build", lambda found, *_: plan_of(found))
    monkeypatch.setattr("aitune.tensorrt.library.load_tensorrt", lambda *_: None)
    monkeypatch.setattr("aitune.tensorrt.racing.contest", race)
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: [mocked])
    won = dataclasses.replace(
        handmade.tuning(**{GPU_ACCELERATOR: "tensorrt:fp16"}),
        winner="it",
        candidates=(Tried(name="it", precision="fp16"),),
    )
    inputs = (rows("x"),)
    made(handmade.record(inputs, [rows("y")], proof=handmade.evidence(inputs, tuning=won)))
    (candidate,) = seen
    assert (candidate.device, candidate.precision) == (device, "fp16")
    assert candidate.settings == {GPU_ACCELERATOR: "tensorrt:fp16"}


def test_a_demanded_plan_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is named, nothing is tried."""

    def missing(name: str) -> None:
        raise MissingDependencyError(name, extra="tensorrt")

    monkeypatch.setattr("aitune.tensorrt.library.load_tensorrt", missing)
    with pytest.raises(MissingDependencyError, match="tensorrt_rtx"):
        made(model(), format="plan", builder="tensorrt_rtx")


def test_further_plans_are_published_with_the_first(tmp_path: Path) -> None:
    """``--plan sm90=…``: both plans lie in the workspace, each for its GPU."""
    content = b"ftrt" + bytes(20) + bytes((10, 5, 0, 18)) + bytes(32)
    for name in ("a.plan", "h100.plan"):
        (tmp_path / name).write_bytes(content)
    plan = dataclasses.replace(
        plan_of(model()), path=tmp_path / "a.plan", fingerprint=hashlib.sha256(content).hexdigest()
    )
    request = PlanRequest(plans=(("sm90", str(tmp_path / "h100.plan")),))
    found = with_plan(plan, request, race=Race(), workspace=tmp_path / "w")
    assert isinstance(found, TensorRTPlanArtifact)
    assert found.plan is not None
    assert [one.compute_capability for one in found.plan.variants] == ["8.9", "9.0"]
    assert sorted(path.name for path in (tmp_path / "w/plans").iterdir()) == ["a.plan", "model_sm90.plan"]


def test_the_flow_hands_every_limit_of_a_race_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the user says about measuring holds for a plan as for the ONNX candidates."""
    races: list[Race] = []

    def stay(artifact: Artifact, _: PlanRequest, *, race: Race, **__: Any) -> Artifact:
        races.append(race)
        return artifact

    monkeypatch.setattr(pipeline, "with_plan", stay)
    monkeypatch.setattr(pipeline, "_from_onnx", lambda *_: model())
    request = pipeline.Request(source="m.onnx", tune_seconds=5, objective="latency", p95_ms=7.5)
    pipeline.make_artifact(request, tmp_path)
    assert races == [Race(tune=True, seconds=5, objective="latency", p95_ms=7.5)]
