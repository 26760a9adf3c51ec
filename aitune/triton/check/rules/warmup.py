"""Warm-up samples: whatever is wrong with one stops the model, and often the whole server (section 3.6)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from aitune.triton.check.edits import dims_text, replace_value, set_field
from aitune.triton.check.finding import Finding
from aitune.triton.check.folder import inside, joined
from aitune.triton.check.model import Model, Version
from aitune.triton.check.rules.sequence import BYTES, data_file_fault
from aitune.triton.check.tree import Node

__all__ = ["batches", "data", "inputs", "requests", "running_samples", "sample_inputs"]

_MAX_FILE_BYTES = 64 << 20


def running_samples(model: Model, version: Version) -> Iterator[Node]:
    """Samples that run: batch size given, and some instance to run on."""
    groups = version.config.messages("instance_group")
    if groups and all(group.flag("passive") for group in groups):
        return
    for sample in version.config.messages("model_warmup"):
        if sample.number("batch_size") > 0:
            yield sample


def sample_inputs(sample: Node) -> Iterator[tuple[str, Node, Node]]:
    """Name, entry and settings of each input; an entry without a value holds the defaults."""
    for key, entry in sample.map("inputs").items():
        yield str(key), entry, entry.message("value") or Node("ModelWarmup.Input", entry, "value")


def batches(model: Model, version: Version) -> Iterator[Finding]:
    """R150: no sample is larger than a batch may be."""
    limit = max(version.config.number("max_batch_size"), 1)
    for sample in running_samples(model, version):
        size = sample.number("batch_size")
        if size > limit:
            message = (
                f"failed to run warmup sample {sample.text('name')!r}: batch size {size}, max allowed is {limit}; "
                "this can crash the whole server"
            )
            edits = replace_value(model.source, sample, "batch_size", str(limit))
            yield model.error("R150", sample, "batch_size", message, f"batch_size: {limit}", edits)


def data(model: Model, version: Version) -> Iterator[Finding]:
    """R145 to R147, R49, R151: every input has fixed dims and a source of data that is large enough."""
    for sample in running_samples(model, version):
        for name, entry, settings in sample_inputs(sample):
            dims = settings.numbers("dims")
            if any(size < 0 for size in dims):
                message = f"warmup setting expects all variable-size dimensions are specified for input {name!r}"
                yield model.error("R145", settings, "dims", message, "give every dimension a size")
                continue
            if not any(settings.given(field) for field in ("zero_data", "random_data", "input_data_file")):
                message = f"warmup setting expects input {name!r} to have input_data_type set"
                where = settings if settings.span is not None else entry
                yield model.error("R146", where, "", message, "zero_data: true")
            yield from _file(model, name, settings, dims)


def _file(model: Model, name: str, settings: Node, dims: tuple[int, ...]) -> Iterator[Finding]:
    file = settings.text("input_data_file")
    if not file:
        return
    path = joined(model.folder.path / "warmup", file)
    need = BYTES.get(settings.choice("data_type"), 0) * math.prod(dims)
    rule, fault = data_file_fault(model, path, need, "R49", "R147")
    if not fault and settings.choice("data_type") == "TYPE_STRING" and model.has("request_byte_size_check"):
        rule, fault = "R148", _string_fault(model, name, settings, math.prod(dims))
    if fault:
        yield model.error(rule, settings, "input_data_file", fault)


def _string_fault(model: Model, name: str, settings: Node, count: int) -> str:
    """What is wrong with a file of strings: each is a 4-byte length and that many bytes."""
    path = joined(model.folder.path / "warmup", settings.text("input_data_file"))
    if not inside(model.root, path) or path.stat().st_size > _MAX_FILE_BYTES:
        return ""
    content = path.read_bytes()
    at = found = 0
    while at < len(content):
        if at + 4 > len(content):
            return f"incomplete string length indicator in the warmup data of input {name!r}"
        at += 4 + int.from_bytes(content[at : at + 4], "little")
        found += 1
    if at > len(content):
        return f"incomplete string data in the warmup data of input {name!r}"
    return "" if found == count else f"expected {count} string elements for warmup input {name!r}, got {found}"


def inputs(model: Model, version: Version) -> Iterator[Finding]:
    """R148, R149: the sample names the model's inputs, all that are required and none that is unknown."""
    configured = {node.text("name"): node for node in version.config.messages("input")}
    required = {name for name, node in configured.items() if not node.flag("optional")}
    for sample in running_samples(model, version):
        given = {name for name, _, _ in sample_inputs(sample)}
        missing = sorted(required - given)
        if missing:
            message = (
                f"warmup sample {sample.text('name')!r}: expected {len(required)} inputs but got "
                f"{len(given & set(configured))}, missing required {', '.join(missing)}"
            )
            yield model.error(
                "R148", sample, "name inputs", message, f'inputs {{ key: "{missing[0]}" value: {{ … }} }}'
            )
        known = set(configured) | _sequence_names(version.config)
        for name, entry, _ in sample_inputs(sample):
            if name not in known and version.config.text("backend") == "onnxruntime":
                message = f"warmup input {name!r} is not an input of the model; this can crash the whole server"
                yield model.error("R149", entry, "key", message)
        yield from _not_fed(model, version, sample, given)


def _sequence_names(config: Node) -> set[str]:
    sequence = config.message("sequence_batching")
    if sequence is None:
        return set()
    names = {tensor.text("name") for tensor in sequence.messages("control_input")}
    return names | {state.text("input_name") for state in sequence.messages("state")}


def _not_fed(model: Model, version: Version, sample: Node, given: set[str]) -> Iterator[Finding]:
    """R152: controls and states come from the scheduler, which a warm-up bypasses."""
    absent = sorted(_sequence_names(version.config) - given)
    if absent and version.config.text("backend") == "onnxruntime":
        message = (
            f"warmup sample {sample.text('name')!r} bypasses the sequence batcher, so the model runs without "
            f"{', '.join(absent)}: failed to run warmup sample"
        )
        yield model.error("R152", sample, "name", message, f'inputs {{ key: "{absent[0]}" value: {{ … }} }}')


def requests(model: Model, version: Version) -> Iterator[Finding]:
    """R148: type and dims of every input are those a request must have."""
    configured = {node.text("name"): node for node in version.config.messages("input")}
    batching = version.config.number("max_batch_size") > 0
    for sample in running_samples(model, version):
        for name, _, settings in sample_inputs(sample):
            node = configured.get(name)
            if node is None:
                continue
            have, want = settings.choice("data_type"), node.choice("data_type")
            if have != want:
                message = f"warmup input {name!r} data-type is {have}, but the model expects {want}"
                edits = replace_value(model.source, settings, "data_type", want)
                yield model.error("R148", settings, "data_type", message, f"data_type: {want}", edits)
            dims, wanted = settings.numbers("dims"), node.numbers("dims")
            if any(size < 0 for size in dims) or _fits(dims, wanted):
                continue
            prefix = (-1,) if batching else ()
            got = (1, *dims) if batching else dims
            message = (
                f"unexpected shape for warmup input {name!r}: expected {dims_text((*prefix, *wanted))}, got "
                f"{dims_text(got)}" + (" (warm-up dims leave the batch axis out)" if batching else "")
            )
            better = _dims_fix(dims, wanted)
            edits = set_field(model.source, settings, "dims", better) if better.startswith("dims:") else ()
            yield model.error("R148", settings, "dims", message, better, edits)


def _fits(dims: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(dims) == len(wanted) and all(w in (-1, d) for d, w in zip(dims, wanted, strict=True))


def _dims_fix(dims: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    if -1 not in wanted:
        return f"dims: {dims_text(wanted)}"
    if len(dims) == len(wanted):
        return f"dims: {dims_text([d if w == -1 else w for d, w in zip(dims, wanted, strict=True)])}"
    return f"dims with {len(wanted)} sizes"
