"""Batches between the powers of two, limits of time, other shapes, and machines that do not hold still."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from tuning_fakes import Fake, FakeClock

from aitune.errors import SourceError, UsageError
from aitune.numerics import Array
from aitune.records import DType, TensorSpec
from aitune.tuning import choose
from aitune.tuning.choose import Choice, Goal
from aitune.tuning.largest import largest_batch

Y = TensorSpec("y", DType.FLOAT32, ("batch", None))
WIDTHS = {"smallest": 1, "typical": 2, "largest": 8}


def requests(rows: int | None, label: str = "typical") -> Mapping[str, Array]:
    """A request of so many rows at a shape."""
    return {"x": np.ones((rows or 1, WIDTHS[label]), np.float32)}


def timed(clock: FakeClock, seconds: Callable[[int], float], name: str = "default") -> Fake:
    """A candidate that takes so long for so many rows."""

    def run(x: Array) -> Array:
        clock.spend(seconds(len(x)))
        return x

    return Fake(run, name)


def chosen(clock: FakeClock, *candidates: Fake, labels: Any = ("typical",), **goal: Any) -> Choice:
    """The choice among candidates that batch."""
    wanted = Goal(**{"batched": True, "limit": 64, "seconds": 600.0} | goal)
    return choose(candidates, requests, [Y], wanted, labels=labels, clock=clock)


def test_the_largest_batch_may_lie_between_two_powers_of_two() -> None:
    """Memory ends at 52 rows: found by halving the gap, and within an eighth of what is there."""
    clock = FakeClock()

    def run(x: Array) -> Array:
        if len(x) > 52:
            raise SourceError("failed to allocate memory")
        clock.spend(0.1)
        return x

    found, why = largest_batch(Fake(run), requests, 64, seconds=1e6, clock=clock)
    assert 48 <= found <= 52
    assert "does not run (failed to allocate memory)" in why


def test_a_limit_of_time_bounds_the_batch() -> None:
    """Two milliseconds a row and 40 allowed: at most 20 rows, and nearly as many."""
    clock = FakeClock()
    found = chosen(clock, timed(clock, lambda rows: 0.004 + 0.002 * rows), p95_ms=40.0)
    assert 16 <= (found.max_batch_size or 0) <= 18
    assert "at the 95th percentile" in found.tuning.reason
    assert found.tuning.p95_ms == 40.0


def test_a_candidate_that_is_late_does_not_win() -> None:
    """Better on the whole, but every tenth run takes three times as long."""
    clock = FakeClock()
    turns = iter(range(10**6))
    uneven = timed(clock, lambda _: 0.050 if next(turns) % 10 else 0.150, "uneven")
    found = chosen(clock, timed(clock, lambda _: 0.090), uneven, p95_ms=100.0, fixed_batch=True, limit=4)
    assert found.tuning.winner == "default"
    assert "100 ms are allowed" in dict(found.tuning.rejected)["uneven"]


def test_a_limit_that_nobody_keeps_is_said() -> None:
    """The fastest wins, with a warning."""
    clock = FakeClock()
    found = chosen(clock, timed(clock, lambda _: 0.09), p95_ms=1.0, fixed_batch=True, limit=4)
    assert found.tuning.reason.endswith("no candidate ends within 1 ms at the 95th percentile; batch 4 was asked for")


def test_the_winner_looks_for_a_larger_batch_of_its_own() -> None:
    """The first gains nothing beyond 8 rows, the winner does up to 32."""
    clock = FakeClock()
    first = timed(clock, lambda rows: 0.010 * max(rows, 8))
    second = timed(clock, lambda rows: 0.0099 * max(rows, 32) / 4.1, "wide")
    found = chosen(clock, first, second)
    assert found.tuning.winner == "wide"
    assert found.max_batch_size == 32


def test_a_winner_that_is_far_ahead_is_said_to_be() -> None:
    """Only one goes on to look for a batch of its own: the others may win, and are slower."""
    clock = FakeClock()
    first = timed(clock, lambda rows: 0.010 * max(rows, 8))
    second = timed(clock, lambda rows: 0.0050 * max(rows, 16) / 2, "wide")
    found = chosen(clock, first, second)
    assert (found.tuning.winner, found.max_batch_size) == ("wide", 16)
    assert "; every other that may win was more than 15% slower where all were compared; " in found.tuning.reason


def test_the_winner_looks_for_a_smaller_batch_of_its_own() -> None:
    """The first gains up to 32 rows; the other is as fast there, and much faster for the few that fit into a cache."""
    clock = FakeClock()
    first = timed(clock, lambda rows: 0.010 * max(rows, 32))
    second = timed(clock, lambda rows: 0.009 * rows if rows <= 8 else 0.0101 * rows, "cached")
    found = chosen(clock, first, second)
    assert (found.tuning.winner, found.max_batch_size) == ("cached", 1)
    assert "1.11 times as fast as 'default' at batch 32; batch 8 brings +0.0%" in found.tuning.reason


def test_one_that_is_nearly_as_fast_wins_at_another_batch() -> None:
    """A tenth slower at the batch of the first, a fifth faster at twice as many rows."""
    clock = FakeClock()
    first = timed(clock, lambda rows: 0.010 * max(rows, 8))
    second = timed(clock, lambda rows: 0.0883 if rows <= 8 else 0.008 * max(rows, 16), "wide")
    found = chosen(clock, first, second)
    assert (found.tuning.winner, found.max_batch_size) == ("wide", 16)


def test_a_batch_of_its_own_ends_in_time() -> None:
    """Twice the rows would be faster, but too late; what is too late at once does not take part."""
    clock = FakeClock()
    first = timed(clock, lambda rows: 0.010 * max(rows, 8))
    second = timed(clock, lambda rows: 0.079 if rows <= 8 else 0.008 * max(rows, 16), "wide")
    found = chosen(clock, first, second, p95_ms=100.0)
    assert (found.tuning.winner, found.max_batch_size) == ("default", 8)


def test_users_batches_are_not_taken_away_by_a_winner() -> None:
    """They send eight rows, whatever suits the winner."""
    clock = FakeClock()
    first = timed(clock, lambda rows: 0.010 * max(rows, 32))
    second = timed(clock, lambda rows: 0.009 * rows if rows <= 8 else 0.0101 * rows, "cached")
    found = chosen(clock, first, second, least_batch=8)
    assert (found.tuning.winner, found.max_batch_size) == ("cached", 8)


def test_a_first_candidate_that_lost_to_the_machine_gets_a_second_look() -> None:
    """Eight seconds long all processors together are three times slower, and what needs one only would win."""
    clock = FakeClock()
    first = timed(clock, lambda rows: (0.03 if clock.now_s < 8 else 0.01) * rows)
    second = timed(clock, lambda rows: 0.018 * rows, "one")
    found = chosen(clock, first, second, seconds=60.0)
    assert found.tuning.winner == "default"
    assert {(one.candidate, round(one.throughput_per_s)) for one in found.tuning.measurements} == {
        ("default", 100), ("one", 56)
    }  # fmt: skip


def test_a_batch_that_only_a_slow_machine_needed_is_given_up() -> None:
    """Each run costs 50 ms more for the first seconds, so that many rows pay; later two rows are as good as any."""
    clock = FakeClock()
    first = timed(clock, lambda rows: (0.05 if clock.now_s < 10 else 0.001) + 0.01 * rows)
    found = chosen(clock, first, timed(clock, lambda rows: 0.02 * rows, "other"), seconds=60.0)
    assert found.tuning.winner == "default"
    assert (found.max_batch_size or 0) <= 8


def test_what_really_wins_by_much_is_decided_once() -> None:
    """The second look costs a tenth of the budget at most, and changes nothing."""
    clock = FakeClock()
    first = timed(clock, lambda rows: 0.03 * rows)
    second = timed(clock, lambda rows: 0.018 * rows, "one")
    found = chosen(clock, first, second, seconds=60.0)
    assert found.tuning.winner == "one"
    assert "1.67 times as fast as 'default'" in found.tuning.reason
    assert clock.now_s < 20


def test_the_smallest_and_the_largest_shape_are_measured_too() -> None:
    """For the first and the winner, at one row and at as many as the budget allows."""
    clock = FakeClock()
    found = chosen(clock, timed(clock, lambda rows: 0.01), labels=("typical", "smallest", "largest"), limit=8)
    measured = {(item.shape, item.batch_size) for item in found.tuning.measurements}
    assert {("smallest", 1), ("smallest", 8), ("largest", 1), ("largest", 8)} <= measured


def test_every_survivor_has_a_curve() -> None:
    """Powers of four and the largest batch, for the plots."""
    clock = FakeClock()
    found = chosen(clock, timed(clock, lambda _: 0.1), timed(clock, lambda _: 0.1, "other"), fixed_batch=True, limit=20)
    for name in ("default", "other"):
        assert [one.batch_size for one in found.tuning.measurements if one.candidate == name] == [1, 4, 16, 20]


def test_a_crash_loses_one_candidate_only() -> None:
    """In the middle of measuring: the reason is kept, the others go on."""
    clock = FakeClock()
    runs = iter(range(10**6))

    def crash(x: Array) -> Array:
        clock.spend(0.01)
        if next(runs) == 6:
            raise SourceError("the runtime crashed: its process was killed by SIGKILL")
        return x

    found = chosen(clock, timed(clock, lambda _: 0.1), Fake(crash, "fragile"), fixed_batch=True, limit=4)
    assert found.tuning.winner == "default"
    assert "SIGKILL" in dict(found.tuning.rejected)["fragile"]


def test_a_busy_machine_chooses_equivalents_every_time() -> None:
    """Five runs under load that doubles and triples runs at random: always within 3 % of the best."""
    true = {"default": 1.10, "a": 1.02, "b": 1.00, "c": 1.25}
    for seed in range(5):
        clock, generator = FakeClock(), random.Random(seed)

        def busy(base: float, clock: FakeClock = clock, generator: random.Random = generator) -> float:
            load = 1 + generator.expovariate(2.0) * (generator.random() < 0.6)
            return 0.05 * base * (1 + clock.now_s / 100) * load * generator.uniform(0.99, 1.01)

        candidates = [timed(clock, lambda _, base=base, busy=busy: busy(base), name) for name, base in true.items()]
        found = chosen(clock, *candidates, fixed_batch=True, limit=4, seconds=60.0)
        assert true[found.tuning.winner] <= 1.03, (seed, found.tuning.reason)


def test_candidates_beyond_the_budget_are_not_tried() -> None:
    """Asking them alone would take longer than there is, and the record says so."""
    clock = FakeClock()
    slow = [timed(clock, lambda _: 2.0, name) for name in ("default", "a", "b", "c", "d")]
    found = chosen(clock, *slow, fixed_batch=True, limit=4, seconds=12.0)
    assert "was not tried: the budget of 12 s did not reach" in dict(found.tuning.rejected).values()
    assert clock.now_s < 40


@pytest.mark.parametrize(
    ("goal", "message"), [({"objective": "speed"}, "objective 'speed'"), ({"p95_ms": 0}, "above 0")]
)
def test_a_goal_that_means_nothing_is_refused(goal: dict[str, Any], message: str) -> None:
    """Before anything is measured."""
    with pytest.raises(UsageError, match=message):
        Goal(**goal)
