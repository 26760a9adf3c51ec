"""Folders for the files of an artifact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aitune.errors import SourceError, UsageError
from aitune.onnx.workspace import cache_folder, copy_model, workspace_folder

Write = Callable[..., Path]


def test_a_model_and_its_companions_are_copied(external: Write, tmp_path: Path) -> None:
    """Every file arrives under its relative name with its bytes."""
    path, folder = external("data/w.bin"), tmp_path / "out"
    folder.mkdir()
    copy = copy_model(path, ("data/w.bin",), folder)
    assert copy == folder / "model.onnx"
    for name in ("model.onnx", "data/w.bin"):
        assert (folder / name).read_bytes() == (path.parent / name).read_bytes()
        assert (folder / name).stat().st_ino != (path.parent / name).stat().st_ino
    assert copy_model(copy, ("data/w.bin",), folder) == copy


def test_a_linked_model_is_copied_as_a_file(relu: Write, tmp_path: Path) -> None:
    """What lies in a workspace is never a link to something that may change."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link.onnx").symlink_to(relu())
    assert not copy_model(tmp_path / "out" / "link.onnx", (), tmp_path / "out").is_symlink()


def test_a_file_that_cannot_be_copied_is_named(relu: Write, tmp_path: Path) -> None:
    """A companion that went away, and a folder that is none, say what the system says."""
    path = relu(name="here/model.onnx")
    with pytest.raises(SourceError, match=r"gone\.bin' cannot be copied to .*: no such file"):
        copy_model(path, ("gone.bin",), tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SourceError, match=r"cannot be copied to .*: file exists"):
        copy_model(path, (), tmp_path / "file")


def test_a_file_that_changes_while_it_is_copied_is_refused(
    relu: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is still being written does not become an artifact."""
    path = relu(name="here/model.onnx")

    def copy(source: Path, target: Path, check: Callable[[str], None]) -> None:
        source.write_bytes(b"other")
        check("digest")

    monkeypatch.setattr("aitune.onnx.workspace.copy_hashed", copy)
    with pytest.raises(SourceError, match="changed while it was copied"):
        copy_model(path, (), tmp_path)


def test_a_given_workspace_is_made_and_kept(tmp_path: Path) -> None:
    """The caller's folder belongs to the caller, also when something fails in it."""

    def fail() -> None:
        with workspace_folder(tmp_path / "a" / "b") as folder:
            (folder / "file").touch()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (tmp_path / "a" / "b" / "file").exists()


def test_a_folder_in_the_cache_stays_only_on_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each artifact has its own folder, so one never overwrites the samples of another; a failure leaves nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with workspace_folder(None) as first, workspace_folder(None) as second:
        assert first != second
    assert first.parent == second.parent == cache_folder() == tmp_path / "aitune" / "artifacts"
    with pytest.raises(KeyError), workspace_folder(None) as third:
        raise KeyError
    assert sorted(cache_folder().iterdir()) == sorted([first, second])
    assert not third.exists()


def test_a_workspace_that_cannot_be_made_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the way is named with advice."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"workspace .* cannot be made"), workspace_folder(tmp_path / "file" / "x"):
        pass
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "aitune" / "artifacts"
