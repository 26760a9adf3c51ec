"""Timing in turns, and choosing by what was timed, on a clock that moves only when told."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from tuning_fakes import Fake, FakeClock

from aitune.errors import SourceError, UsageError
from aitune.numerics import Array
from aitune.records import DType, TensorSpec
from aitune.records.evidence import Measurement
from aitune.tuning import choose
from aitune.tuning.choose import Choice, Goal, winner_of
from aitune.tuning.largest import largest_batch, smaller_in_doubt
from aitune.tuning.ledger import Ledger, Point
from aitune.tuning.measure import Turn, measure_in_turns, median_interval, ratios
from aitune.tuning.measure import timed as timed_by
from aitune.tuning.progress import SILENT
from aitune.tuning.runner import Timing

Y = TensorSpec("y", DType.FLOAT32, ("batch", 1))


def timed(clock: FakeClock, seconds: Callable[[int], float], name: str = "default", *, answer: float = 1.0) -> Fake:
    """A candidate that takes so long for so many rows."""

    def run(x: Array) -> Array:
        clock.spend(seconds(len(x)))
        return x * np.float32(answer)

    return Fake(run, name, {"name": name})


def requests(rows: int | None, label: str = "typical") -> Mapping[str, Array]:
    """A request of so many rows."""
    return {"x": np.ones((rows or 1, 1), np.float32)}


def chosen(clock: FakeClock, *candidates: Fake, **options: object) -> Choice:
    """The choice among candidates that batch."""
    more = {key: options.pop(key) for key in ("journal", "judge", "reference", "labels", "samples") if key in options}
    goal = Goal(**{"batched": True, "limit": 8, "fixed_batch": True, "seconds": 60.0} | options)
    return choose(candidates, requests, [Y], goal, clock=clock, **more)


def test_candidates_run_in_turns() -> None:
    """A B C A B C: never one after all runs of another."""
    clock = FakeClock()
    order: list[str] = []

    def runner(name: str) -> Callable[[], None]:
        def run() -> None:
            clock.spend(1.0)
            order.append(name)

        return run

    measure_in_turns({name: timed_by(runner(name), clock) for name in "abc"}, seconds=1e9, clock=clock, max_rounds=4)
    assert "".join(order) == "abc" + "abc" * 4


def test_short_runs_are_timed_many_at_a_time() -> None:
    """Ten microseconds are below what a clock and a busy machine can tell, a hundredth of a second is not."""
    clock = FakeClock()
    times = measure_in_turns({"a": timed_by(lambda: clock.spend(1e-5), clock)}, seconds=1e9, clock=clock, max_rounds=5)
    assert times.runs["a"] == 5000
    assert times.times_s["a"] == pytest.approx([1e-5] * 5)


def test_it_ends_when_settled_when_told_or_when_the_budget_ends() -> None:
    """Three reasons to stop, and a round is never cut short."""
    clock = FakeClock()
    contestants = {name: timed_by(lambda: clock.spend(1.0), clock) for name in "ab"}
    assert len(measure_in_turns(contestants, seconds=1e9, clock=clock, max_rounds=7).times_s["a"]) == 7
    settled = measure_in_turns(contestants, seconds=1e9, clock=clock, settled=lambda _: True)
    assert len(settled.times_s["b"]) == 5
    spent = measure_in_turns(contestants, seconds=10.0, clock=clock)
    assert [len(spent.times_s[name]) for name in "ab"] == [4, 4]


def test_one_that_fails_drops_out_and_the_others_go_on() -> None:
    """Warming up or later: its reason is kept, its times are not."""
    clock = FakeClock()
    runs = iter(range(100))

    def later() -> None:
        clock.spend(1.0)
        if next(runs) == 3:
            raise SourceError("out of\nmemory")

    def never() -> None:
        raise SourceError("no kernel")

    runs_of = {"good": lambda: clock.spend(1.0), "later": later, "never": never}
    contestants = {name: timed_by(run, clock) for name, run in runs_of.items()}
    times = measure_in_turns(contestants, seconds=1e9, clock=clock, max_rounds=6)
    assert times.failures == {"later": "out of memory", "never": "no kernel"}
    assert list(times.times_s) == ["good"]
    assert len(times.times_s["good"]) == 6


def disturbed_at(clock: FakeClock, calls: Callable[[int], bool]) -> Turn:
    """A second a run, and twice as long where something else has the processor."""
    asked = iter(range(10**6))

    def turn(count: int) -> Timing:
        waited_s = 1.0 * count if calls(next(asked)) else 0.0
        clock.spend(count + waited_s)
        return Timing([1.0 + waited_s / count] * count, waited_s)

    return turn


def test_a_disturbed_turn_is_taken_again() -> None:
    """Every other turn shares the processor: all times are those of the others."""
    clock = FakeClock()
    turns = {"a": disturbed_at(clock, lambda number: number % 2 == 0)}
    assert measure_in_turns(turns, seconds=1e9, clock=clock, max_rounds=7).times_s == {"a": [1.0] * 7}


def test_who_works_and_rests_is_waited_for() -> None:
    """Something has the processor for a second of every two: all times are those of the other seconds."""
    clock = FakeClock()

    def turn(count: int) -> Timing:
        busy = clock.now_s % 2 < 1
        clock.spend(0.03 if busy else 0.01)
        return Timing([0.03 if busy else 0.01], 0.02 if busy else 0.0)

    found = measure_in_turns(dict.fromkeys("abcdefgh", turn), seconds=60.0, clock=clock)
    assert found.times_s == {name: [0.01] * 60 for name in "abcdefgh"}


def test_who_never_rests_is_not_waited_for() -> None:
    """For 3 s each, and for half of the budget together, in vain: then it is measured as it is."""
    clock = FakeClock()

    def turn(count: int) -> Timing:
        clock.spend(0.03)
        return Timing([0.03], 0.02)

    assert measure_in_turns({"a": turn}, seconds=60.0, clock=clock).times_s == {"a": [0.03] * 60}
    assert clock.now_s == pytest.approx(3.0 + 60 * 0.03, abs=0.2)
    begun_s = clock.now_s
    measure_in_turns(dict.fromkeys("abcdefgh", turn), seconds=4.0, clock=clock)
    assert clock.now_s - begun_s == pytest.approx(4.0, abs=0.5)


def test_waiting_for_a_fast_machine_does_not_make_a_percentile() -> None:
    """The machine is slow for 2 s: whoever's turn it was has not been slower than the other in 95 % of the runs."""
    clock = FakeClock()

    def run() -> None:
        clock.spend(0.002 if 1.0 < clock.now_s < 3.0 else 0.001)

    found = measure_in_turns({name: timed_by(run, clock) for name in "ab"}, seconds=60.0, clock=clock)
    assert found.p95_s == pytest.approx({"a": 0.001, "b": 0.001}, rel=0.01)


def test_one_lucky_turn_sets_no_measure() -> None:
    """One run of ten takes 20 ms where the others take 26: it takes 26, and is not waited for."""
    clock = FakeClock()
    numbers = iter(range(10**6))
    found = measure_in_turns(
        {"a": timed_by(lambda: clock.spend(0.020 if next(numbers) % 10 == 5 else 0.026), clock)},
        seconds=60.0,
        clock=clock,
    )
    assert median_interval(found.times_s["a"]).median == pytest.approx(0.026)
    assert clock.now_s < 3.0


def test_disturbed_rounds_do_not_count_while_there_are_others() -> None:
    """A long disturbance is left out, for the other candidate too; one without end is all there is."""
    clock = FakeClock()
    turns = {name: disturbed_at(clock, lambda number: 10 <= number < 18) for name in "ab"}
    found = measure_in_turns(turns, seconds=1e9, clock=clock, max_rounds=12)
    assert found.times_s == {"a": [1.0] * 9, "b": [1.0] * 9}
    endless = {"a": disturbed_at(clock, lambda number: number > 3)}
    assert len(measure_in_turns(endless, seconds=1e9, clock=clock, max_rounds=10).times_s["a"]) == 15


def test_a_machine_that_gets_slower_for_a_while_is_waited_for() -> None:
    """Only the times tell of it, beside those that were seen before; a machine that stays slow is taken as it is."""
    clock = FakeClock()

    def slow(until_s: float) -> Turn:
        return timed_by(lambda: clock.spend(0.03 if clock.now_s < until_s else 0.01), clock)

    found = measure_in_turns({"a": slow(2.0)}, seconds=1e9, clock=clock, settled=lambda _: True, fastest={"a": 0.01})
    assert found.times_s["a"] == pytest.approx([0.01] * 5)
    begun_s = clock.now_s
    found = measure_in_turns({"a": slow(1e9)}, seconds=1e9, clock=clock, settled=lambda _: True, fastest={"a": 0.01})
    assert found.times_s["a"] == pytest.approx([0.03] * len(found.times_s["a"]))
    assert clock.now_s - begun_s == pytest.approx(3.5, abs=0.2)


def test_nothing_is_decided_in_a_disturbance() -> None:
    """It is waited for the end of it, three times as many rounds at most."""
    clock = FakeClock()
    turns = {"a": disturbed_at(clock, lambda number: number < 14)}
    seen: list[int] = []
    measure_in_turns(turns, seconds=1e9, clock=clock, settled=lambda times: bool(seen.append(len(times["a"]))) or True)
    assert seen == [5]
    endless = {"a": disturbed_at(clock, lambda number: number > 2)}
    measure_in_turns(
        endless, seconds=1e9, clock=clock, settled=lambda times: bool(seen.append(len(times["a"]))) or True
    )
    assert seen == [5, 15]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 10, 20, 50, 60])
def test_the_interval_of_a_median_covers_it_19_times_in_20(count: int) -> None:
    """By simulation, for a skewed distribution; too few values give the whole range."""
    generator = random.Random(count)
    covered = 0
    for _ in range(2000):
        found = median_interval([generator.expovariate(1.0) for _ in range(count)])
        assert found.low <= found.median <= found.high
        covered += found.low <= 0.6931 <= found.high
    assert covered >= 2000 * (0.94 if count >= 6 else 1 - 2.0 ** (1 - count) - 0.03)


def test_ratios_do_not_see_a_machine_that_slows_down() -> None:
    """Drift by a factor of three, and the ratio is as sharp as ever."""
    drift = [1 + index / 10 for index in range(20)]
    found = ratios([2 * factor for factor in drift], drift)
    assert (found.low, found.median, found.high) == (2, 2, 2)


def test_the_winner_survives_drift_and_noise() -> None:
    """Twenty machines that drift and stutter: the candidate that is 8 % faster wins on every one."""
    for seed in range(20):
        generator = random.Random(seed)
        clock = FakeClock()

        def noisy(base: float, generator: random.Random = generator, clock: FakeClock = clock) -> float:
            drift = 1 + clock.now_s / 30
            stutter = 3.0 if generator.random() < 0.05 else 1.0
            return base * drift * stutter * generator.uniform(0.97, 1.03)

        found = chosen(
            clock,
            timed(clock, lambda _, noisy=noisy: noisy(0.108)),
            timed(clock, lambda _, noisy=noisy: noisy(0.100), "fast"),
            timed(clock, lambda _, noisy=noisy: noisy(0.150), "slow"),
        )
        assert found.tuning.winner == "fast", (seed, found.tuning.reason)
        assert found.tuning.settings == (("name", "fast"),)


def test_of_equally_fast_candidates_the_simplest_wins() -> None:
    """Two percent are not worth a setting."""
    clock = FakeClock()
    found = chosen(clock, timed(clock, lambda _: 0.102), timed(clock, lambda _: 0.100, "tricky"))
    assert found.tuning.winner == "default"
    assert "as fast as 'tricky' within 2% and simpler" in found.tuning.reason


def test_a_candidate_that_answers_differently_never_wins() -> None:
    """However fast it is: it is listed with the number, and closed."""
    clock = FakeClock()
    wrong = timed(clock, lambda _: 0.001, "wrong", answer=1.1)
    found = chosen(clock, timed(clock, lambda _: 0.1), wrong)
    assert found.tuning.winner == "default"
    name, reason = found.tuning.rejected[0]
    assert name == "wrong"
    assert reason.startswith("answers differently: output 'y': 8 of 8 values differ")
    assert (wrong.opened, wrong.closed) == (1, 1)
    assert found.tuning.reason.endswith("the only candidate that may win; batch 8 was asked for")


def test_a_candidate_that_does_not_load_run_or_answer_is_listed() -> None:
    """Each with its reason; nothing of it stays open."""
    clock = FakeClock()

    class Unloadable(Fake):
        def open(self) -> Fake:
            raise SourceError("unknown provider")

    def refuse(x: Array) -> Array:
        raise SourceError("no kernel")

    broken = Fake(refuse, "broken")
    silent = Fake(lambda x: {"z": x}, "silent")
    found = chosen(clock, timed(clock, lambda _: 0.1), Unloadable(refuse, "gone"), broken, silent)
    assert dict(found.tuning.rejected) == {
        "gone": "does not load: unknown provider",
        "broken": "does not run: no kernel",
        "silent": "lacks output 'y'",
    }
    assert broken.closed == silent.closed == 1


def test_all_that_was_opened_is_closed() -> None:
    """Once each, the winner too: the caller opens it again."""
    clock = FakeClock()
    first, second = timed(clock, lambda _: 0.1), timed(clock, lambda _: 0.05, "second")
    assert chosen(clock, first, second).winner == 1
    assert (first.opened, first.closed, second.opened, second.closed) == (1, 1, 1, 1)


def test_latency_is_measured_at_one_row() -> None:
    """A candidate that is better at batches and worse alone does not win on latency."""
    clock = FakeClock()
    alone = timed(clock, lambda rows: 0.010 * rows)
    batches = timed(clock, lambda rows: 0.020 + 0.001 * rows, "batches")
    assert chosen(clock, alone, batches, objective="latency").tuning.winner == "default"
    assert chosen(clock, alone, batches, objective="throughput").tuning.winner == "batches"


def test_a_model_that_does_not_batch_is_measured_as_it_is() -> None:
    """No batch is looked for, and the reason speaks of requests."""
    clock = FakeClock()
    found = chosen(clock, timed(clock, lambda _: 0.1), batched=False)
    assert found.max_batch_size is None
    assert (
        found.tuning.reason == "'default' answers one request in 100.00 ms (10.0 rows per second), the only candidate"
    )


def test_every_measurement_has_its_numbers() -> None:
    """Throughput, median and interval come from the same times."""
    clock = FakeClock()
    found = chosen(clock, timed(clock, lambda _: 0.1)).tuning.measurements[-1]
    assert (found.candidate, found.batch_size, found.shape, found.runs) == ("default", 8, "typical", 5)
    assert found.throughput_per_s == pytest.approx(80)
    assert found.low_us == pytest.approx(100_000) == found.p50_us == found.high_us
    assert found.p95_us == pytest.approx(100_000)


@pytest.mark.parametrize(
    ("seconds", "largest", "why"),
    [
        (lambda rows: 0.1, 64, "batch 64 is the largest that was allowed"),
        (lambda rows: 0.01 * rows, 1, r"batch 2 brings \+0.0% rows per second over batch 1, less than 1.5%"),
        (lambda rows: 0.01 * max(rows, 8), 8, "batch 16 brings"),
        (lambda rows: 0.01 * rows * (1.2 if rows == 4 else 1) / min(rows, 16), 16, "batch 32 brings"),
    ],
)
def test_the_largest_useful_batch_is_where_throughput_stops_rising(
    seconds: Callable[[int], float], largest: int, why: str
) -> None:
    """Found by doubling, each point really run; one odd size does not end the search."""
    clock = FakeClock()
    found, reason = largest_batch(timed(clock, seconds), requests, 64, seconds=1e6, clock=clock)
    assert found == largest
    assert re.search(why, reason)


def test_a_batch_that_does_not_run_ends_the_search() -> None:
    """Out of memory at 16, 12, 10 and 9: the largest batch is 8, and the reason says why."""
    clock = FakeClock()

    def run(x: Array) -> Array:
        if len(x) > 8:
            raise SourceError("failed to allocate memory")
        clock.spend(0.1)
        return x

    found, reason = largest_batch(Fake(run), requests, 64, seconds=1e6, clock=clock)
    assert (found, reason) == (8, "batch 9 does not run (failed to allocate memory)")


def test_the_search_for_a_batch_stays_within_its_budget() -> None:
    """A slow model: batches that would not fit into what is left are not tried."""
    clock = FakeClock()
    found, reason = largest_batch(timed(clock, lambda rows: 4.0), requests, 64, seconds=60, clock=clock)
    assert found < 64
    assert "did not fit into the budget of 60 s" in reason
    assert clock.now_s < 60


def test_a_batch_that_users_send_stays_allowed() -> None:
    """Measuring does not take away what the samples show."""
    clock = FakeClock()
    found = chosen(clock, timed(clock, lambda rows: 0.01 * rows), fixed_batch=False, least_batch=4)
    assert found.max_batch_size == 4
    assert "batch 4 is what users send" in found.tuning.reason


@pytest.mark.parametrize(
    ("speeds", "spread", "least", "found"),
    [
        ({8: 200.0, 16: 240.0, 32: 239.0, 64: 243.0}, 0.05, 1, 16),
        ({8: 200.0, 16: 240.0, 32: 239.0, 64: 243.0}, 0.0, 1, 64),
        ({8: 200.0, 16: 240.0, 32: 239.0, 64: 243.0}, 0.05, 20, 32),
        ({8: 200.0, 16: 220.0, 32: 225.0, 64: 243.0}, 0.05, 1, 64),
        ({8: 238.0, 16: 245.0, 32: 239.0, 64: 237.0}, 0.05, 1, 16),
        ({16: 240.0}, 0.05, 1, 64),
    ],
    ids=["in doubt", "certain", "what users send", "faster by much", "none slower than the best", "never measured"],
)
def test_the_smaller_batch_is_taken_in_doubt(
    speeds: Mapping[int, float], spread: float, least: int, found: int
) -> None:
    """Batch 64 was found where processors were slow: it must be certainly faster, or by 2 % when nothing disturbs."""
    ledger = Ledger(clock=FakeClock(), deadline=1.0, seconds=1.0, progress=SILENT)
    for rows, speed in speeds.items():
        point, seconds = Point("default", rows), rows / speed
        low, high = seconds, seconds * (1 + spread)
        ledger.fastest[point] = seconds
        ledger.measured[point] = Measurement(
            candidate="default", batch_size=rows, throughput_per_s=speed, p50_us=seconds * 1e6,
            low_us=low * 1e6, high_us=high * 1e6, runs=9,
        )  # fmt: skip
    size, why = smaller_in_doubt("default", 64, least, ledger)
    assert size == found
    assert bool(re.fullmatch("batch 64 brings .* while nothing disturbs them", why)) == (found < 64)


def test_a_batch_found_on_a_slow_machine_is_looked_at_again() -> None:
    """While processors are slow larger batches pay; a smaller one was seen to be faster before."""
    clock = FakeClock()
    slow = False

    def seconds(rows: int) -> float:
        nonlocal slow
        slow = slow or rows > 16
        return 0.01 * max(rows, 16) * (1 + 4 / rows if slow else 1)

    found = chosen(clock, timed(clock, seconds), fixed_batch=False, limit=64)
    assert found.max_batch_size == 16
    assert found.tuning.reason.endswith(
        "batch 64 brings -5.9% rows per second over batch 16 while nothing disturbs them"
    )


def test_a_decision_that_is_not_certain_says_so() -> None:
    """The budget ended while the order could still turn."""
    clock = FakeClock()
    generator = random.Random(1)
    candidates = [
        timed(clock, lambda _, base=base: base * generator.uniform(0.8, 1.25), name)
        for name, base in (("default", 1.03), ("other", 1.0))
    ]
    assert "the budget ended before that was certain" in chosen(clock, *candidates, seconds=20.0).tuning.reason


def test_too_few_rounds_prefer_nothing() -> None:
    """One round of each: a candidate must earn its place, so the simplest stays."""
    clock = FakeClock()
    found = chosen(clock, timed(clock, lambda _: 2.0), timed(clock, lambda _: 1.0, "fast"), seconds=8.0)
    assert found.tuning.winner == "default"
    assert "too few rounds fit into the budget of 8 s to prefer another" in found.tuning.reason


def test_the_winner_is_certain_only_when_no_other_can_be_faster() -> None:
    """Overlapping intervals around 3 % keep the question open."""
    assert winner_of({"a": [1.0] * 6, "b": [0.9] * 6}, ["a", "b"]) == ("b", True)
    assert winner_of({"a": [1.0] * 6, "b": [0.9, 1.0, 0.98, 1.02, 0.95, 1.1]}, ["a", "b"]) == ("b", False)


def test_what_may_be_chance_needs_a_larger_lead() -> None:
    """Two and a half percent win when they are certain; while they are not, the simpler one stays."""
    order = ["a", "b"]
    assert winner_of({"a": [1.025] * 6, "b": [1.0] * 6}, order) == ("b", True)
    assert winner_of({"a": [1.025] * 6, "b": [1.0, 1.0, 1.0, 1.0, 1.04, 1.06]}, order) == ("a", False)


@pytest.mark.parametrize(
    ("names", "objective", "message"),
    [(("a", "a"), "latency", r"candidates \['a', 'a'\]"), (("a",), "speed", "objective 'speed' cannot be tuned")],
)
def test_nonsense_is_refused(names: tuple[str, ...], objective: str, message: str) -> None:
    """Two candidates of one name, or an objective that nobody can measure."""
    clock = FakeClock()
    with pytest.raises(UsageError, match=message):
        chosen(clock, *(timed(clock, lambda _: 0.1, name) for name in names), objective=objective)


def test_a_baseline_that_fails_while_measured_is_an_error() -> None:
    """Nothing runs, so nothing can be chosen."""
    clock = FakeClock()
    runs = iter(range(9))

    def run(x: Array) -> Array:
        if next(runs) > 1:
            raise SourceError("gone")
        return x

    with pytest.raises(SourceError, match="no candidate runs: gone"):
        chosen(clock, Fake(run))
    with pytest.raises(SourceError, match="does not run at batch 1: gone"):
        largest_batch(Fake(run), requests, 4, clock=clock)


def test_all_candidates_are_measured_within_the_budget() -> None:
    """Four candidates that take 2 s for 64 rows do not fit into 20 s, so they are compared at a smaller batch."""
    clock = FakeClock()
    candidates = [timed(clock, lambda rows, f=f: f * rows / 32, f"c{f}") for f in (1.0, 1.1, 1.2, 0.8)]
    found = chosen(clock, *candidates, limit=64, seconds=20.0)
    assert found.max_batch_size == 64
    assert found.tuning.winner == "c0.8"
    assert max(item.batch_size for item in found.tuning.measurements) == 8
    assert clock.now_s < 30
    assert all(item.runs >= 5 for item in found.tuning.measurements)


def test_an_interrupt_closes_what_was_opened() -> None:
    """Ctrl-C while a candidate is tried leaves no session open."""
    clock = FakeClock()

    def interrupt(x: Array) -> Array:
        raise KeyboardInterrupt

    second = Fake(interrupt, "second")
    with pytest.raises(KeyboardInterrupt):
        chosen(clock, timed(clock, lambda _: 0.1), second)
    assert second.closed == 1
