"""Which candidate serves the model at which batch: each of the fastest at the batch that suits it.

Candidates are first compared at one batch, the one that suits the first of them. What is nearly as fast there may be
the fastest at another: one thread for a few rows, all of them for many. So these look for a batch of their own, and the
pairs of candidate and batch are measured in turns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aitune.tuning.largest import useful_batch
from aitune.tuning.ledger import Ledger, Point, Requests
from aitune.tuning.measure import ByName, Times, quiet
from aitune.tuning.pool import Pool
from aitune.tuning.verdicts import hopeless, too_few, winner_of

__all__ = ["NEAR", "Pairs", "per_row", "run_off"]

NEAR = 0.15
"""Candidates within this share of the fastest look for a batch of their own."""
_FINAL_SHARE = 0.15
"""Share of the budget that is kept for measuring the pairs."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Candidates with the batch of each.

    Attributes:
        times: What measuring them in turns found.
        batches: Rows of a run, by name of the candidate.
        why: Why so many, by name.
    """

    times: Times
    batches: Mapping[str, int]
    why: Mapping[str, str]


def run_off(
    times: Times,
    order: Sequence[str],
    batch: int,
    why: str,
    pool: Pool,
    requests: Requests,
    ledger: Ledger,
    *,
    limit: int,
    least: int,
    p95_s: float | None,
    keep_share: float,
) -> Pairs:
    """Let the fastest look for a batch of their own, and measure the pairs.

    Args:
        times: What was measured at ``batch``, of those that may win.
        order: Names, simplest first; the batch is that of the first, which only looks whether a smaller one does, too:
            it was found in the beginning, and the machine may have been slower then.
        batch: Rows of a run so far.
        why: Why so many.
        pool: Where the candidates are open.
        requests: Makes a request of so many rows.
        ledger: Clock and budget.
        limit: Largest batch to try.
        least: No batch is smaller than this.
        p95_s: Seconds within which 95 % of the runs must end.
        keep_share: Share of the budget that is not spent here.

    Returns:
        The pairs; what was given, where no other batch was found or too few rounds fit into the budget.
    """
    known = Pairs(times, dict.fromkeys(times.times_s, batch), dict.fromkeys(times.times_s, why))
    kept = keep_share + _FINAL_SHARE
    batches, reasons = {}, {}
    for name in _nearest(times.times_s):
        batches[name], reasons[name] = batch, why
        if ledger.left() > ledger.seconds * kept:
            own, because = useful_batch(
                name, pool, requests, limit, least, ledger, start=batch, grow=name != order[0], p95_s=p95_s,
                keep_share=kept,
            )  # fmt: skip
            if own != batch or name != order[0]:
                batches[name], reasons[name] = own, because
    if set(batches.values()) == {batch}:
        return dataclasses.replace(known, why={**known.why, **reasons})
    pairs = {name: batches[name] for name in order if name in batches}
    ledger.progress.start(f"measuring {len(pairs)} candidates, each at a batch of its own", None)
    try:
        found = ledger.measure(
            "; ".join(f"{name} at {rows} rows" for name, rows in pairs.items()),
            lambda: {name: pool.turn(name, requests(rows)) for name, rows in pairs.items()},
            {name: Point(name, rows) for name, rows in pairs.items()},
            seconds=ledger.left() - ledger.seconds * keep_share,
            settled=lambda times_s: winner_of(per_row(times_s, pairs), order)[1],
            hopeless=lambda times_s: hopeless(per_row(times_s, pairs)),
        )
    finally:
        ledger.progress.done()
    return known if too_few(found.times_s) or not found.times_s else Pairs(found, batches, reasons)


def per_row(times_s: ByName, batches: Mapping[str, int]) -> dict[str, list[float]]:
    """Seconds per row, so that different batches can be compared."""
    return {name: [value / batches[name] for value in values] for name, values in times_s.items()}


def _nearest(times_s: ByName) -> list[str]:
    """Those that may turn out the fastest, the fastest first."""
    told = {name: quiet(values) for name, values in times_s.items()}
    best = min(told.values())
    return sorted((name for name in told if told[name] <= best * (1 + NEAR)), key=lambda name: told[name])
