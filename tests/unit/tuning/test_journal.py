"""What was measured is kept as it is measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tuning_fakes import Fake, FakeClock

from aitune.numerics import Array
from aitune.records import DType, TensorSpec
from aitune.tuning import choose
from aitune.tuning.choose import Choice
from aitune.tuning.goal import Goal
from aitune.tuning.journal import Journal, journal_key, tuning_cache

Y = TensorSpec("y", DType.FLOAT32, ("batch", 1))
KEY = journal_key({"model": "m"})


def requests(rows: int | None, label: str = "typical") -> Mapping[str, Array]:
    """A request of so many rows."""
    return {"x": np.ones((rows or 1, 1), np.float32)}


def contest(clock: FakeClock, runs: list[str], stop_at: int = 10**9) -> list[Fake]:
    """Two candidates that count their runs; Ctrl-C comes at one of them."""

    def run(name: str, seconds: float, x: Array) -> Array:
        runs.append(name)
        if len(runs) == stop_at:
            raise KeyboardInterrupt
        clock.spend(seconds)
        return x

    return [Fake(lambda x, n=n, s=s: run(n, s, x), n) for n, s in (("default", 0.10), ("fast", 0.05))]


def tuned(folder: Path, clock: FakeClock, candidates: list[Fake]) -> Choice:
    """The choice, remembered in a folder."""
    goal = Goal(batched=True, limit=16, seconds=60.0)
    return choose(candidates, requests, [Y], goal, journal=Journal(folder, KEY), clock=clock)


def test_an_interrupted_tuning_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Ctrl-C in the middle: the second run takes only the steps that were not finished, and decides the same."""
    whole: list[str] = []
    clock = FakeClock()
    undisturbed = tuned(tmp_path / "whole", clock, contest(clock, whole))
    first: list[str] = []
    clock = FakeClock()
    with pytest.raises(KeyboardInterrupt):
        tuned(tmp_path / "cut", clock, contest(clock, first, stop_at=len(whole) * 2 // 3))
    second: list[str] = []
    clock = FakeClock()
    again = tuned(tmp_path / "cut", clock, contest(clock, second))
    assert (again.winner, again.max_batch_size, again.tuning.reason) == (1, 16, undisturbed.tuning.reason)
    assert 0 < len(second) < len(whole)


def test_a_finished_tuning_is_not_repeated(tmp_path: Path) -> None:
    """Nothing is opened, and the record is the same to the last digit, though the clock says something else."""
    clock, runs = FakeClock(), []
    before = tuned(tmp_path, clock, contest(clock, runs))
    candidates = contest(FakeClock(), again := [])
    assert tuned(tmp_path, FakeClock(), candidates) == before
    assert again == []
    assert [candidate.opened for candidate in candidates] == [0, 0]


def test_other_facts_are_another_journal() -> None:
    """Order does not matter, a version does."""
    assert journal_key({"a": 1, "b": (2,)}) == journal_key({"b": [2], "a": 1})
    assert journal_key({"onnxruntime": "1.32.0"}) != journal_key({"onnxruntime": "1.32.1"})
    with pytest.raises(TypeError, match="cannot be a set"):
        journal_key({"a": {1}})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 2}', '{"schema_version": 1, "key": "other"}'])
def test_a_journal_that_cannot_be_used_is_begun_anew(tmp_path: Path, text: str) -> None:
    """Cut off, of another version or of something else: as if it were not there."""
    (tmp_path / f"{KEY}.json").write_text(text)
    journal = Journal(tmp_path, KEY)
    assert "step" not in journal
    assert journal.step("step", lambda: 1) == 1
    assert json.loads((tmp_path / f"{KEY}.json").read_text())["steps"] == {"step": 1}
    assert [path.name for path in tmp_path.iterdir()] == [f"{KEY}.json"]


def test_a_folder_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    """A tuning is not lost because a disk is full."""
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file", KEY)
    assert [journal.step("step", lambda: 1), journal.step("step", lambda: 2)] == [1, 1]


def test_the_cache_lies_where_the_user_wants_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """XDG_CACHE_HOME is obeyed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tuning_cache() == tmp_path / "aitune" / "tuning"


def test_the_time_to_make_a_file_is_not_measuring(tmp_path: Path) -> None:
    """Twice the budget goes by while a file is made, also where an interrupted tuning lost it; later none is made."""
    made: list[str] = []

    class Made(Fake):
        there = False

        def prepare(self) -> None:
            """Make nothing, slowly, once."""
            if self.name == "fast" and not self.there:
                self.there = True
                made.append(self.name)
                clock.spend(120.0)

    def candidates(runs: list[str], stop_at: int = 0) -> list[Fake]:
        return [Made(one.function, one.name) for one in contest(clock, runs, stop_at=stop_at)]

    whole: list[str] = []
    clock = FakeClock()
    first = tuned(tmp_path / "whole", clock, candidates(whole))
    assert (first.tuning.winner, made) == ("fast", ["fast"])
    clock = FakeClock()
    with pytest.raises(KeyboardInterrupt):
        tuned(tmp_path / "cut", clock, candidates([], stop_at=whole.index("fast") + 20))
    assert made == ["fast"] * 2
    clock = FakeClock()
    assert tuned(tmp_path / "cut", clock, candidates([])).tuning.reason == first.tuning.reason
    assert made == ["fast"] * 3
    clock = FakeClock()
    assert tuned(tmp_path / "cut", clock, candidates([])).tuning.winner == "fast"
    assert made == ["fast"] * 3
