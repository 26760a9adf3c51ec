"""An artifact is what its record says, or it is refused."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aitune.errors import AituneError, RecordError
from aitune.records import Artifact, ArtifactIntegrityError, DType, ONNXArtifact, TensorRTPlanArtifact, TunedTensorSpec
from aitune.records import artifact as artifact_module
from aitune.records.artifact import Companion
from aitune.records.fingerprints import copy_hashed, fingerprint_file

ZEROS = "0" * 64


def sha(data: bytes) -> str:
    """SHA-256 as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def spec(name: str = "x", low: int = 1, high: int = 8, axis: int | None = 0) -> TunedTensorSpec:
    """A rank-1 contract."""
    return TunedTensorSpec(name, DType.FLOAT32, ("b",), (low,), (high,), axis)


def make(**fields: Any) -> ONNXArtifact:
    """An artifact that is never read."""
    return ONNXArtifact(**{"path": Path("m.onnx"), "fingerprint": ZEROS, "inputs": (), "outputs": ()} | fields)


@pytest.fixture
def stored(tmp_path: Path) -> ONNXArtifact:
    """A model with two companions, on disk."""
    folder = tmp_path / "source"
    (folder / "weights").mkdir(parents=True)
    files = {"m.onnx": b"model", "m.onnx.data": b"data", "weights/w.bin": b"weights"}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    companions = tuple(Companion(name=name, fingerprint=sha(files[name])) for name in ("m.onnx.data", "weights/w.bin"))
    return make(path=folder / "m.onnx", fingerprint=sha(b"model"), companions=companions, inputs=(spec(),))


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ((spec("a"),), (spec("o", high=4),), 4),
        ((spec("a"),), (spec("o", axis=None),), None),
        ((spec("a", low=2),), (spec("o"),), None),
        ((), (), None),
        ((spec("a"),), (), 8),
        ((spec("a", high=8), spec("b", high=6)), (spec("o", high=9),), 6),
    ],
)
def test_max_batch_size_is_what_every_tensor_allows(inputs: Any, outputs: Any, expected: int | None) -> None:
    """The smallest maximum, and None unless each has a batch axis and allows 1 (example R30)."""
    assert make(inputs=inputs, outputs=outputs).max_batch_size == expected


@pytest.mark.parametrize("fingerprint", ["A" * 64, "0" * 63, "g" * 64, ""])
def test_a_malformed_fingerprint_is_refused(fingerprint: str) -> None:
    """Only 64 lower-case hexadecimal digits are one (examples R31 to R33)."""
    with pytest.raises(RecordError, match="64 lower-case hexadecimal digits"):
        make(fingerprint=fingerprint)


@pytest.mark.parametrize(
    "fields",
    [
        {"path": "m.onnx"},
        {"fingerprint": b"0" * 64},
        {"inputs": [spec()]},
        {"inputs": None},
        {"outputs": ("x",)},
        {"companions": ("x",)},
        {"evidence": "trust me"},
    ],
)
def test_a_wrong_type_is_a_type_error_that_names_the_field(fields: dict[str, Any]) -> None:
    """Nothing fails later, far from its cause (D32)."""
    with pytest.raises(TypeError, match=next(iter(fields))):
        make(**fields)


def test_names_are_unique_within_inputs_and_within_outputs() -> None:
    """The same name on both sides is fine (examples R34 and R35)."""
    with pytest.raises(RecordError, match="inputs of an artifact must have different names, got 'x'"):
        make(inputs=(spec(), spec()))
    both = make(inputs=(spec(),), outputs=(spec(),))
    assert (both.input_names, both.output_names) == (("x",), ("x",))


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../x", "./x", "a//b", "a/", ".", "..", "x\x00y"])
def test_a_companion_cannot_leave_the_folder(name: str) -> None:
    """No path traversal from data."""
    with pytest.raises(RecordError, match="relative path inside the artifact's folder"):
        Companion(name=name, fingerprint=ZEROS)


def test_a_companion_is_not_the_artifact_itself() -> None:
    """Exporting would write one over the other."""
    with pytest.raises(RecordError, match="has the name of the artifact itself"):
        make(companions=(Companion(name="m.onnx", fingerprint=ZEROS),))
    with pytest.raises(TypeError, match="name of a companion"):
        Companion(name=3, fingerprint=ZEROS)  # type: ignore[arg-type]


def test_artifacts_are_equal_by_class_and_fields_without_evidence() -> None:
    """Kinds differ, positions are refused (examples R41 and R42)."""
    plan = TensorRTPlanArtifact(path=Path("m.onnx"), fingerprint=ZEROS, inputs=(), outputs=())
    assert make() == make()
    assert make() != plan
    assert hash(make()) == hash(make())
    with pytest.raises(TypeError):
        ONNXArtifact(Path("m.onnx"), ZEROS, (), ())  # type: ignore[misc]


def test_identity_covers_the_companions() -> None:
    """Other weights beside the same graph are another model."""
    first = make(companions=(Companion(name="w", fingerprint="1" * 64),))
    second = make(companions=(Companion(name="w", fingerprint="2" * 64),))
    assert make().identity == ZEROS
    assert len({first.identity, second.identity, ZEROS}) == 3


def test_verify_accepts_what_was_recorded(stored: ONNXArtifact) -> None:
    """Model and companions are read."""
    stored.verify()


@pytest.mark.parametrize("name", ["m.onnx", "m.onnx.data", "weights/w.bin"])
def test_verify_refuses_changed_and_missing_bytes(stored: ONNXArtifact, name: str) -> None:
    """The error gives class, path and both digests (examples R36 and R43)."""
    victim = stored.path.parent / name
    victim.write_bytes(b"other")
    with pytest.raises(ArtifactIntegrityError, match=rf"ONNXArtifact .*{name}.* found {sha(b'other')[:12]}"):
        stored.verify()
    victim.unlink()
    with pytest.raises(ArtifactIntegrityError, match=f"{name}.* cannot be read: no such file") as caught:
        stored.verify()
    assert isinstance(caught.value.__cause__, OSError)
    assert isinstance(caught.value, AituneError)


def test_export_copies_all_files_with_their_modes(stored: ONNXArtifact, tmp_path: Path) -> None:
    """A server under another user can read them (D30, example R37)."""
    stored.path.chmod(0o640)
    target = stored.export_file(tmp_path / "a" / "b" / "model.onnx")
    assert target == tmp_path / "a" / "b" / "model.onnx"
    dataclasses.replace(stored, path=target).verify()
    assert oct(target.stat().st_mode & 0o777) == "0o640"
    assert sorted(path.name for path in target.parent.rglob("*")) == ["m.onnx.data", "model.onnx", "w.bin", "weights"]


def test_export_respects_the_umask(stored: ONNXArtifact, tmp_path: Path) -> None:
    """The copy is never more open than the user's own new files."""
    stored.path.chmod(0o666)
    before = os.umask(0o027)
    try:
        target = stored.export_file(tmp_path / "model.onnx")
    finally:
        os.umask(before)
    assert oct(target.stat().st_mode & 0o777) == "0o640"


def test_export_to_itself_only_verifies(stored: ONNXArtifact) -> None:
    """Nothing is copied, and a lie is still found."""
    assert stored.export_file(stored.path) == stored.path
    with pytest.raises(ArtifactIntegrityError):
        dataclasses.replace(stored, fingerprint=ZEROS).export_file(stored.path)


@pytest.mark.parametrize("field", ["fingerprint", "companions"])
def test_a_refused_export_changes_nothing(stored: ONNXArtifact, tmp_path: Path, field: str) -> None:
    """Old files stay, new folders and hidden files do not (example R38, D31)."""
    lie: Any = (
        ZEROS
        if field == "fingerprint"
        else (*stored.companions[:1], Companion(name="weights/w.bin", fingerprint=ZEROS))
    )
    target = tmp_path / "out"
    target.mkdir()
    (target / "model.onnx").write_bytes(b"old")
    (target / "m.onnx.data").write_bytes(b"old data")
    with pytest.raises(ArtifactIntegrityError):
        dataclasses.replace(stored, **{field: lie}).export_file(target / "model.onnx")
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        "model.onnx": b"old",
        "m.onnx.data": b"old data",
    }


def test_an_export_of_an_absent_file_makes_no_folders(tmp_path: Path) -> None:
    """The source is looked at first (D31)."""
    with pytest.raises(ArtifactIntegrityError, match="cannot be read"):
        make(path=tmp_path / "absent").export_file(tmp_path / "x" / "y" / "out")
    assert list(tmp_path.iterdir()) == []


def test_export_onto_a_folder_is_refused(stored: ONNXArtifact, tmp_path: Path) -> None:
    """The plain OSError, before anything is written (example R44)."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        stored.export_file(tmp_path / "folder")


def test_export_onto_the_name_of_a_companion_is_refused(stored: ONNXArtifact, tmp_path: Path) -> None:
    """One of the two would be lost."""
    with pytest.raises(RecordError, match="would overwrite the companion"):
        stored.export_file(tmp_path / "m.onnx.data")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_an_interrupt_or_a_full_disk_leaves_nothing_behind(
    stored: ONNXArtifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """The second file fails, so the first is taken back (D31)."""
    calls: list[Path] = []
    real: Callable[..., Path] = artifact_module.stage_copy

    def failing(source: Path, target: Path, check: Callable[[str], None]) -> Path:
        calls.append(target)
        if len(calls) == 2:
            raise error
        return real(source, target, check)

    monkeypatch.setattr(artifact_module, "stage_copy", failing)
    with pytest.raises(type(error)):
        stored.export_file(tmp_path / "new" / "deep" / "model.onnx")
    assert not (tmp_path / "new").exists()


def test_copying_replaces_atomically_or_not_at_all(tmp_path: Path) -> None:
    """A refused copy leaves the old file and no hidden one."""
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"new" * 1_000_000)
    target.write_bytes(b"old")

    def refuse(digest: str) -> None:
        raise ArtifactIntegrityError(digest)

    with pytest.raises(ArtifactIntegrityError, match=sha(b"new" * 1_000_000)):
        copy_hashed(source, target, refuse)
    assert target.read_bytes() == b"old"
    copy_hashed(source, target, lambda digest: None)
    assert fingerprint_file(target) == sha(b"new" * 1_000_000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_failed_rename_takes_the_copy_back(tmp_path: Path) -> None:
    """The destination became a folder in the meantime."""
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b" / "c").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        copy_hashed(tmp_path / "a", tmp_path / "b", lambda digest: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_fingerprinting_reports_its_progress(tmp_path: Path) -> None:
    """Bytes are counted piece by piece."""
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    seen: list[int] = []
    fingerprint_file(tmp_path / "a", on_bytes=seen.append)
    assert sum(seen) == 3_000_000
    assert len(seen) == 3


def test_the_plain_artifact_can_be_made_too() -> None:
    """A record of any other kind of file."""
    assert Artifact(path=Path("x"), fingerprint=ZEROS, inputs=(), outputs=()).format == "artifact"
