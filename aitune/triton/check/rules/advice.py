"""What loads and still is not what its author thinks."""

from __future__ import annotations

from collections.abc import Iterator

from aitune.triton.check import declared
from aitune.triton.check.finding import Finding
from aitune.triton.check.folder import FILE, kind_of
from aitune.triton.check.grammar import ENUMS
from aitune.triton.check.model import Model, Version
from aitune.triton.check.scalars import TEMPLATE, closest
from aitune.triton.check.tree import Node
from aitune.triton.check.versions import available
from aitune.triton.layout import RECORD

__all__ = [
    "batches_never_form",
    "counts",
    "duplicates",
    "gpu_accelerators",
    "parameter_names",
    "pinned_memory",
    "placeholders",
    "priorities_unused",
    "repeated_keys",
    "skipped_samples",
    "stand_ins",
    "state_names",
    "state_memory",
    "unknown_types",
    "unproved_latest",
]

_PARAMETERS = (
    "intra_op_thread_count", "inter_op_thread_count", "execution_mode", "enable_mem_arena", "enable_mem_pattern",
    "memory.enable_memory_arena_shrinkage", "session.use_device_allocator_for_initializers", "cudnn_conv_algo_search",
    "gpu_mem_limit", "arena_extend_strategy", "do_copy_in_default_stream",
)  # fmt: skip


def batches_never_form(model: Model) -> Iterator[Finding]:
    """R60: dynamic batching without room for a batch."""
    batching, size = model.written.message("dynamic_batching"), model.config.number("max_batch_size")
    if batching is not None and size in (0, 1):
        message = f"dynamic_batching never forms a batch: max_batch_size is {size}, every request runs alone"
        if batching.number("max_queue_delay_microseconds"):
            message += " and is delayed first"
        yield model.warning("R60", model.config, "dynamic_batching", message, "raise max_batch_size, or remove it")


def priorities_unused(model: Model) -> Iterator[Finding]:
    """R62: priorities without levels are ignored."""
    batching = model.config.message("dynamic_batching")
    if batching is None or batching.number("priority_levels"):
        return
    for field in ("default_priority_level", "priority_queue_policy"):
        if batching.given(field):
            message = f"{field} is ignored: priority_levels is 0"
            yield model.warning("R62", batching, field, message, "set priority_levels, or remove it")


def counts(model: Model) -> Iterator[Finding]:
    """R117, R118: an instance count that is taken for unset; a model that nobody executes."""
    groups = model.config.messages("instance_group")
    for group in groups:
        if group.given("count") and group.number("count") < 1:
            message = f"count {group.number('count')} is treated as unset: the default applies"
            yield model.warning("R117", group, "count", message, "count: 1")
    if groups and all(group.flag("passive") for group in groups) and not model.is_ensemble:
        message = "every instance group is passive: the model loads, and no request is ever executed"
        yield model.warning("R118", groups[0], "passive", message, "passive: false")


def pinned_memory(model: Model) -> Iterator[Finding]:
    """R178: an empty message switches pinned memory off."""
    optimization = model.config.message("optimization")
    for field in ("input_pinned_memory", "output_pinned_memory"):
        node = optimization.message(field) if optimization is not None else None
        if optimization is not None and node is not None and not node.given("enable"):
            message = f"an empty {field} switches pinned memory off; left out it is on"
            yield model.warning("R178", optimization, field, message, f"remove {field}, or enable: false")


def repeated_keys(model: Model) -> Iterator[Finding]:
    """R24: of a key that comes twice only the last counts."""
    for node in model.config.walk():
        for described in node.type.fields.values():
            seen: set[str | int] = set()
            for entry in node.messages(described.name) if described.is_map else ():
                if entry.key in seen:
                    message = f"key {entry.key!r} comes twice in {described.name}: the last one wins"
                    yield model.warning("R24", entry, "key", message, "keep one")
                seen.add(entry.key)


def placeholders(model: Model) -> Iterator[Finding]:
    """R22: a placeholder inside a text stays there."""
    for node in model.written.walk():
        for name, occurrences in node.fields.items():
            for item in (item for occurrence in occurrences for item in occurrence.items):
                if isinstance(item.value, str) and node.type.fields[name].type == "string":
                    found = TEMPLATE.search(item.value)
                    if found is not None:
                        message = f"{found.group()} looks like an unfilled placeholder; Triton takes it as it stands"
                        yield model.warning("R22", node, name, message)


def unknown_types(model: Model) -> Iterator[Finding]:
    """R18: a number that is no data type passes core."""
    for kind, node in model.tensors(model.config):
        if node.choice("data_type") not in ENUMS["DataType"]:
            message = f"data_type {node.choice('data_type')} of {kind} {node.text('name')!r} is no data type"
            yield model.warning("R18", node, "data_type", message)


def parameter_names(model: Model) -> Iterator[Finding]:
    """R242: the backend ignores parameters that it does not know."""
    if model.backend != "onnxruntime":
        return
    for key, entry in model.config.map("parameters").items():
        better = closest(str(key), _PARAMETERS)
        if better and str(key) not in _PARAMETERS:
            message = f"parameter {key!r} is unknown to the ONNX Runtime backend and ignored"
            yield model.warning("R242", entry, "key", message, f'key: "{better}"')


def gpu_accelerators(model: Model) -> Iterator[Finding]:
    """R244: GPU accelerators do nothing on a CPU instance."""
    optimization = model.config.message("optimization")
    holder = optimization.message("execution_accelerators") if optimization is not None else None
    if model.backend == "onnxruntime" and holder is not None and "KIND_GPU" not in model.group_kinds():
        for node in holder.messages("gpu_execution_accelerator"):
            message = f"accelerator {node.text('name')!r} is ignored: no instance runs on a GPU"
            yield model.warning("R244", node, "name", message)


def skipped_samples(model: Model) -> Iterator[Finding]:
    """R144: a sample without batch_size is skipped."""
    for sample in model.config.messages("model_warmup"):
        if not sample.number("batch_size"):
            message = f"warmup sample {sample.text('name')!r} has batch_size 0: it is skipped, and nothing is warmed up"
            yield model.warning("R144", sample, "batch_size name", message, "batch_size: 1")


def state_memory(model: Model) -> Iterator[Finding]:
    """R162: growable state memory needs a shared buffer and a GPU, which shows only when a sequence starts."""
    sequence = model.config.message("sequence_batching")
    for state in sequence.messages("state") if sequence is not None else ():
        if state.flag("use_growable_memory"):
            shared, kinds = state.flag("use_same_buffer_for_input_output"), model.group_kinds()
            if not shared or any(kind != "KIND_GPU" for kind in kinds):
                message = (
                    "use_growable_memory needs use_same_buffer_for_input_output and GPU instances: every sequence fails"
                )
                yield model.warning("R162", state, "use_growable_memory", message)


def duplicates(model: Model, version: Version) -> Iterator[Finding]:
    """R98: one name for two inputs (or outputs)."""
    for kind in ("input", "output"):
        seen: set[str] = set()
        for node in version.config.messages(kind):
            name = node.text("name")
            if name in seen:
                cost = ": no request can satisfy the model" if kind == "input" else ""
                yield model.warning("R98", node, "name", f"{kind} {name!r} is listed twice{cost}", "list it once")
            seen.add(name)


def stand_ins(model: Model, version: Version) -> Iterator[Finding]:
    """R216: only the number of inputs is compared, so one may stand in for another; every request then fails."""
    interface, config = version.interface, version.config
    if interface is None or model.backend != "onnxruntime":
        return
    known = {node.text("name") for node in config.messages("input")}
    known |= {name for node in config.messages("batch_input") for name in node.texts("target_name")}
    sequence = config.message("sequence_batching")
    for tensor in sequence.messages("control_input") if sequence is not None else ():
        known.add(tensor.text("name"))
    for state in sequence.messages("state") if sequence is not None else ():
        known.add(state.text("input_name"))
    for port in interface.inputs:
        if port.name not in known:
            message = f"required input {port.name!r} is not configured; the count happens to match, every request fails"
            fix = declared.stanza("input", port, config, model.options.release)
            yield model.warning("R216", config, "input", message, fix)


def state_names(model: Model, version: Version) -> Iterator[Finding]:
    """R230: states are not compared with the model at load; a wrong one fails when it runs."""
    sequence = version.config.message("sequence_batching")
    if sequence is None or version.interface is None or model.backend != "onnxruntime":
        return
    for state in sequence.messages("state"):
        for field, kind in (("input_name", "input"), ("output_name", "output")):
            yield from _state_side(model, version, state, field, kind)


def _state_side(model: Model, version: Version, state: Node, field: str, kind: str) -> Iterator[Finding]:
    name = state.text(field)
    port = declared.port(version.interface, kind, name)
    if port is None:
        message = f"the model has no {kind} {name!r} for this state: it loads, and fails when it runs"
        yield model.warning("R230", state, field, message)
        return
    provided = declared.config_type(port, model.options.release)
    if provided and provided != state.choice("data_type"):
        message = f"state {name!r} is {provided} in the model, {state.choice('data_type')} here: it fails when it runs"
        yield model.warning("R230", state, "data_type", message, f"data_type: {provided}")


def unproved_latest(model: Model) -> Iterator[Finding]:
    """A5: under ``latest`` the newest version serves alone, and nobody proved it while older ones were."""
    policy, numbers = model.written.message("version_policy"), available(model)
    latest = policy.message("latest") if policy is not None else None
    alone = policy is None or (latest is not None and latest.number("num_versions") == 1)
    if not alone or len(numbers) < 2 or len(model.versions) != 1:
        return
    proved = [n for n in numbers if kind_of(model.folder.path / str(n) / RECORD) == FILE]
    if proved and numbers[-1] not in proved:
        message = f"version {numbers[-1]} is the only one served and has no record; version {proved[-1]} has one"
        fix = f"version_policy: {{ specific: {{ versions: [ {proved[-1]} ] }} }}"
        yield model.warning("A5", model.written, "version_policy", message, fix)
