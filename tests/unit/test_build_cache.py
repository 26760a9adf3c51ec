"""A build is used again only when nothing that decided it changed."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from aitune.build_cache import BuildCache
from aitune.records import ONNXArtifact
from aitune.records.evidence import Evidence
from aitune.records.fingerprints import fingerprint_file
from aitune.watching import Watch, watching

FACTS = {"source": "m.onnx"}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source and a file of weights, older than any build, and no module that somebody is just editing."""
    for name in ("source.py", "weights.pt"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr("aitune.build_cache._program_texts", lambda: {os.__file__})
    monkeypatch.setattr(Watch, "strangers", lambda self: [])
    time.sleep(0.15)
    return tmp_path


def made(folder: Path) -> ONNXArtifact:
    """An artifact."""
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(b"model")
    return ONNXArtifact(
        path=folder / "model.onnx",
        fingerprint=fingerprint_file(folder / "model.onnx"),
        inputs=(),
        outputs=(),
        evidence=Evidence(notes=("made",)),
    )


def cache(world: Path, **facts: str) -> BuildCache:
    """The cache as the next build sees it."""
    return BuildCache(FACTS | facts, [world / "source.py"], world / "cache" / "builds")


def keep(world: Path) -> str:
    """Build once, reading the weights; why it is not kept."""
    mine = cache(world)
    with watching() as watch:
        (world / "weights.pt").read_bytes()
        artifact = made(world / "made")
    return mine.keep(artifact, watch)


def test_an_unchanged_build_is_found_again(world: Path) -> None:
    """With its evidence, in a place of its own, whole."""
    assert cache(world).find() is None
    assert keep(world) == ""
    found = cache(world).find()
    assert found is not None
    assert found.path.parent != world / "made"
    assert found.fingerprint == made(world / "made").fingerprint
    assert found.evidence == made(world / "made").evidence


@pytest.mark.parametrize(
    "change",
    [
        lambda world: (world / "source.py").write_text("changed"),
        lambda world: (world / "weights.pt").write_text("weights.pT"),
        lambda world: os.utime(world / "weights.pt", ns=(0, (world / "weights.pt").stat().st_mtime_ns)),
        lambda world: (world / "weights.pt").unlink(),
        lambda world: (world / "more.safetensors").write_text("new weights beside"),
        lambda world: next((world / "cache" / "builds").glob("*/model.onnx")).write_bytes(b"spoiled"),
        lambda world: next((world / "cache" / "builds").glob("*/manifest.json")).write_text("{"),
    ],
)
def test_whatever_changed_makes_it_be_done_again(world: Path, change: Callable[[Path], object]) -> None:
    """The source, what it read, its times alone, what came to lie beside it, and the cache itself."""
    assert keep(world) == ""
    change(world)
    assert cache(world).find() is None


def test_another_request_or_environment_is_another_build(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options and variables count, the width of the terminal does not."""
    assert keep(world) == ""
    assert cache(world, objective="latency").find() is None
    monkeypatch.setenv("COLUMNS", "77")
    assert cache(world).find() is not None
    monkeypatch.setenv("MODEL_SIZE", "large")
    assert cache(world).find() is None


def test_what_changes_during_the_build_is_not_kept(world: Path) -> None:
    """Nobody can tell whether the old or the new was read."""
    mine = cache(world)
    with watching() as watch:
        (world / "weights.pt").read_bytes()
    (world / "weights.pt").write_text("changed")
    assert "changed during the build" in mine.keep(made(world / "made"), watch)


def test_what_cannot_be_seen_is_not_kept(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection, a program, and native code that may read anything."""
    mine = cache(world)
    with watching() as watch, socket.socket() as one:
        sys.audit("socket.connect", one, ("127.0.0.1", 1))
        sys.audit("subprocess.Popen", "git", ["git", "log"], None, None)
        sys.audit("subprocess.Popen", sys.executable, [sys.executable, "-m", "aitune.onnx.worker"], None, None)
    assert list(watch.unseen) == ["socket.connect", "the program 'git' was started"]
    assert mine.keep(made(world / "made"), watch).startswith("nobody can tell whether it depends on socket.connect")
    monkeypatch.undo()
    stranger = ModuleType("h5")
    stranger.__file__ = "/venv/lib/python3.11/site-packages/h5reader/_native.so"
    monkeypatch.setitem(sys.modules, "h5", stranger)
    assert "h5reader" in Watch().strangers()


def test_a_watch_sees_what_is_read_and_what_is_written(tmp_path: Path) -> None:
    """Its own products are no inputs, and afterwards it sees nothing."""
    (tmp_path / "in.txt").write_text("x")
    with watching() as watch:
        (tmp_path / "in.txt").read_text()
        (tmp_path / "out.txt").write_text("y")
        (tmp_path / "out.txt").read_text()
        Path("/proc/cpuinfo").read_text()
    (tmp_path / "out.txt").read_text()
    seen = [path for path in watch.files() if path.startswith(str(tmp_path)) or "/proc" in path]
    assert seen == [str(tmp_path / "in.txt")]


def test_native_readers_of_safetensors_are_seen(tmp_path: Path) -> None:
    """They open files without Python, and under the name that other modules took from the package."""
    safetensors = pytest.importorskip("safetensors.numpy")
    import numpy as np

    path = tmp_path / "w.safetensors"
    safetensors.save_file({"w": np.ones(2, np.float32)}, path)
    with watching() as watch:
        assert safetensors.load_file(path)["w"].sum() == 2
    assert str(path) in watch.files()
    assert safetensors.load_file(path)["w"].sum() == 2
