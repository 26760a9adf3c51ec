"""What a config makes the server allocate and run while it loads: A7.

Core sets no upper bounds, so one number too large takes the whole server down. Measured on tritonserver 2.51.0:

* a sequence batcher has ``max_batch_size`` slots, with the oldest strategy ``max_candidate_sequences`` where that is
  positive, for each instance, passive ones too. A slot takes 768 bytes (720 with the oldest) and 0.7 µs: 0.7 GiB for a
  million, 2.9 GiB for four, ``std::bad_alloc`` for 2147483647. Without a sequence batcher, or with the dynamic one, the
  same ``max_batch_size`` costs nothing, and priority levels never do.
* a warm-up sample holds 8.9 kB a row and its largest zero and random tensor for each instance; a run of a model that
  does nothing takes 50 µs.
* an initial state is held once; its size is counted in 64 bits and wraps, as Triton's does.
* ONNX Runtime makes ``intra_op_thread_count`` threads for a session: 2147483647 is ``std::bad_alloc``.
* an instance has a thread of its own (of a Python model a process, 0.1 s each), and Linux has 2^22 of them at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from aitune.triton.check.finding import Finding
from aitune.triton.check.model import Model, Version
from aitune.triton.check.rules.onnx_settings import integer
from aitune.triton.check.rules.sequence import BYTES
from aitune.triton.check.rules.warmup import running_samples, sample_inputs
from aitune.triton.check.tree import Node

__all__ = [
    "DIRECT_SLOT_BYTES",
    "OLDEST_SLOT_BYTES",
    "initial_states",
    "instances",
    "sequence_slots",
    "threads",
    "warmup_runs",
    "warmup_samples",
]

DIRECT_SLOT_BYTES, OLDEST_SLOT_BYTES = 768, 720
"""Memory of one sequence slot of either strategy."""
_SLOT_S = 0.7e-6
_WARMUP_ROW_BYTES = 8_900
_STRING_BYTES = 4  # a string that is not given is an empty one: only its length

_MUCH_BYTES, _TOO_MANY_BYTES = 1 << 30, 256 << 30
_MANY_RUNS, _TOO_MANY_RUNS = 100_000, 1_000_000_000
_MANY_THREADS, _TOO_MANY_THREADS = 1_000, 1 << 22


@dataclass(frozen=True, slots=True)
class _Bill:
    """Memory that something takes.

    Attributes:
        node: Where it is written.
        field: The field of ``node``.
        what: What takes it, as the beginning of a sentence.
        size: Bytes.
        also: What it costs beside memory.
    """

    node: Node
    field: str
    what: str
    size: int
    also: str = ""


def _judge(model: Model, bill: _Bill, fix: str) -> Iterator[Finding]:
    message = f"{bill.what} {_amount(bill.size)} of memory{bill.also} before the server is ready"
    if bill.size >= _TOO_MANY_BYTES:
        yield model.error("A7", bill.node, bill.field, f"{message}: it dies while it loads", fix)
    elif bill.size >= _MUCH_BYTES:
        yield model.warning("A7", bill.node, bill.field, f"{message}, and it dies where that is not free", fix)


def sequence_slots(model: Model, version: Version) -> Iterator[Finding]:
    """Slots of the sequence batcher, for every instance."""
    sequence = version.config.message("sequence_batching")
    if sequence is None:
        return
    oldest = sequence.message("oldest")
    node, field, slot_bytes = version.config, "max_batch_size", DIRECT_SLOT_BYTES
    if oldest is not None:
        slot_bytes = OLDEST_SLOT_BYTES
        if oldest.number("max_candidate_sequences") > 0:
            node, field = oldest, "max_candidate_sequences"
    slots = max(node.number(field), 1)
    total = slots * sum(count for _, count in model.instance_counts())
    what = f"{field} {slots} is a slot for each of as many sequences, in every instance: {total} slots take"
    bill = _Bill(node, field, what, total * slot_bytes, f" and {_duration(total * _SLOT_S)}")
    yield from _judge(model, bill, f"{field}: the number of sequences that one instance serves at a time")


def warmup_samples(model: Model, version: Version) -> Iterator[Finding]:
    """Requests and tensors of a warm-up sample, for every instance that runs."""
    groups = [count for group, count in model.instance_counts() if not group.given("passive")]
    for sample in running_samples(model, version):
        name, rows = sample.text("name"), sample.number("batch_size")
        bill = _Bill(
            sample, "batch_size", f"{rows} rows of warmup sample {name!r} take", rows * _WARMUP_ROW_BYTES * sum(groups)
        )
        yield from _judge(model, bill, "batch_size: a batch that clients send")
        for source in ("zero_data", "random_data"):
            sizes = [(_bytes(settings), settings) for _, _, settings in sample_inputs(sample) if settings.given(source)]
            if sizes:
                size, settings = max(sizes, key=lambda one: one[0])
                what = f"the {source} of warmup sample {name!r} takes"
                yield from _judge(model, _Bill(settings, "dims", what, size * sum(groups)), "dims that clients send")


def warmup_runs(model: Model, version: Version) -> Iterator[Finding]:
    """Repetitions of a warm-up sample."""
    for sample in running_samples(model, version):
        runs = sample.number("count")
        message = f"warmup sample {sample.text('name')!r} runs {runs} times before the server is ready"
        if runs >= _TOO_MANY_RUNS:
            text = f"{message}: that takes days"
            yield model.error("A7", sample, "count", text, "count: 1")
        elif runs >= _MANY_RUNS:
            yield model.warning("A7", sample, "count", message, "count: 1")


def initial_states(model: Model, version: Version) -> Iterator[Finding]:
    """Zeros from which the states of new sequences are copied."""
    sequence = version.config.message("sequence_batching")
    for state in sequence.messages("state") if sequence is not None else ():
        for initial in state.messages("initial_state"):
            if initial.given("zero_data"):
                what = f"the initial state {initial.text('name')!r} takes"
                bill = _Bill(initial, "dims", what, _bytes(initial) % (1 << 64))
                yield from _judge(model, bill, "the size of one state")


def instances(model: Model) -> Iterator[Finding]:
    """Instances of a group: each has a thread and the model of its own."""
    for group, count in model.instance_counts():
        if count >= _TOO_MANY_THREADS and model.backend != "tensorrt":
            message = f"{count} instances need as many threads: Linux has {_TOO_MANY_THREADS} at most"
            yield model.error("A7", group, "count", message, "count: 1")
        elif count >= _MANY_THREADS:
            message = f"{count} instances: each is loaded for itself, with threads and memory of its own"
            yield model.warning("A7", group, "count", message, "count: 1")


def threads(model: Model) -> Iterator[Finding]:
    """Threads of an ONNX Runtime session; more than the server can have are refused when they are made."""
    entry = model.config.map("parameters").get("intra_op_thread_count")
    holder = entry.message("value") if entry is not None else None
    count = (integer(holder.text("string_value")) if holder is not None else None) or 0
    fix = 'string_value: "0", which is one thread a core'
    if _TOO_MANY_THREADS <= count < 1 << 31:  # what no int holds is refused when it is read
        message = f"intra_op_thread_count is {count}: Linux has {_TOO_MANY_THREADS} threads at most"
        yield model.error("A7", entry, "value", message, fix)
    elif _MANY_THREADS <= count < _TOO_MANY_THREADS:
        message = f"intra_op_thread_count is {count}: every instance makes as many threads"
        yield model.warning("A7", entry, "value", message, fix)


def _bytes(settings: Node) -> int:
    """Bytes of a tensor of zeros."""
    dims = settings.numbers("dims")
    if any(size < 0 for size in dims):
        return 0
    return math.prod(dims) * BYTES.get(settings.choice("data_type"), _STRING_BYTES)


# -- words ------------------------------------------------------------------------------------------------------------


def _amount(size: int) -> str:
    """A size of at least a GiB."""
    if size >= 1 << 70:  # no float holds a product of many dims
        return "more than 1 ZiB"
    unit, name = (1 << 40, "TiB") if size >= 1 << 40 else (1 << 30, "GiB")
    return f"{size / unit:,.1f} {name}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
