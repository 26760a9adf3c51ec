"""What a record holds of a TensorRT plan, and what a plan's first bytes say."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitune.errors import RecordError
from aitune.records import TensorRTPlanArtifact
from aitune.records.artifact import Companion
from aitune.records.codec import dump_artifact, load_artifact
from aitune.records.plans import (
    PlanFacts,
    PlanTensor,
    PlanVariant,
    Profile,
    ProfileRange,
    read_plan_header,
)


def header(magic: bytes, layout: int = 0, version: tuple[int, ...] = (10, 5, 0, 18)) -> bytes:
    """The first bytes of a plan, as trtexec's sources describe them."""
    return magic + layout.to_bytes(4, "little") + bytes(16) + bytes(version) + bytes(64)


@pytest.mark.parametrize(("magic", "builder"), [(b"ftrt", "tensorrt"), (b"vtrt", "tensorrt_rtx"), (b"\x08\x07on", "")])
def test_the_magic_tells_the_builder(tmp_path: Path, magic: bytes, builder: str) -> None:
    """TensorRT's own plans, TensorRT-RTX's, and what is none."""
    path = tmp_path / "model.plan"
    path.write_bytes(header(magic))
    found = read_plan_header(path)
    assert found.builder == builder
    assert found.version == ("10.5.0.18" if builder else "")


@pytest.mark.parametrize("data", [header(b"ftrt", layout=1), b"ftrt\0\0\0\0short"])
def test_no_version_is_read_from_a_layout_nobody_knows(tmp_path: Path, data: bytes) -> None:
    """A header of another layout, or one that is cut off, names no version."""
    path = tmp_path / "model.plan"
    path.write_bytes(data)
    assert read_plan_header(path).version == ""


def test_the_batch_of_a_profile_is_what_every_input_allows() -> None:
    """Minimum over inputs of the largest, maximum of the smallest first axis."""
    profile = Profile(
        inputs=(
            ProfileRange(name="a", min=(1, 2), opt=(2, 2), max=(8, 2)),
            ProfileRange(name="b", min=(2,), opt=(2,), max=(4,)),
        )
    )
    assert (profile.min_batch_size, profile.max_batch_size) == (2, 4)
    scalar = Profile(inputs=(ProfileRange(name="s", min=(), opt=(), max=()),))
    assert (scalar.min_batch_size, scalar.max_batch_size) == (0, 0)


@pytest.mark.parametrize(("low", "typical", "high"), [((2,), (1,), (3,)), ((1,), (2,), (1,)), ((1,), (1, 1), (1,))])
def test_a_range_is_ordered_and_of_one_rank(
    low: tuple[int, ...], typical: tuple[int, ...], high: tuple[int, ...]
) -> None:
    """A range that accepts nothing is refused."""
    with pytest.raises(RecordError, match="profile of input 'x'"):
        ProfileRange(name="x", min=low, opt=typical, max=high)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"builder": "trtexec"}, "builder of a plan"),
        ({"hardware_compatibility": "any"}, "hardware_compatibility"),
        ({"compute_capability": "sm80"}, "compute capability"),
        ({"variants": (PlanVariant(compute_capability="8.0", file="", version="1"),) * 2}, "different"),
    ],
)
def test_facts_are_refused_when_no_plan_can_have_them(change: dict[str, object], message: str) -> None:
    """Every word is checked at birth."""
    good: dict[str, object] = {"builder": "tensorrt", "version": "10.5.0.18"}
    with pytest.raises(RecordError, match=message):
        PlanFacts(**{**good, **change})  # type: ignore[arg-type]


def test_a_tensor_nobody_described_is_plain() -> None:
    """Linear, and no shape tensor."""
    facts = PlanFacts(builder="tensorrt", version="10", tensors=(PlanTensor(name="y", format="CHW32"),))
    assert not facts.tensor("y").linear
    assert facts.tensor("x") == PlanTensor(name="x")


def test_a_further_plan_must_be_a_file_of_the_artifact() -> None:
    """A variant that no companion holds would be missing on the server."""
    facts = PlanFacts(
        builder="tensorrt",
        version="10",
        variants=(PlanVariant(compute_capability="9.0", file="model_sm90.plan", version="10"),),
    )
    common = {"path": Path("model.plan"), "fingerprint": "0" * 64, "inputs": (), "outputs": (), "plan": facts}
    with pytest.raises(RecordError, match=r"'model_sm90\.plan'"):
        TensorRTPlanArtifact(**common)  # type: ignore[arg-type]
    companion = Companion(name="model_sm90.plan", fingerprint="1" * 64)
    artifact = TensorRTPlanArtifact(**common, companions=(companion,))  # type: ignore[arg-type]
    assert load_artifact(dump_artifact(artifact), Path()) == artifact


def test_only_a_plan_has_facts_of_a_plan() -> None:
    """The key is unknown in the record of an ONNX model, and may be missing in that of a plan."""
    artifact = TensorRTPlanArtifact(path=Path("m.plan"), fingerprint="0" * 64, inputs=(), outputs=())
    data = dump_artifact(artifact)
    del data["plan"]
    assert load_artifact(data, Path()) == artifact
    with pytest.raises(RecordError, match="unknown key 'plan'"):
        load_artifact({**dump_artifact(artifact), "format": "onnx"}, Path())


def test_the_field_of_an_artifact_holds_facts_or_nothing() -> None:
    """A dictionary is no record."""
    with pytest.raises(TypeError, match="plan of an artifact"):
        TensorRTPlanArtifact(path=Path("m"), fingerprint="0" * 64, inputs=(), outputs=(), plan={})  # type: ignore[arg-type]
