"""What informs and does not decide: the candidates at other batches, the winner at the smallest and largest shapes."""

from __future__ import annotations

from collections.abc import Sequence

from aitune.tuning.ledger import Ledger, Point, Requests
from aitune.tuning.pool import Pool

__all__ = ["survey"]

_RUNS = 8
"""Runs of each that one step takes: warming up and five rounds."""


def survey(
    pool: Pool,
    requests: Requests,
    ledger: Ledger,
    admitted: Sequence[str],
    winner: str,
    batch: int,
    labels: Sequence[str],
    *,
    batched: bool,
) -> None:
    """Measure what fits into the rest of the budget.

    Args:
        pool: Where the candidates are open.
        requests: Makes valid requests.
        ledger: Budget, and where measurements are kept.
        admitted: Candidates that may win, simplest first.
        winner: The one that won.
        batch: Largest useful batch.
        labels: Shapes that differ from each other.
        batched: Whether the model batches.
    """
    ledger.progress.start("measuring other sizes", None)
    try:
        pair = list(dict.fromkeys((admitted[0], winner)))
        for label in labels:
            if label != "typical":
                _other_shape(pool, requests, ledger, pair, label, batch if batched else None)
        for rows in _curve(batch):
            _other_batch(pool, requests, ledger, admitted, rows)
    finally:
        ledger.progress.done()


def _curve(batch: int) -> list[int]:
    """Powers of four below the batch, and the batch: enough for a line.

    >>> _curve(48), _curve(1)
    ([1, 4, 16, 48], [])
    """
    below = [1 << power for power in range(0, 20, 2) if 1 << power < batch]
    return [*below, batch] if below else []


def _other_batch(pool: Pool, requests: Requests, ledger: Ledger, names: Sequence[str], rows: int) -> None:
    missing = [name for name in names if Point(name, rows) not in ledger.measured]
    known = [item for point, item in ledger.measured.items() if point.shape == "typical"]
    if not missing or not known:
        return
    nearest = min(known, key=lambda item: abs(item.batch_size - rows))
    run_s = nearest.p50_us * 1e-6 * max(1.0, rows / nearest.batch_size)
    _measure(pool, requests, ledger, missing, rows, "typical", run_s)


def _other_shape(
    pool: Pool, requests: Requests, ledger: Ledger, names: Sequence[str], label: str, batch: int | None
) -> None:
    """At one row, and at as many as fit into the budget."""
    one = None if batch is None else 1
    request = requests(one, label)
    first = names[0]
    cost: float = ledger.step(f"one run at the {label} shape", lambda: pool.turn(first, request)(1).total_s)
    for rows in sorted({1, batch or 1}):
        while rows > 1 and cost * rows * len(names) * _RUNS > ledger.left() / 2:
            rows //= 2
        if Point(first, rows, label) not in ledger.measured:
            _measure(pool, requests, ledger, names, None if batch is None else rows, label, cost * rows)


def _measure(
    pool: Pool, requests: Requests, ledger: Ledger, names: Sequence[str], rows: int | None, label: str, run_s: float
) -> None:
    if run_s * len(names) * _RUNS > ledger.left():
        return
    request = requests(rows, label)
    ledger.measure(
        f"{', '.join(names)} at {rows} rows of the {label} shape",
        lambda: {name: pool.turn(name, request) for name in names},
        {name: Point(name, rows or 1, label) for name in names},
        seconds=min(ledger.left(), run_s * len(names) * _RUNS * 2),
        settled=lambda times: True,
    )
