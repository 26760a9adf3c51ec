"""Which of several candidates that were timed wins, and how certain that is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from aitune.tuning.measure import MIN_ROUNDS, ByName, median_interval, quiet, ratios

__all__ = ["EQUIVALENT", "comparison", "hopeless", "too_few", "winner_of"]

EQUIVALENT = 0.02
"""Candidates within this share of the best count as equally fast, and the simplest of them is taken."""
_DOUBTFUL = 0.03
"""The same as long as it is not certain: what is simpler is not passed over for what may be chance."""
_HOPELESS = 0.15
"""A candidate that is certainly this much slower than the fastest needs no further round."""


def winner_of(times_s: ByName, order: Sequence[str]) -> tuple[str, bool]:
    """The first in ``order`` that is as fast as the fastest within 2 %, and whether that is certain.

    It is certain when the interval of every earlier candidate's ratio to the fastest lies on one side of 2 %, and no
    other can still turn out more than 2 % faster than the winner. Until then what counts is how fast each is while
    nothing disturbs it, and 3 % count as equal: on a busy machine that comes out the same every time, where a median
    does not. Fewer than five rounds decide nothing: then it is the first in ``order``, uncertain.

    Args:
        times_s: Seconds per run, round by round.
        order: Names, simplest first.

    >>> winner_of({"a": [1.0] * 5, "b": [0.99] * 5, "c": [2.0] * 5}, ["a", "b", "c"])
    ('a', True)
    >>> winner_of({"a": [1.0], "b": [0.5]}, ["a", "b"])
    ('a', False)
    """
    present = [name for name in order if name in times_s]
    if too_few(times_s):
        return present[0], False
    name, certain = _by_median(times_s, present)
    return (name, True) if certain else (_by_quiet(times_s, present), False)


def too_few(times_s: ByName) -> bool:
    """Whether there are too few rounds to decide anything."""
    return len(times_s) > 1 and min(map(len, times_s.values())) < MIN_ROUNDS


def hopeless(times_s: ByName) -> Collection[str]:
    """Those that are certainly much slower than the fastest."""
    fastest = min(times_s, key=lambda name: median_interval(times_s[name]).median)
    return [name for name in times_s if ratios(times_s[name], times_s[fastest]).low > 1 + _HOPELESS]


def comparison(winner: str, times_s: ByName, order: Sequence[str], batches: Mapping[str, int]) -> str:
    """The winner beside the one that comes nearest, as part of a sentence.

    Args:
        winner: Its name.
        times_s: Seconds per row, round by round.
        order: Names, simplest first.
        batches: Rows per run, by name.
    """
    others = {name: ratios(values, times_s[winner]).median for name, values in times_s.items() if name != winner}
    nearest = min(others, key=lambda name: others[name])
    ratio = others[nearest]
    other = f"{nearest!r}" + (f" at batch {batches[nearest]}" if batches[nearest] != batches[winner] else "")
    if ratio > 1 + EQUIVALENT:
        return f"{ratio:.2f} times as fast as {other}"
    if ratio < 1 - EQUIVALENT:
        return f"where {other} was faster in some rounds, but not when nothing disturbed them"
    simpler = " and simpler" if order.index(winner) < order.index(nearest) else ""
    return f"as fast as {other} within {EQUIVALENT:.0%}{simpler}"


def _by_median(times_s: ByName, present: Sequence[str]) -> tuple[str, bool]:
    fastest = min(present, key=lambda name: median_interval(times_s[name]).median)
    certain = True
    for name in present:
        ratio = ratios(times_s[name], times_s[fastest])
        certain = certain and (ratio.high <= 1 + EQUIVALENT or ratio.low > 1 + EQUIVALENT)
        if ratio.median <= 1 + EQUIVALENT:
            return name, certain and _unbeaten(times_s, name)
    return fastest, certain


def _by_quiet(times_s: Mapping[str, Sequence[float]], present: Sequence[str]) -> str:
    best = min(quiet(times_s[name]) for name in present)
    return next(name for name in present if quiet(times_s[name]) <= best * (1 + _DOUBTFUL))


def _unbeaten(times_s: ByName, winner: str) -> bool:
    """Whether no other can still turn out more than 2 % faster than the winner."""
    return all(ratios(times_s[winner], times_s[name]).high <= 1 + EQUIVALENT for name in times_s)
