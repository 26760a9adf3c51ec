"""What is decided about a plan without touching the library: what it was built as, what it is, what is said of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import handmade
import pytest
from handmade import rows

from aitune.errors import SourceError, UnavailableError, UsageError
from aitune.records import DType, TensorRTPlanArtifact, TunedTensorSpec
from aitune.records.evidence import Evidence
from aitune.records.interface import Port
from aitune.records.plans import PlanFacts, PlanTensor, Profile, ProfileRange
from aitune.records.shapes import TensorSpec
from aitune.tensorrt import BuildOptions, PlanCandidate, building, bundling, cuda, making, network, proof, reading

X = TunedTensorSpec("x", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4), 0)


def profile(low: int = 1, high: int = 8, *, values: bool = False) -> Profile:
    """Batches of ``x`` from low to high."""
    return Profile(inputs=(ProfileRange(name="x", min=(low, 4), opt=(high, 4), max=(high, 4), values=values),))


FACTS = PlanFacts(
    builder="tensorrt",
    version="10.5.0.18",
    compute_capability="8.9",
    profiles=(profile(),),
    tensors=(PlanTensor(name="x"), PlanTensor(name="y")),
)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU."""
    monkeypatch.setattr(building, "device_problem", lambda: "there is no GPU")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU of compute capability 8.9."""
    monkeypatch.setattr(building, "device_problem", lambda: "")
    monkeypatch.setattr(building, "compute_capability", lambda: "8.9")


@pytest.mark.usefixtures("no_gpu")
def test_a_library_that_builds_for_its_own_gpu_needs_one() -> None:
    """TensorRT itself cannot build for another machine."""
    with pytest.raises(UnavailableError, match="builds plans for the GPU that is here, and none can be used") as caught:
        building.resolve_capability(ModuleType("tensorrt"), BuildOptions(compute_capability="8.9"))
    assert caught.value.hint == "build on a machine with the target GPU"


@pytest.mark.usefixtures("gpu")
def test_a_library_that_builds_for_its_own_gpu_builds_for_no_other() -> None:
    """The one that is here may be named, another one may not."""
    library = ModuleType("tensorrt")
    assert building.resolve_capability(library, BuildOptions()) == "8.9"
    assert building.resolve_capability(library, BuildOptions(compute_capability="8.9")) == "8.9"
    with pytest.raises(UsageError, match=r"builds for the GPU that is here, 8\.9; 9\.0 was asked for"):
        building.resolve_capability(library, BuildOptions(compute_capability="9.0"))


@pytest.mark.parametrize(("precision", "strong"), [("model", True), ("tf32", True), ("fp16", False), ("bf16", False)])
def test_a_lower_precision_lets_the_library_choose_types(precision: str, strong: bool) -> None:
    """Everything else computes in the types of the model."""
    assert building.wants_strong_types(BuildOptions(precision=precision)) is strong


def test_an_engine_that_is_what_was_asked_for_is_taken() -> None:
    """Profiles and tensors agree."""
    making._check_engine(FACTS, dataclasses.replace(FACTS))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"profiles": (profile(high=4),)}, r"profile 0 of the engine is .* was asked for"),
        ({"tensors": (PlanTensor(name="x", format="CHW32"), PlanTensor(name="y"))}, "the engine made .*CHW32"),
    ],
)
def test_an_engine_that_is_something_else_is_refused(changes: dict[str, Any], message: str) -> None:
    """The engine decides; a record never says what the engine does not."""
    with pytest.raises(SourceError, match=message):
        making._check_engine(FACTS, dataclasses.replace(FACTS, **changes))


def test_an_inspection_is_kept_whole_or_as_names() -> None:
    """A large engine would make a record that nobody can read."""
    small = {"Layers": [{"Name": "a", "Type": "Conv"}]}
    assert json.loads(making._inspection(json.dumps(small, indent=2))) == small
    large = {"Layers": [{"Name": "a", "Origin": "z" * making._INSPECTION_LIMIT}, "b"]}
    assert json.loads(making._inspection(json.dumps(large))) == {"Layers": ["a", "b"]}


def test_profiles_of_ones_own_must_name_every_input() -> None:
    """The odd one is named."""
    model = handmade.record((rows("x"),), [rows("y")])
    given = dataclasses.replace(profile(), inputs=(dataclasses.replace(profile().inputs[0], name="z"),))
    with pytest.raises(UsageError, match="profile 0 needs a range for every input and for nothing else; look at x, z"):
        making._profiles(model, BuildOptions(profiles=(given,)), ())


def test_a_problem_of_the_whole_model_has_no_node() -> None:
    """A problem of a node names it."""
    assert str(network.NodeProblem(-1, "", "", "no graph")) == "no graph"
    assert str(network.NodeProblem(3, "n", "NonZero", "unsupported")) == "node 3 'n' (NonZero): unsupported"


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ('Assertion failed: x != 0 && "No importer for Foo."', "No importer for Foo"),
        ("Assertion failed: (axis)  <\n 4.", "(axis) < 4"),
        ("plain words.", "plain words"),
    ],
)
def test_the_words_of_the_parser_lose_their_cpp(told: str, reason: str) -> None:
    """A person reads the sentence."""
    assert network._reason(told) == reason


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        (DType.FLOAT16, (None, 4), "TensorRT makes HALF of input 'x', the record says float32"),
        (DType.FLOAT32, (None, 5), r"TensorRT sees input 'x' as \(None, 5\), the record says"),
        (DType.FLOAT32, (None,), r"TensorRT sees input 'x' as \(None,\)"),
        (DType.FLOAT32, None, r"TensorRT sees input 'x' as \(\)"),
    ],
)
def test_a_network_that_is_not_the_model_of_the_record_is_refused(
    dtype: DType, shape: tuple[int | None, ...] | None, message: str
) -> None:
    """Type, rank and fixed sizes."""
    with pytest.raises(SourceError, match=message):
        network._check_port("input", Port(name="x", dtype=dtype, element_type="HALF", shape=shape), X)


def test_what_was_not_proved_is_not_carried_over(tmp_path: Path) -> None:
    """A model without evidence, or without a word on batching, gives a plan without them."""
    plan = tmp_path / "model.plan"
    plan.write_bytes(b"ftrt")
    model = handmade.record((rows("x"),), [rows("y")])
    bare = proof.carry_over(dataclasses.replace(model, evidence=None), plan, FACTS, BuildOptions(), [], "no GPU")
    assert bare.evidence is not None
    assert (bare.evidence.batching, len(bare.evidence.notes)) == (None, 1)
    silent = dataclasses.replace(model, evidence=Evidence(notes=("n",)))
    kept = proof.carry_over(silent, plan, FACTS, BuildOptions(precision="fp16"), [], "no GPU").evidence
    assert kept is not None
    assert kept.batching is None
    assert kept.notes[1:] == ("no answers are kept: the plan computes in fp16, the ONNX model did not", "n")


def test_without_a_probe_nothing_is_held_against_the_plan() -> None:
    """And the library is not touched."""
    model = dataclasses.replace(handmade.record((rows("x"),), [rows("y")]), evidence=None)
    assert proof._agreement(ModuleType("tensorrt"), model, Path("m.plan"), BuildOptions()) == ()


def test_only_a_plan_becomes_a_plan() -> None:
    """Anything else is a bug and no error of the user."""
    found = TensorRTPlanArtifact(path=Path("m.plan"), fingerprint="ab" * 32, inputs=(X,), outputs=())
    assert proof._as_plan(found) is found
    with pytest.raises(TypeError, match="got ONNXArtifact"):
        proof._as_plan(handmade.record((rows("x"),), [rows("y")]))


def test_the_shapes_of_a_plan_are_its_profiles_or_lie_within_them() -> None:
    """Bounds of a person narrow what the profiles allow."""
    inputs = (TensorSpec("x", DType.FLOAT32, ("batch", 4)),)
    held = (profile(1, 8), profile(9, 32))
    assert reading._ranges(held, inputs, None, None, None) == reading.profile_ranges(held)
    (found,) = reading._ranges(held, inputs, None, None, {"x": (16, 4)}).inputs
    assert (found.min_shape, found.max_shape) == ((1, 4), (16, 4))


def test_values_that_decide_shapes_are_not_guessed() -> None:
    """A plan with shape tensors needs the record of its build."""
    with pytest.raises(UsageError, match="has shape tensors, whose values nobody can guess"):
        reading._ranges((profile(values=True),), (), None, None, None)


@pytest.mark.parametrize("check", [reading._same, bundling._demand_copied])
def test_a_plan_that_changes_while_it_is_copied_is_refused(check: Any) -> None:
    """The bytes that were read are the bytes that are published."""
    check(Path("m.plan"), "ab", "ab")
    with pytest.raises(SourceError, match=r"'m\.plan' changed while it was copied"):
        check(Path("m.plan"), "ab", "cd")


def test_a_plan_without_a_record_is_not_read_without_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By nobody: neither described nor tuned."""
    monkeypatch.setattr(reading, "device_problem", lambda: "there is no GPU")
    path = tmp_path / "m.plan"
    path.write_bytes(b"ftrt" + bytes(20) + bytes((10, 5, 0, 18)) + bytes(36))
    for read in (reading.describe, reading.tune):
        with pytest.raises(UnavailableError, match="has no record beside it, and cannot be loaded here: there is no"):
            read(path)


def test_a_plan_is_a_candidate_that_shares_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no settings; opening it is what takes a GPU."""
    found = PlanCandidate(Path("m.plan"), ModuleType("tensorrt"))
    assert (found.name, dict(found.settings), found.precision, found.model_file) == ("tensorrt", {}, "fp32", None)
    monkeypatch.setattr(cuda, "_runtime", lambda: "the CUDA runtime is not installed")
    with pytest.raises(UnavailableError, match="no GPU can be used here"):
        found.open()
