"""A publication that ends at any step leaves the old state or the new one, and the next one cleans up."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import handmade
import pytest

from aitune.errors import RepositoryError
from aitune.records import Artifact
from aitune.triton import PlanOptions, Repository, commit, publish, rollback

CRASHED = 77
PLACES = pytest.mark.parametrize("inside", [False, True], ids=["beside the root", "inside the model"])


@pytest.fixture(autouse=True)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where versions are staged, as the test's parameter says."""
    if request.getfixturevalue("inside"):
        monkeypatch.setattr(commit, "can_stage_outside", lambda root, model: False)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Artifact, Artifact]:
    """Two artifacts with companions."""
    return (
        handmade.fake(tmp_path / "one", b"1", companions=["w/data.bin"]),
        handmade.fake(tmp_path / "two", b"2", companions=["w/data.bin"]),
    )


def served(root: Path) -> tuple[int, str] | None:
    """Version and identity that Triton would serve, its files checked; None for no model at all."""
    if not root.exists() or "m" not in Repository(root).names():
        return None
    model = Repository(root).model("m")
    if model.config_text is None:  # a first publication into a mount point: files first, config last
        return None
    assert model.document is not None
    assert model.config.version_policy.specific.versions == [model.current]
    model.document.artifact.verify()
    return model.current, model.document.artifact.identity


def everything(folder: Path) -> list[str]:
    """All that lies in a folder that is not a version's file."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "aitune" in path.name)


def crashes(act: Callable[[], object], steps: object, arrange: Callable[[], None]) -> Iterator[int]:
    """Run ``act`` in a process that ends at its first step, then at its second, until it gets through."""
    number, status = 0, CRASHED
    while status == CRASHED:
        number += 1
        arrange()
        child = os.fork()
        if child == 0:
            steps.at(number, lambda: os._exit(CRASHED))
            try:
                act()
            finally:
                os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        yield number
    assert number > 5


@PLACES
def test_a_crash_of_a_first_publication(
    tmp_path: Path, two: tuple[Artifact, Artifact], steps: object, inside: bool
) -> None:
    """There is no model, or a complete one; publishing again always ends well and leaves nothing behind."""
    parent = tmp_path / "p"
    parent.mkdir()
    number = 0

    def root() -> Path:
        return parent / f"root{number}"

    def next_root() -> None:
        nonlocal number
        number += 1

    for _ in crashes(lambda: publish(two[0], root(), model_name="m"), steps, next_root):
        assert served(root()) in (None, (1, two[0].identity))
        publish(two[0], root(), model_name="m")
        assert served(root())[1] == two[0].identity
        assert [path.name for path in parent.iterdir() if path.name.startswith(".")] == []
        assert [path.name for path in (root() / "m").iterdir() if path.name.startswith(".")] == []


@PLACES
def test_a_crash_of_an_update(tmp_path: Path, two: tuple[Artifact, Artifact], steps: object, inside: bool) -> None:
    """The old version is served, or the new one; publishing again serves the new one and leaves nothing behind."""
    root = tmp_path / "p" / "root"
    publish(two[0], root, model_name="m", options=PlanOptions(overlays=True))
    publish(two[1], root, model_name="m")
    old, new = two

    def update() -> None:
        publish(new, root, model_name="m")

    before = served(root)
    for _ in crashes(update, steps, lambda: None):
        found = served(root)
        assert found == before or found[1] == new.identity
        publish(new, root, model_name="m")
        assert served(root)[1] == new.identity
        assert [path for path in everything(tmp_path / "p") if "staging" in path] == []
        versions = Repository(root).model("m").versions
        assert sorted(path.name for path in (root / "m").iterdir()) == sorted(
            [*map(str, versions), "config.pbtxt", "configs"]
        )
        old, new = new, old
        before = served(root)


@PLACES
def test_a_crash_of_a_rollback(tmp_path: Path, two: tuple[Artifact, Artifact], steps: object, inside: bool) -> None:
    """One of the two versions is served, complete."""
    root = tmp_path / "p" / "root"
    publish(two[0], root, model_name="m")
    publish(two[1], root, model_name="m")
    target = 2

    def turn() -> None:
        nonlocal target
        rollback(root, "m", target)
        target = 3 - target

    for _ in crashes(lambda: rollback(root, "m", target), steps, turn):
        assert served(root) in ((1, two[0].identity), (2, two[1].identity))


def failure(act: Callable[[], object]) -> RepositoryError | None:
    """The error that came, if one came."""
    try:
        act()
    except RepositoryError as error:
        return error
    return None


@PLACES
def test_a_full_disk_at_any_step(tmp_path: Path, two: tuple[Artifact, Artifact], steps: object, inside: bool) -> None:
    """Whatever cannot be written, the answer is one line, the old version is served and nothing is left behind."""
    root = tmp_path / "p" / "root"
    publish(two[0], root, model_name="m")
    before = sorted(path for path in (tmp_path / "p").rglob("*") if path.name != "aitune_history.jsonl")

    wanted = f"cannot publish 'm' into {str(root)!r}"

    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    number = 0
    while steps.count >= number:
        number += 1
        steps.at(number, full)
        error = failure(lambda: publish(two[1], root, model_name="m"))
        if error is None:
            break
        assert (str(error), error.hint) == (f"{wanted}: no space left on device", "make room on that disk")
        assert served(root) == (1, two[0].identity)
        left = sorted(path for path in (tmp_path / "p").rglob("*") if path.name != "aitune_history.jsonl")
        assert left == before
    assert served(root)[1] == two[1].identity
    assert number > 15
