"""Publishing and rolling back, on artifacts whose bytes nobody looks into."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
from pathlib import Path

import handmade
import pytest

from aitune.errors import ArtifactIntegrityError, RepositoryError, UsageError
from aitune.records import ONNXArtifact, TensorRTPlanArtifact
from aitune.triton import PlanOptions, Repository, commit, publish, rollback, staging
from aitune.triton.history import History


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the repository will be."""
    return tmp_path / "parent" / "root"


@pytest.fixture
def one(tmp_path: Path) -> ONNXArtifact:
    """An artifact with a companion in a folder of its own."""
    return handmade.fake(tmp_path / "one", b"1", companions=["w/data.bin"])


@pytest.fixture
def two(tmp_path: Path) -> ONNXArtifact:
    """The next one."""
    return handmade.fake(tmp_path / "two", b"2")


def tree(folder: Path) -> dict[str, bytes]:
    """Every file with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_first_publication_makes_everything(root: Path, one: ONNXArtifact) -> None:
    """Model, companion, record, config and history; the result says what and where."""
    found = publish(one, root, model_name="m")
    assert (found.result, found.model, found.version, found.path) == ("created", "m", 1, root / "m" / "1")
    assert found.files == ("m/1/model.onnx", "m/1/w/data.bin", "m/1/aitune.json")
    assert set(tree(root)) == {*found.files, "m/config.pbtxt", "aitune_history.jsonl"}
    assert (root / "m/1/model.onnx").read_bytes() == b"1"
    assert found.config_text == (root / "m/config.pbtxt").read_text()
    assert found.diff.startswith("--- /dev/null\n+++ m/config.pbtxt (version 1)\n")


def test_the_published_record_is_that_of_the_published_file(root: Path, one: ONNXArtifact) -> None:
    """It verifies where it lies, whatever happens to the source."""
    publish(one, root, model_name="m")
    shutil.rmtree(one.path.parent)
    document = Repository(root).model("m").document
    assert document is not None
    document.artifact.verify()
    assert document.artifact == dataclasses.replace(one, path=root / "m" / "1" / "model.onnx")


def test_files_are_copies_with_fresh_times(root: Path, one: ONNXArtifact) -> None:
    """Never a link to the source, and never an old time: Triton goes by it (§10)."""
    os.utime(one.path, (1, 1))
    publish(one, root, model_name="m")
    source, copy = one.path.stat(), (root / "m/1/model.onnx").stat()
    assert copy.st_ino != source.st_ino
    assert copy.st_nlink == 1
    assert copy.st_mtime > 1_000_000


def test_a_private_source_is_published_readable(root: Path, one: ONNXArtifact) -> None:
    """The server may be another user; the umask decides, not the source."""
    one.path.chmod(0o600)
    publish(one, root, model_name="m")
    assert all((root / name).stat().st_mode & 0o004 for name in tree(root))


def test_a_private_umask_is_kept_and_told(root: Path, one: ONNXArtifact) -> None:
    """Who shuts others out gets what was asked for, with a warning."""
    before = os.umask(0o077)
    try:
        found = publish(one, root, model_name="m")
    finally:
        os.umask(before)
    assert "another user cannot load them" in found.warnings[0]


def test_an_unchanged_artifact_is_unchanged(root: Path, one: ONNXArtifact) -> None:
    """Not one file is touched."""
    publish(one, root, model_name="m")
    before = tree(root)
    found = publish(one, root, model_name="m")
    assert (found.result, found.version, found.diff, found.files) == ("unchanged", 1, "", ())
    assert tree(root) == before


def test_measured_digits_of_the_probe_make_no_new_version(root: Path, one: ONNXArtifact) -> None:
    """The same weights on another machine answer the same but for the last digit."""
    for value in (0.123456, 0.123457):
        probe = handmade.probe(one.inputs, one.outputs)
        output = dataclasses.replace(probe.outputs[0], values=(value,))
        evidence = dataclasses.replace(one.evidence, probe=dataclasses.replace(probe, outputs=(output,)))
        found = publish(dataclasses.replace(one, evidence=evidence), root, model_name="m")
    assert found.result == "unchanged"
    assert publish(one, root, model_name="m").result == "updated"  # a probe less is a difference


def test_another_artifact_is_a_new_version(root: Path, one: ONNXArtifact, two: ONNXArtifact) -> None:
    """The old version stays as it is, the config names the new one."""
    publish(one, root, model_name="m")
    before = tree(root / "m" / "1")
    found = publish(two, root, model_name="m")
    assert (found.result, found.version) == ("updated", 2)
    assert tree(root / "m" / "1") == before
    assert Repository(root).model("m").current == 2
    assert "-version_policy { specific { versions: [ 1 ] } }" in found.diff
    assert "+version_policy { specific { versions: [ 2 ] } }" in found.diff


def test_another_config_is_a_new_version(root: Path, one: ONNXArtifact) -> None:
    """A version's folder, and the config kept in it, are never written again."""
    publish(one, root, model_name="m")
    found = publish(one, root, model_name="m", options=PlanOptions(instance_count=2))
    assert (found.result, found.version) == ("updated", 2)


def test_a_companion_alone_makes_a_new_version(root: Path, tmp_path: Path, one: ONNXArtifact) -> None:
    """Weights are what the identity covers, not the model file alone (B19)."""
    publish(one, root, model_name="m")
    companion = one.path.parent / "w" / "data.bin"
    companion.write_bytes(b"other")
    other = dataclasses.replace(
        one, companions=(dataclasses.replace(one.companions[0], fingerprint=handmade.sha256(companion)),)
    )
    assert publish(other, root, model_name="m").version == 2


def test_a_damaged_version_is_repaired_by_a_new_one(root: Path, one: ONNXArtifact) -> None:
    """What is served must be what was recorded; the damaged folder is not written."""
    publish(one, root, model_name="m")
    (root / "m/1/model.onnx").write_bytes(b"damaged")
    found = publish(one, root, model_name="m")
    assert (found.result, found.version) == ("updated", 2)
    assert (root / "m/1/model.onnx").read_bytes() == b"damaged"


def test_a_dry_run_touches_nothing(root: Path, one: ONNXArtifact, two: ONNXArtifact) -> None:
    """It says what would happen, before and after there is something."""
    found = publish(one, root, model_name="m", dry_run=True)
    assert (found.result, found.version, found.dry_run) == ("created", 1, True)
    assert not root.parent.exists()
    publish(one, root, model_name="m")
    before = tree(root.parent)
    found = publish(two, root, model_name="m", dry_run=True)
    assert (found.result, found.version, found.files) == ("updated", 2, ("m/2/model.onnx", "m/2/aitune.json"))
    assert '-  key: "aitune.record.1"' in found.diff
    assert publish(one, root, model_name="m", dry_run=True).result == "unchanged"
    assert tree(root.parent) == before


def test_a_number_is_not_given_again_after_deletion(root: Path, one: ONNXArtifact, two: ONNXArtifact) -> None:
    """The history remembers what the disk does not."""
    publish(one, root, model_name="m")
    publish(two, root, model_name="m")
    shutil.rmtree(root / "m")
    assert publish(one, root, model_name="m").version == 3


def test_a_number_is_not_given_again_without_a_history(root: Path, one: ONNXArtifact, two: ONNXArtifact) -> None:
    """The disk and the config remember what a lost history does not, stray folder names included (R39, B43)."""
    publish(one, root, model_name="m")
    (root / "aitune_history.jsonl").unlink()
    (root / "m" / "7_old").mkdir()
    assert publish(two, root, model_name="m").version == 8


def test_rollback_is_one_file(root: Path, one: ONNXArtifact, two: ONNXArtifact) -> None:
    """The config of back then is served again; nothing else changes but the history."""
    text = publish(one, root, model_name="m").config_text
    publish(two, root, model_name="m")
    before = tree(root)
    found = rollback(root, "m", 1)
    after = tree(root)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"m/config.pbtxt", "aitune_history.jsonl"}
    assert (found.result, found.version, found.config_text) == ("updated", 1, text)
    assert (root / "m/config.pbtxt").read_text() == text
    assert Repository(root).history()[-1].action == "rolled back"


def test_a_rollback_to_what_is_served_is_unchanged(root: Path, one: ONNXArtifact) -> None:
    """Nothing is written, not even the history."""
    publish(one, root, model_name="m")
    before = tree(root)
    assert rollback(root, "m", 1).result == "unchanged"
    assert tree(root) == before


def test_publishing_what_was_rolled_back_serves_it_again(root: Path, one: ONNXArtifact, two: ONNXArtifact) -> None:
    """The version is there, complete: no second copy is made."""
    publish(one, root, model_name="m")
    publish(two, root, model_name="m")
    rollback(root, "m", 1)
    found = publish(two, root, model_name="m")
    assert (found.result, found.version, found.files) == ("updated", 2, ())
    assert Repository(root).model("m").current == 2


def test_a_damaged_version_is_not_rolled_back_to(root: Path, one: ONNXArtifact, two: ONNXArtifact) -> None:
    """The files are compared with the record first."""
    publish(one, root, model_name="m")
    publish(two, root, model_name="m")
    (root / "m/1/model.onnx").write_bytes(b"damaged")
    with pytest.raises(ArtifactIntegrityError, match="is not the recorded file"):
        rollback(root, "m", 1)
    assert Repository(root).model("m").current == 2


def test_a_version_that_is_not_there_is_named(root: Path, one: ONNXArtifact) -> None:
    """With those that are."""
    publish(one, root, model_name="m")
    with pytest.raises(RepositoryError, match="cannot go back to version 9") as caught:
        rollback(root, "m", 9)
    assert caught.value.hint == "versions to go to: 1"


def test_a_model_that_is_not_there_is_named(root: Path, one: ONNXArtifact) -> None:
    """In a repository with other models, and in one without any."""
    publish(one, root, model_name="m")
    with pytest.raises(RepositoryError, match="no model 'other'"):
        rollback(root, "other", 1)
    (root.parent / "empty").mkdir()
    with pytest.raises(RepositoryError, match="no model 'm'"):
        rollback(root.parent / "empty", "m", 1)


def test_a_kept_config_of_another_version_is_refused(root: Path, one: ONNXArtifact) -> None:
    """A record that was edited by hand serves nothing."""
    publish(one, root, model_name="m")
    record = root / "m/1/aitune.json"
    data = json.loads(record.read_text())
    data["config"] = data["config"].replace("versions: [ 1 ]", "versions: [ 5 ]")
    record.write_text(json.dumps(data))
    with pytest.raises(RepositoryError, match="serves another version"):
        rollback(root, "m", 1)


def test_a_foreign_model_is_never_overwritten(root: Path, one: ONNXArtifact) -> None:
    """Somebody else's folder stays as it is."""
    (root / "m" / "1").mkdir(parents=True)
    (root / "m" / "config.pbtxt").write_text("name: 'm'")
    before = tree(root)
    with pytest.raises(RepositoryError, match="a model that aitune did not publish"):
        publish(one, root, model_name="m")
    assert {name: content for name, content in tree(root).items() if name.startswith("m/")} == before


def test_an_edited_config_is_replaced_with_a_warning(root: Path, one: ONNXArtifact, two: ONNXArtifact) -> None:
    """The edit is shown in the diff and named."""
    publish(one, root, model_name="m")
    config = root / "m" / "config.pbtxt"
    config.write_text(config.read_text().replace("count: 1", "count: 5"))
    found = publish(two, root, model_name="m")
    assert "edited by hand" in found.warnings[-1]
    assert "-    count: 5" in found.diff


def test_a_config_that_cannot_be_parsed_is_replaced(root: Path, one: ONNXArtifact) -> None:
    """A new version heals it."""
    publish(one, root, model_name="m")
    (root / "m" / "config.pbtxt").write_text("{")
    assert publish(one, root, model_name="m").version == 2


def test_a_broken_contract_is_replaced(root: Path, one: ONNXArtifact) -> None:
    """An edited contract does not stop a publication."""
    publish(one, root, model_name="m")
    config = root / "m" / "config.pbtxt"
    config.write_text(config.read_text().replace('"schema_version":1', '"schema_version":9'))
    assert publish(one, root, model_name="m").version == 2


def test_a_model_without_its_config_is_finished(root: Path, one: ONNXArtifact) -> None:
    """What a crash on a mount point leaves: the version is there, its config is not."""
    publish(one, root, model_name="m")
    (root / "m" / "config.pbtxt").unlink()
    found = publish(one, root, model_name="m")
    assert (found.result, found.version, found.files) == ("created", 1, ())


def test_overlays_are_written_and_kept_up_to_date(root: Path, one: ONNXArtifact, two: ONNXArtifact) -> None:
    """A stale overlay would go on serving the old version."""
    options = PlanOptions(overlays=True)
    publish(one, root, model_name="m", options=options)
    assert "kind: KIND_CPU" in (root / "m/configs/cpu.pbtxt").read_text()
    publish(two, root, model_name="m")
    for name, kind in (("cpu", "KIND_CPU"), ("gpu", "KIND_GPU")):
        text = (root / f"m/configs/{name}.pbtxt").read_text()
        assert "versions: [ 2 ]" in text
        assert f"kind: {kind}" in text
    rollback(root, "m", 1)
    assert "versions: [ 1 ]" in (root / "m/configs/gpu.pbtxt").read_text()


def test_overlays_can_be_added_to_a_published_version(root: Path, one: ONNXArtifact) -> None:
    """No new version is made for them; with them in place, nothing is to be done."""
    publish(one, root, model_name="m")
    options = PlanOptions(overlays=True)
    found = publish(one, root, model_name="m", options=options)
    assert (found.result, found.version, found.files) == ("updated", 1, ())
    assert publish(one, root, model_name="m", options=options).result == "unchanged"
    (root / "m/configs/cpu.pbtxt").write_text("")
    assert publish(one, root, model_name="m").result == "updated"


def test_overlays_that_nobody_could_read_are_refused(root: Path, one: ONNXArtifact) -> None:
    """They came with 24.05 (R33), and a plan runs on a GPU only."""
    with pytest.raises(UsageError, match=r"Triton 24\.04 knows no overlays"):
        publish(one, root, model_name="m", options=PlanOptions(overlays=True, triton="24.04"))
    plan_file = TensorRTPlanArtifact(path=one.path, fingerprint=one.fingerprint, inputs=one.inputs, outputs=one.outputs)
    with pytest.raises(UsageError, match="overlays make no sense for a TensorRT plan"):
        publish(plan_file, root, model_name="m", options=PlanOptions(overlays=True))


def test_somebody_elses_overlay_is_told(root: Path, one: ONNXArtifact) -> None:
    """It still names the version it was written for."""
    publish(one, root, model_name="m", options=PlanOptions(overlays=True))
    (root / "m/configs/edge.pbtxt").write_text("")
    assert publish(one, root, model_name="m").warnings == (
        "configs/edge.pbtxt is not aitune's: it still serves what it served before",
    )


def test_a_changed_source_is_not_published(root: Path, one: ONNXArtifact) -> None:
    """The bytes are hashed while they are copied; nothing is left, not even the root."""
    one.path.write_bytes(b"changed")
    with pytest.raises(ArtifactIntegrityError, match="is not the recorded file"):
        publish(one, root, model_name="m")
    assert not root.parent.exists()


def test_a_changed_source_is_not_unchanged(root: Path, one: ONNXArtifact) -> None:
    """The record in the repository does not vouch for the file that was given."""
    publish(one, root, model_name="m")
    one.path.write_bytes(b"changed")
    with pytest.raises(ArtifactIntegrityError, match="is not the recorded file"):
        publish(one, root, model_name="m")


def test_a_failed_update_takes_its_version_back(
    root: Path, one: ONNXArtifact, two: ONNXArtifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version that no config names is removed again; its number is gone all the same."""
    publish(one, root, model_name="m")
    replace = os.replace

    def fail(source: Path, target: Path) -> None:
        if target.name == "config.pbtxt":
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        publish(two, root, model_name="m")
    monkeypatch.undo()
    assert Repository(root).model("m").versions == (1,)
    assert sorted(path.name for path in root.parent.iterdir()) == ["root"]
    assert publish(two, root, model_name="m").version == 3


def test_a_border_inside_the_file_system_is_crossed(
    root: Path, one: ONNXArtifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a rename into the root is refused, the version is staged inside the model's folder."""
    rename = os.rename

    def refuse(source: Path, target: Path) -> None:
        if source.parts[: len(target.parts) - 1] != target.parts[:-1]:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    assert publish(one, root, model_name="m").version == 1
    assert sorted(path.name for path in (root / "m").iterdir()) == ["1", "config.pbtxt"]
    assert sorted(path.name for path in root.parent.iterdir()) == ["root"]


def test_a_history_that_fails_afterwards_is_a_warning(
    root: Path, one: ONNXArtifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is served is served."""
    append = History.append

    def fail(self: History, action: str, model: str, version: int, identity: str) -> None:
        if action == "published":
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, action, model, version, identity)

    monkeypatch.setattr(History, "append", fail)
    found = publish(one, root, model_name="m")
    assert found.warnings == ("the history could not be written: no space left on device",)
    assert Repository(root).model("m").current == 1


def test_leftovers_of_a_crash_are_removed(root: Path, one: ONNXArtifact, two: ONNXArtifact) -> None:
    """Beside the root and inside models, but only our own for this root (B42)."""
    publish(one, root, model_name="m")
    (root / "other" / ".aitune-staging-01234567").mkdir(parents=True)
    (root / "m" / ".aitune-staging-01234567.pbtxt").write_text("")
    mine, others = root.parent / ".aitune-staging-root-01234567", root.parent / ".aitune-staging-root2-01234567"
    mine.mkdir()
    others.mkdir()
    publish(two, root, model_name="m")
    assert not mine.exists()
    assert others.exists()
    assert sorted(path.name for path in (root / "m").iterdir()) == ["1", "2", "config.pbtxt"]
    assert not (root / "other").exists()


def test_a_repository_that_is_a_file_is_refused(tmp_path: Path, one: ONNXArtifact) -> None:
    """One line, and the file is left alone."""
    (tmp_path / "f").write_text("x")
    with pytest.raises(RepositoryError, match="is a file, not a directory"):
        publish(one, tmp_path / "f", model_name="m")
    with pytest.raises(RepositoryError, match="not a directory"):
        publish(one, tmp_path / "f" / "deeper", model_name="m")


def test_a_file_or_a_dangling_link_in_the_models_place_is_refused(root: Path, one: ONNXArtifact) -> None:
    """Neither can hold a model."""
    root.mkdir(parents=True)
    (root / "m").write_text("")
    with pytest.raises(RepositoryError, match="a model needs a folder"):
        publish(one, root, model_name="m")
    (root / "n").symlink_to("nowhere")
    with pytest.raises(RepositoryError, match="dangling link"):
        publish(one, root, model_name="n")


def test_a_linked_model_folder_is_published_into(root: Path, tmp_path: Path, one: ONNXArtifact) -> None:
    """Triton follows the link (R27), and so does the publisher."""
    root.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (root / "m").symlink_to(tmp_path / "elsewhere")
    publish(one, root, model_name="m")
    assert (tmp_path / "elsewhere" / "config.pbtxt").exists()
    assert (root / "m").is_symlink()


def test_version_numbers_end_before_the_server_does(root: Path, one: ONNXArtifact, two: ONNXArtifact) -> None:
    """Beyond int64 a server aborts (R8)."""
    publish(one, root, model_name="m")
    (root / "m" / ("9" * 18)).mkdir()
    with pytest.raises(RepositoryError, match="has used up its version numbers"):
        publish(two, root, model_name="m")


@pytest.mark.parametrize(
    ("keep", "origins"),
    [("none", None), ("synthetic", ["synthetic"]), ("recorded", ["synthetic", "recorded"])],
)
def test_samples_are_kept_as_asked(root: Path, one: ONNXArtifact, keep: str, origins: list[str] | None) -> None:
    """A user's own data is published only when that was said, and the rest is cut out of the file."""
    found = publish(handmade.with_samples(one), root, model_name="m", keep_samples=keep)
    document = Repository(root).model("m").document
    assert document is not None
    assert document.artifact.evidence is not None
    samples = document.artifact.evidence.samples
    file = root / "m/1/aitune_samples.bin"
    assert ("m/1/aitune_samples.bin" in found.files) == file.exists() == (origins is not None)
    if origins is None:
        assert samples is None
        return
    assert samples is not None
    assert [sample.origin for sample in samples.samples] == origins
    assert handmade.sha256(file) == samples.fingerprint
    assert file.read_bytes() == b"".join(bytes([index + 1]) * 32 for index in range(len(origins)))


def test_no_sample_of_the_wanted_kind_is_no_file(root: Path, one: ONNXArtifact) -> None:
    """Only recorded samples, and only synthetic ones wanted."""
    publish(handmade.with_samples(one, ["recorded"]), root, model_name="m")
    assert not (root / "m/1/aitune_samples.bin").exists()


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be read: no such file"), (b"", "not the recorded one")]
)
def test_a_sample_file_that_is_not_the_recorded_one_is_refused(
    root: Path, one: ONNXArtifact, content: bytes | None, message: str
) -> None:
    """The hint says how to publish without."""
    artifact = handmade.with_samples(one)
    path = one.path.parent / "aitune_samples.bin"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(ArtifactIntegrityError, match=message) as caught:
        publish(artifact, root, model_name="m")
    assert "--keep-samples none" in caught.value.hint


def test_a_sample_beyond_the_end_of_the_file_is_refused(root: Path, one: ONNXArtifact) -> None:
    """The index and the bytes must fit."""
    artifact = handmade.with_samples(one)
    evidence = artifact.evidence
    assert evidence is not None
    assert evidence.samples is not None
    sample = evidence.samples.samples[0]
    longer = dataclasses.replace(sample, inputs=(dataclasses.replace(sample.inputs[0], nbytes=999),))
    samples = dataclasses.replace(evidence.samples, samples=(longer,))
    artifact = dataclasses.replace(artifact, evidence=dataclasses.replace(evidence, samples=samples))
    with pytest.raises(ArtifactIntegrityError, match="ends before tensor 'x'"):
        publish(artifact, root, model_name="m")


def test_an_unknown_way_to_keep_samples_is_refused(root: Path, one: ONNXArtifact) -> None:
    """The known ones are listed."""
    with pytest.raises(UsageError, match="must be one of none, synthetic, recorded, got 'all'"):
        publish(one, root, model_name="m", keep_samples="all")


def test_a_bad_name_is_found_first(root: Path, one: ONNXArtifact) -> None:
    """Before anything is made."""
    with pytest.raises(RepositoryError, match="a model cannot be called"):
        publish(one, root, model_name="../m")
    assert not root.parent.exists()


def test_a_config_that_cannot_be_read_may_name_a_version(root: Path, one: ONNXArtifact) -> None:
    """Then the version is not taken back; one that is not there names nothing."""
    publish(one, root, model_name="m")
    config = root / "m" / "config.pbtxt"
    assert commit._names(config, 1)
    assert not commit._names(config, 2)
    config.write_text("{")
    assert commit._names(config, 2)
    config.unlink()
    assert not commit._names(config, 1)


def test_a_mount_point_with_a_blank_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel writes blanks in octal."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(rf"1 2 0:3 / {tmp_path}/a\040b rw - tmpfs tmpfs rw" + "\n")
    monkeypatch.setattr(staging, "_MOUNTS", mounts)
    (tmp_path / "a b").mkdir()
    assert not staging.can_stage_outside(tmp_path / "a b", tmp_path / "a b" / "m")
    monkeypatch.setattr(staging, "_MOUNTS", tmp_path / "none")
    assert staging.can_stage_outside(tmp_path / "a b", tmp_path / "a b" / "m")


def test_the_root_of_everything_has_nothing_beside_it() -> None:
    """``/`` is a repository for somebody."""
    assert not staging.can_stage_outside(Path("/"), Path("/m"))


def test_another_device_is_staged_inside() -> None:
    """A rename cannot cross."""
    assert not staging.can_stage_outside(Path("/proc"), Path("/proc/m"))


@pytest.mark.parametrize("existed", [False, True])
def test_a_refused_publication_leaves_no_history(root: Path, one: ONNXArtifact, existed: bool) -> None:
    """Neither a new folder nor, in a folder that was there, the file that is made for the lock."""
    one.path.write_bytes(b"?")
    if existed:
        root.mkdir(parents=True)
    with pytest.raises(ArtifactIntegrityError):
        publish(one, root, model_name="m")
    assert root.exists() is root.parent.exists() is existed
    assert not existed or not list(root.iterdir())


def test_a_refused_publication_leaves_the_history_of_others(root: Path, one: ONNXArtifact, two: ONNXArtifact) -> None:
    """What was noted before stays, and so does the number that was taken."""
    publish(one, root, model_name="m")
    before = tree(root)
    two.path.write_bytes(b"?")
    with pytest.raises(ArtifactIntegrityError):
        publish(two, root, model_name="n")
    after = tree(root)
    assert after.pop("aitune_history.jsonl").startswith(before.pop("aitune_history.jsonl"))
    assert after == before
