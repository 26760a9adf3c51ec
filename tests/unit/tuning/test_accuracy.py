"""A candidate must give the source's answers, however fast it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tuning_fakes import Fake, FakeClock

from aitune.errors import SourceError
from aitune.numerics import Array
from aitune.records import DType, TensorSpec
from aitune.tuning import choose
from aitune.tuning.accuracy import Judge, cosine
from aitune.tuning.choose import Choice
from aitune.tuning.goal import Goal

Y = TensorSpec("y", DType.FLOAT32, ("batch", 4))
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def requests(rows: int | None, label: str = "typical") -> Mapping[str, Array]:
    """Rows that differ."""
    return {"x": np.resize(X, (rows or 1, 4))}


def off_by(share: float, name: str = "int8", precision: str = "int8") -> Fake:
    """A candidate that is off by a share of the largest value, up and down."""
    signs = np.where(np.arange(4) % 2, share, -share).astype(np.float32)
    made = Fake(lambda x: x + signs, name)
    made.precision = precision
    return made


def verdict(candidate: Fake, **options: Any) -> Any:
    """What the judge says of it."""
    judge = Judge([Y], **options)
    return judge.judge(candidate.name, candidate.precision, candidate, [({"x": X}, {"y": X})])


def test_fewer_bits_may_differ_more_but_not_much_more() -> None:
    """Five percent of the largest value pass for int8, a quarter does not, and neither does for the model's own."""
    passed = verdict(off_by(0.05))
    assert passed.problem == ""
    assert passed.accuracy[0].max_abs == pytest.approx(0.05)
    assert passed.accuracy[0].cosine > 0.98
    assert "answers differently: output 'y'" in verdict(off_by(0.25)).problem
    assert "answers differently" in verdict(off_by(0.05, precision="fp32")).problem


def test_an_answer_that_points_elsewhere_fails_though_every_element_is_near() -> None:
    """Small values off by as much as they are: the cosine tells."""
    small = np.full((2, 4), 0.1, np.float32)
    small[0, 0] = 0.9
    judge = Judge([Y])
    found = judge.judge("int8", "int8", off_by(0.15), [({"x": small}, {"y": small})])
    assert "is asked for" in found.problem
    assert not found.accuracy[0].passed


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (True, ""),
        (np.True_, ""),
        ("", ""),
        (False, "the check of accuracy refuses it"),
        ("recall fell to 0.7", "the check of accuracy refuses it: recall fell to 0.7"),
    ],
)
def test_the_users_own_check_decides_for_fewer_bits(answer: object, problem: str) -> None:
    """Instead of the thresholds: true, or why not."""
    found = verdict(off_by(0.5), check=lambda expected, actual: answer)
    assert found.problem == problem
    assert found.accuracy[0].passed


def test_the_users_own_check_comes_on_top_for_the_models_own_numbers() -> None:
    """It cannot excuse a wrong answer."""
    assert "answers differently" in verdict(off_by(0.5, precision="fp32"), check=lambda *_: True).problem


def test_a_check_that_fails_or_says_nothing_is_the_users_error() -> None:
    """One line that names it."""
    with pytest.raises(SourceError, match="the check of accuracy raised ZeroDivisionError"):
        verdict(off_by(0.0), check=lambda *_: 1 / 0)
    with pytest.raises(SourceError, match="the check of accuracy returned None"):
        verdict(off_by(0.0), check=lambda *_: None)


def test_the_cosine_is_of_numbers_only() -> None:
    """Strings, booleans, other shapes and zeros have none."""
    ones = np.ones(3, np.float32)
    assert cosine(ones, ones, DType.FLOAT32) == 1.0
    assert cosine(-ones, ones, DType.FLOAT32) == -1.0
    assert cosine(ones, np.zeros(3, np.float32), DType.FLOAT32) is None
    assert cosine(ones, np.ones(4, np.float32), DType.FLOAT32) is None
    assert cosine(np.array([b"a"], object), np.array([b"a"], object), DType.STRING) is None


def chosen(clock: FakeClock, *candidates: Fake, **more: Any) -> Choice:
    """The choice among candidates."""
    goal = Goal(batched=True, limit=4, fixed_batch=True)
    return choose(candidates, requests, [Y], goal, clock=clock, **more)


def paced(clock: FakeClock, seconds: float, name: str, shift: float = 0.0) -> Fake:
    """A candidate that takes its time and is off by so much."""

    def run(x: Array) -> Array:
        clock.spend(seconds)
        return x + np.float32(shift)

    return Fake(run, name)


def test_an_inaccurate_faster_candidate_loses() -> None:
    """Ten times as fast and one percent off: listed with its number, never chosen."""
    clock = FakeClock()
    found = chosen(clock, paced(clock, 0.1, "default"), paced(clock, 0.01, "sloppy", 0.01))
    assert found.tuning.winner == "default"
    assert dict(found.tuning.rejected)["sloppy"].startswith("answers differently: output 'y'")
    sloppy = next(item for item in found.tuning.accuracy if item.candidate == "sloppy")
    assert (sloppy.passed, sloppy.output) == (False, "y")
    assert sloppy.max_abs == pytest.approx(0.01, rel=1e-3)


def test_the_source_itself_is_what_candidates_are_compared_with() -> None:
    """Also the first is compared, and recorded samples are asked too."""
    clock = FakeClock()
    asked: list[tuple[int, ...]] = []

    def source(request: Mapping[str, Array]) -> dict[str, Array]:
        asked.append(request["x"].shape)
        return {"y": request["x"]}

    sample = {"x": np.ones((3, 4), np.float32)}
    found = chosen(clock, paced(clock, 0.1, "default"), reference=source, samples=[sample])
    assert asked == [(4, 4), (3, 4)]
    assert [(item.candidate, item.passed) for item in found.tuning.accuracy] == [("default", True)]


def test_where_the_first_differs_from_the_source_the_first_is_the_measure() -> None:
    """An export that differs in a tie was accepted before; the others are held to what it says."""
    clock = FakeClock()
    first, second = paced(clock, 0.1, "default", 0.01), paced(clock, 0.05, "fast", 0.01)
    found = chosen(clock, first, second, reference=lambda request: {"y": request["x"]})
    assert found.tuning.winner == "fast"
    assert found.tuning.rejected == ()
