"""Plans that have a record beside them, and several plans as one artifact."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest

from aitune.errors import ArtifactIntegrityError, BatchingError, SourceError, UsageError
from aitune.records import DType, ONNXArtifact, TensorRTPlanArtifact, TunedTensorSpec
from aitune.records.codec import Document, dumps_document
from aitune.records.fingerprints import write_atomically
from aitune.records.plans import PlanFacts, Profile, ProfileRange
from aitune.tensorrt import bundle, describe, tune
from aitune.tensorrt.bundling import parse_capability
from aitune.tensorrt.files import make_workspace
from aitune.tensorrt.options import BuildOptions
from aitune.tensorrt.reading import find_record, profile_ranges

X = TunedTensorSpec("x", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4), 0)


def plan_bytes(tail: bytes = b"", version: tuple[int, ...] = (10, 5, 0, 18), magic: bytes = b"ftrt") -> bytes:
    """A header and something behind it."""
    return magic + bytes(20) + bytes(version) + bytes(36) + tail


def written(
    folder: Path, capability: str = "8.9", *, data: bytes = plan_bytes(), **changes: Any
) -> TensorRTPlanArtifact:
    """A plan with its record in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.plan"
    path.write_bytes(data)
    facts = PlanFacts(
        builder="tensorrt",
        version="10.5.0.18",
        compute_capability=capability,
        profiles=(Profile(inputs=(ProfileRange(name="x", min=(1, 4), opt=(8, 4), max=(8, 4)),)),),
    )
    artifact = TensorRTPlanArtifact(
        path=path,
        fingerprint=hashlib.sha256(data).hexdigest(),
        **{"inputs": (X,), "outputs": (dataclasses.replace(X, name="y"),), "plan": facts, **changes},
    )
    (folder / "aitune.json").write_text(dumps_document(Document(artifact=artifact)))
    return artifact


def test_the_record_beside_a_plan_describes_it(tmp_path: Path) -> None:
    """Without TensorRT and without a GPU."""
    artifact = written(tmp_path)
    found = describe(artifact.path)
    assert (found.source, found.producer) == ("record", "tensorrt 10.5.0.18")
    assert [port.name for port in (*found.inputs, *found.outputs)] == ["x", "y"]
    assert tune(artifact.path) == artifact


def test_the_record_of_another_file_is_not_believed(tmp_path: Path) -> None:
    """The bytes decide."""
    artifact = written(tmp_path)
    artifact.path.write_bytes(plan_bytes(b"other"))
    with pytest.raises(ArtifactIntegrityError, match="is not the plan of the record beside it"):
        describe(artifact.path)


def test_a_record_that_is_about_something_else_is_left_alone(tmp_path: Path) -> None:
    """An ONNX record, or the record of a plan of another name."""
    artifact = written(tmp_path)
    other = tmp_path / "other.plan"
    other.write_bytes(plan_bytes())
    assert find_record(other) is None
    onnx = ONNXArtifact(path=artifact.path, fingerprint=artifact.fingerprint, inputs=(X,), outputs=(X,))
    (tmp_path / "aitune.json").write_text(dumps_document(Document(artifact=onnx)))
    assert find_record(artifact.path) is None


def test_a_batch_that_the_record_does_not_prove_is_refused(tmp_path: Path) -> None:
    """A demand is a demand."""
    with pytest.raises(BatchingError, match="a batch of 16 was demanded, the record proves 8"):
        tune(written(tmp_path).path, max_batch_size=16)


def test_two_plans_become_one_artifact(tmp_path: Path) -> None:
    """The further one is a companion under a name that says its GPU."""
    first = written(tmp_path / "a")
    second = written(tmp_path / "h", "9.0", data=plan_bytes(b"hopper"))
    both = bundle(first, {"9.0": second.path}, workspace=tmp_path / "both")
    both.verify()
    assert both.plan is not None
    assert [(item.compute_capability, item.file) for item in both.plan.variants] == [
        ("8.9", ""),
        ("9.0", "model_sm90.plan"),
    ]
    assert [item.name for item in both.companions] == ["model_sm90.plan"]


def test_a_plan_without_a_record_is_taken_at_its_word(tmp_path: Path) -> None:
    """Its header names the library; its tensors are the first one's."""
    path = tmp_path / "h.plan"
    path.write_bytes(plan_bytes(version=(10, 4, 0, 26)))
    both = bundle(written(tmp_path / "a"), {"9.0": path}, workspace=tmp_path / "both")
    assert both.plan is not None
    assert both.plan.variants[1].version == "10.4.0.26"


def test_plans_of_different_models_are_not_bundled(tmp_path: Path) -> None:
    """One config cannot serve both."""
    narrow = dataclasses.replace(X, max_shape=(4, 4))
    second = written(tmp_path / "h", "9.0", inputs=(narrow,))
    with pytest.raises(SourceError, match=r"has other inputs than 'model\.plan'"):
        bundle(written(tmp_path / "a"), {"9.0": second.path}, workspace=tmp_path / "both")


@pytest.mark.parametrize(
    ("capability", "data", "message"),
    [
        ("8.9", plan_bytes(), "two plans for compute capability 8.9"),
        ("8.0", plan_bytes(), "was built for compute capability 9.0, not for 8.0"),
        ("9.0", plan_bytes(magic=b"vtrt"), "is a plan of tensorrt_rtx, the others are of tensorrt"),
    ],
)
def test_a_bundle_that_makes_no_sense_is_refused(tmp_path: Path, capability: str, data: bytes, message: str) -> None:
    """Two for one GPU, one for another GPU than it says, or another library."""
    second = written(tmp_path / "h", "9.0", data=data)
    with pytest.raises((SourceError, UsageError), match=message):
        bundle(written(tmp_path / "a"), {capability: second.path}, workspace=tmp_path / "both")


def test_the_gpu_of_the_first_plan_must_be_known(tmp_path: Path) -> None:
    """Triton chooses by it."""
    with pytest.raises(UsageError, match="nobody wrote down which GPU"):
        bundle(written(tmp_path, ""), {}, workspace=tmp_path / "both")


@pytest.mark.parametrize("text", ["sm90", "SM_90", "90", "9.0"])
def test_compute_capabilities_are_written_in_several_ways(text: str) -> None:
    """All of them mean Hopper."""
    assert parse_capability(text) == "9.0"


@pytest.mark.parametrize("text", ["", "sm", "ampere", "9000"])
def test_what_is_no_compute_capability_is_refused(text: str) -> None:
    """The hint shows the form."""
    with pytest.raises(UsageError, match="is not a compute capability"):
        parse_capability(text)


def test_the_profiles_of_a_plan_give_its_ranges() -> None:
    """From the smallest of all to the largest of all."""
    parts = [ProfileRange(name="x", min=(1, low), opt=(2, high), max=(8, high)) for low, high in [(1, 8), (9, 64)]]
    ranges = profile_ranges([Profile(inputs=(part,)) for part in parts])
    assert ranges.shapes("smallest") == {"x": (1, 1)}
    assert ranges.shapes("typical") == {"x": (2, 8)}
    assert ranges.shapes("largest") == {"x": (8, 64)}
    assert ranges.max_batch_size == 8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"precision": "fp8"}, "precision must be one of"),
        ({"hardware_compatibility": "all"}, "hardware_compatibility must be one of"),
        ({"workspace_bytes": 0}, "at least 1"),
        ({"optimization_level": 6}, "0 to 5"),
        ({"profiles": (Profile(inputs=()),), "splits": {"n": (1,)}}, "profiles or splits"),
    ],
)
def test_choices_about_a_plan_make_sense(given: dict[str, Any], message: str) -> None:
    """Each is refused before anything is built."""
    with pytest.raises(UsageError, match=message):
        BuildOptions(**given)


def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    """Nothing is left behind when writing fails."""
    write_atomically(tmp_path / "a", b"one")
    write_atomically(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_atomically(tmp_path / "folder", b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


def test_a_workspace_that_cannot_be_made_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is taken where none is given."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert make_workspace(None).parent == tmp_path / "cache" / "aitune" / "artifacts"
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        make_workspace(tmp_path / "file")
