"""From an ONNX artifact to a plan, and the choice between the two."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import handmade
import pytest
from handmade import rows

from aitune import plan_source
from aitune.errors import MissingDependencyError, SourceError, UnavailableError, UsageError
from aitune.plan_source import OPTION_KEYS, PlanRequest, Race, parse_build_options, with_plan
from aitune.records import Artifact, ONNXArtifact, TensorRTPlanArtifact
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
