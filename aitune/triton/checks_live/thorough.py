"""What only ``--level full`` asks: more batches, requests that cannot be merged, and two thousand requests in a row."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from aitune.numerics import Array
from aitune.triton.checks_live.context import Context, disagreement, failed, passed, skipped
from aitune.triton.client_errors import InferenceRefused
from aitune.triton.subjects import make_request
from aitune.triton.validation_records import CheckResult

__all__ = ["check_batches", "check_endurance", "check_mixed"]

_SEED = 8191
_LABELS = ("smallest", "largest")
_CLIENTS = 9
_REPEATS = 4
_WARM, _MANY = 500, 2000
_ALLOWED_BYTES = 64 << 20


def check_batches(context: Context) -> CheckResult:
    """Batches of two and of the largest size, at the smallest and largest shapes, equal their rows alone."""
    subject = context.subject
    if not context.own or subject.source == "config":
        return skipped("batches", "only for a server of our own and a model with a record")
    if subject.max_batch_size < 2:
        return skipped("batches", "the model does not batch")
    tried = []
    for label in _LABELS:
        for rows in sorted({2, subject.max_batch_size}):
            problem = _batch(context, label, rows)
            if problem:
                return failed("batches", f"batch of {rows}, {label} shape: {problem}")
            tried.append(f"{rows} ({label})")
    return passed("batches", f"batches of {', '.join(tried)} equal their rows alone")


def check_mixed(context: Context) -> CheckResult:
    """Clients that send different shapes at the same time each get their own answer."""
    subject = context.subject
    if not context.own or subject.source == "config":
        return skipped("mixed", "only for a server of our own and a model with a record")
    if all(_only_batch_is_free(spec.shape, spec.batch_axis) for spec in subject.inputs):
        return skipped("mixed", "no size but the batch is free")
    rows = 1 if subject.max_batch_size else None
    requests = [make_request(subject, label, seed=_SEED, rows=rows) for label in (*_LABELS, "typical")]
    expected = [{name: array for name, (array, _) in context.ask(request).items()} for request in requests]
    barrier = threading.Barrier(_CLIENTS)

    def one(index: int) -> str:
        barrier.wait(timeout=30)
        for turn in range(_REPEATS):
            which = (index + turn) % len(requests)
            try:
                problem, _ = disagreement(context, context.ask(requests[which]), expected[which], again=False)
            except InferenceRefused as error:
                return f"a valid request was refused among others: {error}"
            if problem:
                return f"among requests of other shapes: {problem}"
        return ""

    with ThreadPoolExecutor(_CLIENTS) as pool:
        problem = next((line for line in pool.map(one, range(_CLIENTS)) if line), "")
    if problem:
        return failed("mixed", problem)
    return passed("mixed", f"{_CLIENTS} clients at a time with {len(requests)} shapes each got their own answers")


def check_endurance(context: Context) -> CheckResult:
    """Two thousand requests do not make the server's memory grow."""
    if context.server_pid is None or not Path("/proc/self/stat").exists():
        return skipped("endurance", "only for a server of our own, on Linux")
    request = make_request(context.subject, "typical", seed=_SEED)
    sizes = []
    for count in (_WARM, _MANY - _WARM):
        for _ in range(count):
            context.ask(request)
        sizes.append(sum(_resident(context.server_pid)))
    grown = sizes[1] - sizes[0]
    text = f"{_MANY} requests: {sizes[0] >> 20} MiB, then {sizes[1] >> 20} MiB"
    return passed("endurance", text) if grown <= _ALLOWED_BYTES else failed("endurance", f"memory grows: {text}")


def _batch(context: Context, label: str, rows: int) -> str:
    """How a batch differs from its first, middle and last row alone, ``""`` for not at all."""
    batch = make_request(context.subject, label, seed=_SEED, rows=rows)
    whole = context.ask(batch)
    for row in sorted({0, rows // 2, rows - 1}):
        alone: dict[str, Array] = {
            name: array
            for name, (array, _) in context.ask({name: array[row : row + 1] for name, array in batch.items()}).items()
        }
        mine = {name: (array[row : row + 1], dtype) for name, (array, dtype) in whole.items()}
        problem, _ = disagreement(context, mine, alone, again=False)
        if problem:
            return f"row {row}: {problem}"
    return ""


def _only_batch_is_free(shape: tuple[int | str | None, ...], batch_axis: int | None) -> bool:
    return all(isinstance(dim, int) or axis == batch_axis for axis, dim in enumerate(shape))


def _resident(group: int) -> Iterator[int]:
    """Bytes in memory of every process of a group; the stubs of Python models are in the server's."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The second field is the name in brackets, which may hold anything.
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[2]) == group:
            yield int(fields[21]) * page_bytes
