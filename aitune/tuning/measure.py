"""Timing several ways of running in turns, so that a machine that gets slower slows all of them alike.

>>> ticks = iter(range(10_000))
>>> slow_clock = lambda: float(next(ticks))
>>> contestants = {"a": timed(lambda: None, slow_clock), "b": timed(lambda: None, slow_clock)}
>>> times = measure_in_turns(contestants, seconds=100, clock=slow_clock).times_s
>>> set(times) == {"a", "b"} and median_interval(times["a"]).median
1.0
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from aitune.errors import AituneError
from aitune.tuning.progress import SILENT, Progress
from aitune.tuning.runner import Timing

__all__ = [
    "MAX_ROUNDS",
    "MIN_ROUNDS",
    "Clock",
    "Interval",
    "Times",
    "Turn",
    "measure_in_turns",
    "median_interval",
    "percentile",
    "quiet",
    "ratios",
    "timed",
]

Clock = Callable[[], float]
"""Seconds since some moment, never going back."""
Turn = Callable[[int], Timing]
"""So many runs, one after the other."""
ByName = Mapping[str, Sequence[float]]

_WARM_UP_RUNS = 3
_WARM_UP_S = 0.5
"""A run that takes so long is warm after one."""
MIN_ROUNDS = 5
"""Fewer rounds decide nothing."""
MAX_ROUNDS = 60
"""What so many rounds do not tell, more would not."""
_MIN_S = 0.3
"""So long is measured at least: what is short is the same for all of five rounds, by chance."""
_TURN_S = 0.01
"""A turn lasts about this long: runs of microseconds are timed many at a time, longer ones one by one."""
_MAX_RUNS_PER_TURN = 1000
_VAIN_TRIES, _VAIN_S = 4, 3.0
"""A turn that something else disturbs is taken again, until it was in vain so many times and for so many seconds."""
_PATIENCE, _PATIENCE_S = 3, 3.0
"""So many times as many rounds, and so many seconds, are waited for rounds that nothing disturbs."""
_PATIENT_SHARE = 0.5
"""Share of the time that disturbed turns may take before they are taken as they are."""
_SPARED = 2
"""So many times the fewest rounds are affordable beside them, as far as warming up tells."""
_CALM = 1.15
"""A turn that takes longer than this many times what fast ones take was disturbed, by whatever nobody tells: another
guest of the same host, a processor that got slower."""
_MOST_SINGLES = 20_000
"""So many single times are kept of each for its percentiles."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A median and how far it can be trusted.

    Attributes:
        low: Lower end of the 95 % interval of the median.
        median: The median.
        high: Upper end.
    """

    low: float
    median: float
    high: float


@dataclass(slots=True)
class _Patience:
    """How long is waited for turns that nothing disturbs: whoever else uses the machine rests in between, or does not.

    Attributes:
        left_s: Seconds that disturbed turns may still take.
        vain_s: Seconds of those of one contestant since its last calm turn, by name.
        vain_tries: How many those were.
    """

    left_s: float
    vain_s: dict[str, float] = field(default_factory=dict)
    vain_tries: dict[str, int] = field(default_factory=dict)

    def again(self, name: str, seconds: float, *, calm: bool) -> bool:
        """Whether a turn that took so long, all in all, is taken again."""
        if calm:
            self.vain_s[name], self.vain_tries[name] = 0.0, 0
            return False
        self.left_s -= seconds
        self.vain_s[name] = self.vain_s.get(name, 0.0) + seconds
        self.vain_tries[name] = self.vain_tries.get(name, 0) + 1
        return self.left_s > 0 and (self.vain_s[name] < _VAIN_S or self.vain_tries[name] < _VAIN_TRIES)


@dataclass(slots=True)
class _Most:
    """What a calm turn takes at most, beside what is known and what first tries took.

    First tries only, and not the fastest of them: else a model that is fast in some of its runs would be measured until
    it was, and the more the longer that goes on.

    Attributes:
        known: Seconds of a run that were seen before, by name.
        first: Seconds of a run in the first try of each turn, by name.
    """

    known: Mapping[str, float]
    first: dict[str, list[float]] = field(default_factory=dict)

    def of(self, name: str) -> float:
        """Seconds of a run; infinite as long as too little is known."""
        values = self.first.get(name, [])
        usual = quiet(values) if len(values) >= MIN_ROUNDS else math.inf
        return _CALM * min(usual, self.known.get(name, math.inf))


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What was timed.

    Attributes:
        times_s: Seconds of one run, one value per round, by name; those that failed are not here.
        runs: Timed runs, by name.
        p95_s: Time within which 95 % of the single runs ended, by name.
        failures: Why a runner dropped out, by name.
    """

    times_s: dict[str, list[float]]
    runs: dict[str, int]
    p95_s: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def timed(run: Callable[[], object], clock: Clock = time.perf_counter) -> Turn:
    """Turns of something that is called here and timed by a clock."""

    def turn(count: int) -> Timing:
        stamps = [clock()]
        for _ in range(count):
            run()
            stamps.append(clock())
        return Timing([after - before for before, after in itertools.pairwise(stamps)])

    return turn


def measure_in_turns(
    contestants: Mapping[str, Turn],
    *,
    seconds: float,
    clock: Clock = time.perf_counter,
    settled: Callable[[ByName], bool] = lambda times: False,
    hopeless: Callable[[ByName], Collection[str]] = lambda times: (),
    min_rounds: int = MIN_ROUNDS,
    max_rounds: int = MAX_ROUNDS,
    fastest: Mapping[str, float] | None = None,
    progress: Progress = SILENT,
) -> Times:
    """Run each in turn, round after round (A B C A B C), and keep the times.

    Each is warmed up first. A round is never cut short. It ends when ``settled`` says that the answer is certain (asked
    from ``min_rounds`` on), after ``max_rounds``, or after the first round that ends later than ``seconds`` from now.

    A turn during which its threads waited for a processor, or that took 15 % longer than fast ones, is taken again:
    until that was in vain for 3 s, or such turns took half of ``seconds``, or as long as all rounds, or as much as
    leaves no time for twice ``min_rounds``. Rounds in which one stayed disturbed do not count as long as there are
    ``min_rounds`` others; while there are not, they are waited for: three times as many rounds and 3 s, but no longer
    than half of ``seconds``.

    Args:
        contestants: What to run, by name; one that raises drops out with its reason.
        seconds: Budget, in seconds.
        clock: Tells the time.
        settled: Told the times so far.
        hopeless: Told the same, names those that need no further round; their times are kept.
        min_rounds: Rounds before either is asked.
        max_rounds: Rounds at most, unless calm ones are waited for.
        fastest: Seconds of a run that were seen before, by name.
        progress: Advanced once per round.
    """
    start = clock()
    times = Times(times_s={name: [] for name in contestants}, runs=dict.fromkeys(contestants, 0))
    singles: dict[str, list[float]] = {name: [] for name in contestants}
    most = _Most(fastest or {})
    warm = {
        name: seconds_per_run for name in contestants if (seconds_per_run := _warm_up(name, contestants[name], times))
    }
    turns = {name: _runs_per_turn(value) for name, value in warm.items()}
    quiet_ones: list[bool] = []
    round_s = sum(warm[name] * turns[name] for name in turns)
    spare_s = seconds - (clock() - start) - _SPARED * min_rounds * round_s
    patience = _Patience(min(seconds * _PATIENT_SHARE, max(max_rounds * round_s, _VAIN_S), spare_s))
    for done in itertools.count(1):
        quiet_ones.append(True)
        for name in [name for name in turns if name not in times.failures]:
            timing = _take_turn(name, contestants[name], turns[name], times, patience, singles[name], most)
            quiet_ones[-1] = quiet_ones[-1] and not timing.disturbed
        progress.advance()
        spent_s = clock() - start
        if not times.times_s or spent_s >= seconds:
            break
        calm = _calm(times.times_s, quiet_ones, most)
        least = min(min_rounds, max_rounds)
        patient = (done < _PATIENCE * least or spent_s < _PATIENCE_S) and spent_s < seconds * _PATIENT_SHARE
        too_short = done < least or (spent_s < _MIN_S and done < max_rounds)
        if too_short or (patient and sum(calm) < least):
            continue
        seen = _calm_ones(times.times_s, calm, min_rounds)
        if settled(seen) or done >= max_rounds:
            break
        for name in hopeless(seen):
            turns.pop(name, None)
    times.p95_s.update({name: percentile(singles[name][:_MOST_SINGLES], 0.95) for name in times.times_s})
    calm = _calm(times.times_s, quiet_ones, most)
    return dataclasses.replace(times, times_s=_calm_ones(times.times_s, calm, min_rounds))


def _calm(times_s: ByName, quiet_ones: Sequence[bool], most: _Most) -> list[bool]:
    """Which rounds nothing disturbed, as far as waiting and times tell."""
    limits = {name: most.of(name) for name in times_s}
    return [
        undisturbed and all(values[number] <= limits[name] for name, values in times_s.items() if number < len(values))
        for number, undisturbed in enumerate(quiet_ones)
    ]


def _calm_ones(times_s: ByName, calm: Sequence[bool], least: int) -> dict[str, list[float]]:
    """The times of calm rounds; of all rounds where that would be too few."""
    found = {name: list(itertools.compress(values, calm)) for name, values in times_s.items()}
    enough = all(len(values) >= least for values in found.values())
    return found if enough else {name: list(values) for name, values in times_s.items()}


def median_interval(values: Sequence[float]) -> Interval:
    """The median with its 95 % interval, from order statistics: no assumption about how the values are spread.

    The interval runs from the k-th smallest value to the k-th largest, k being the largest for which it holds the
    median with that probability; with fewer than six values, which cannot give it, from the smallest to the largest.

    Args:
        values: At least one.
    """
    ordered = sorted(values)
    count = len(ordered)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    outside = _outside(count)
    return Interval(ordered[outside], middle, ordered[count - 1 - outside])


def ratios(times: Sequence[float], reference: Sequence[float]) -> Interval:
    """How much longer one takes than the other, round by round: drift of the machine drops out.

    Where one left early, the rounds that both took part in count.
    """
    return median_interval([mine / other for mine, other in zip(times, reference, strict=False)])


def quiet(values: Sequence[float]) -> float:
    """The lower quartile: what a run takes while nothing else disturbs it.

    Whatever else runs on a machine makes a run longer, never shorter, so this is told again within a few percent where
    a median is not.
    """
    return percentile(values, 0.25)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([1.0, 2.0], 0.95)
    (2.0, 2.0)
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _outside(count: int) -> int:
    """How many values may lie beyond each end of the interval: a binomial tail of at most 2.5 %."""
    tail, outside = 0.0, 0
    for below in range(count // 2):
        tail += math.comb(count, below) / 2.0**count
        if tail > 0.025:
            break
        outside = below
    return outside


def _warm_up(name: str, turn: Turn, times: Times) -> float:
    """Run until warm; seconds of the last run, 0 when one failed."""
    try:
        last = spent = 0.0
        for _ in range(_WARM_UP_RUNS):
            if spent >= _WARM_UP_S:
                break
            last = turn(1).total_s
            spent += last
    except AituneError as error:
        _drop(name, error, times)
        return 0.0
    return max(last, _TURN_S / _MAX_RUNS_PER_TURN)


def _runs_per_turn(seconds_per_run: float) -> int:
    return max(1, min(_MAX_RUNS_PER_TURN, round(_TURN_S / seconds_per_run)))


def _take_turn(
    name: str, turn: Turn, count: int, times: Times, patience: _Patience, singles: list[float], most: _Most
) -> Timing:
    """Time one turn: the first of several tries that is calm, else the one that comes nearest.

    Where it has several runs, one more goes before it, because another one ran in between. For the percentile counts
    the first try that no other program disturbed, also where it took long for a reason that nobody knows.
    """
    tries: list[Timing] = []
    again = True
    try:
        while again:
            if count > 1:
                turn(1)
            tries.append(timing := turn(count))
            if len(tries) == 1:
                most.first.setdefault(name, []).append(max(timing.total_s, 1e-9) / count)
            calm = not timing.disturbed and timing.total_s <= most.of(name) * count
            again = patience.again(
                name, timing.total_s * (count + 1) / count if count > 1 else timing.total_s, calm=calm
            )
    except AituneError as error:
        _drop(name, error, times)
        return Timing(())
    best = min(tries, key=lambda one: (one.disturbed, one.waiting if one.disturbed else one.total_s))
    singles += next((one for one in tries if not one.disturbed), best).seconds
    times.times_s[name].append(max(best.total_s, 1e-9) / count)
    times.runs[name] += count
    return best


def _drop(name: str, error: AituneError, times: Times) -> None:
    times.failures[name] = " ".join(str(error).split())
    times.times_s.pop(name, None)
    times.runs.pop(name, None)
