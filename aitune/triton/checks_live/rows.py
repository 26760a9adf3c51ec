"""Does every row and every client get its own answer? The worst faults of batching are silent, so they are provoked."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from aitune.numerics import Array, compare
from aitune.triton.checks_live.context import BudgetSpent, Context, disagreement, failed, passed, skipped, warned
from aitune.triton.client import Tensor
from aitune.triton.client_errors import InferenceRefused
from aitune.triton.client_records import ModelStatistics
from aitune.triton.subjects import make_request
from aitune.triton.validation_records import CheckResult

__all__ = ["check_concurrency", "check_rows"]

_SEED = 4177
_ROWS = 3
_FOREIGN_ROWS = 2
_ROUNDS = ((16, 2), (32, 4), (64, 8))
"""(clients, requests of each): the next round only where the one before formed no batch."""
_SLOW_ROUNDS = ((8, 2), *_ROUNDS)
_SLOW_S = 0.05
"""A model that takes so long for a row queues up fewer clients just as well."""
_FOREIGN_ROUND = (6, 1)

Arrays = Mapping[str, Array]


def check_rows(context: Context) -> CheckResult:
    """A batch gets the answers that its rows get alone."""
    subject = context.subject
    if subject.max_batch_size == 0:
        return skipped("rows", "the model does not batch (max_batch_size 0)")
    rows = min(_ROWS if context.own else _FOREIGN_ROWS, subject.max_batch_size)
    batch = make_request(subject, "typical", seed=_SEED, rows=rows)
    try:
        whole = context.ask(batch)
        alone = [context.ask({name: array[row : row + 1] for name, array in batch.items()}) for row in range(rows)]
    except InferenceRefused as error:
        return _refused(context, "rows", str(error))
    expected = _joined(alone)
    problem, difference = disagreement(context, whole, expected, again=False)
    if problem:
        return failed("rows", f"a batch of {rows} is not answered as its rows are alone: {problem}")
    wrong = [f"output {name!r} has {len(array)} rows for 1" for name, (array, _) in alone[0].items() if len(array) != 1]
    if wrong:
        return failed("rows", wrong[0], *wrong)
    return passed("rows", f"a batch of {rows} equals {rows} requests of one row, largest difference {difference:.2g}")


def check_concurrency(context: Context) -> CheckResult:
    """Clients that ask at the same time each get their own answer, and the server really merged their requests."""
    try:
        requests = _requests(context)
        began = time.monotonic()
        expected = [context.ask(request) for request in requests]
        slow = time.monotonic() - began > _SLOW_S * len(requests) and not context.thorough
    except InferenceRefused as error:
        return _refused(context, "concurrency", str(error))
    except BudgetSpent as error:
        return skipped("concurrency", str(error))
    merging = _reason_against_merging(context)
    rounds = _SLOW_ROUNDS if slow else _ROUNDS
    for clients, repeats in rounds if context.own else (_FOREIGN_ROUND,):
        before = _statistics(context)
        try:
            problem = _storm(context, requests, expected, clients, repeats)
        except BudgetSpent as error:
            return skipped("concurrency", str(error))
        if problem:
            return failed("concurrency", problem)
        grown = _statistics(context).since(before)
        if merging or grown.executions < grown.succeeded:
            break
    return _verdict(context, clients, grown, merging, _tellable(context, expected))


def _requests(context: Context) -> list[dict[str, Array]]:
    """Requests with different rows and, where a batch has room for it, different numbers of rows."""
    limit = context.subject.max_batch_size
    sizes = [1, 1, 2, 1] if limit >= 4 else [1, 1, 1, 1]
    if not context.own:
        sizes = sizes[:3]
    return [
        make_request(context.subject, "typical", seed=_SEED + index, rows=size if limit else None)
        for index, size in enumerate(sizes, start=1)
    ]


def _storm(
    context: Context,
    requests: Sequence[Arrays],
    expected: Sequence[Mapping[str, Tensor]],
    clients: int,
    repeats: int,
) -> str:
    """Ask from many threads at once; the first wrong answer as one line, ``""`` for none."""
    barrier = threading.Barrier(clients)

    def one(index: int) -> str:
        barrier.wait(timeout=30)
        for turn in range(repeats):
            which = (index + turn) % len(requests)
            try:
                answer = context.ask(requests[which])
            except InferenceRefused as error:
                return f"one of {clients} requests at a time was refused: {error}"
            own = {name: array for name, (array, _) in expected[which].items()}
            problem, _ = disagreement(context, answer, own, again=False)
            if problem:
                return f"with {clients} clients at a time, a client got an answer that is not its own: {problem}"
        return ""

    if context.remaining is not None and context.remaining < clients * repeats:
        raise BudgetSpent(f"only {context.remaining} requests may still be sent to a server that is not ours")
    with ThreadPoolExecutor(clients) as pool:
        return next((line for line in pool.map(one, range(clients)) if line), "")


def _reason_against_merging(context: Context) -> str:
    """Why no batch is expected to form, ``""`` when it is."""
    served = context.subject.served
    if served.max_batch_size == 0:
        return "the model does not batch"
    if served.max_batch_size == 1:
        return "max_batch_size is 1"
    if not served.HasField("dynamic_batching"):
        return "the config has no dynamic_batching"
    return ""


def _verdict(context: Context, clients: int, grown: ModelStatistics, merging: str, tellable: bool) -> CheckResult:
    counts = f"{grown.succeeded} requests in {grown.executions} executions"
    text = f"{clients} clients at a time each got their own answers"
    if not merging and grown.executions >= grown.succeeded:
        no_batch = f"no batch was formed: {counts} with {clients} clients at a time"
        hint = "raise max_queue_delay_microseconds, or lower the instance count"
        return failed("concurrency", no_batch, hint) if context.own else warned("concurrency", no_batch, hint)
    if not tellable:
        precision = context.subject.precision
        equal = "equal" if precision == "fp32" else f"as near as {precision} may differ between batches"
        return warned("concurrency", f"{text}, but all answers are {equal}: a mix-up could not be seen")
    if merging:
        return passed("concurrency", f"{text}; nothing to merge: {merging}")
    largest = max((size for size, _ in grown.batches), default=1)
    return passed("concurrency", f"{text}; {counts}, batches up to {largest}")


def _statistics(context: Context) -> ModelStatistics:
    return context.client.statistics(context.subject.model, context.subject.version)


def _joined(answers: Sequence[Mapping[str, Tensor]]) -> dict[str, Array]:
    joined = {}
    for name in answers[0]:
        arrays = [answer[name][0] for answer in answers]
        fits = all(array.ndim and array.shape[1:] == arrays[0].shape[1:] for array in arrays)
        joined[name] = np.concatenate(arrays) if fits else arrays[0]
    return joined


def _tellable(context: Context, answers: Sequence[Mapping[str, Tensor]]) -> bool:
    """Whether at least two answers differ by more than is allowed, so that a mix-up would show."""
    first = answers[0]
    return any(
        not compare(*_first_rows(array, first[name][0]), dtype, tolerance=context.tolerance(dtype, again=False)).agrees
        for answer in answers[1:]
        for name, (array, dtype) in answer.items()
        if name in first
    )


def _first_rows(one: Array, other: Array) -> tuple[Array, Array]:
    """As many rows of both as both have: a different number of rows is no different answer."""
    if not one.ndim or not other.ndim:
        return one, other
    rows = min(len(one), len(other))
    return one[:rows], other[:rows]


def _refused(context: Context, name: str, why: str) -> CheckResult:
    """A request that should be valid was refused; with guessed values that may be the guess's fault."""
    if context.subject.guesses:
        return warned(name, f"a made-up request was refused: {why}")
    return failed(name, f"a valid request was refused: {why}")
