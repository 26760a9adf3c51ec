"""What core validates in the config itself: name, platform, batch size, scheduler, cache, metrics (section 3.1)."""

from __future__ import annotations

from collections.abc import Iterator

from aitune.triton.check.edits import remove_field, replace_value, set_field
from aitune.triton.check.finding import Finding
from aitune.triton.check.model import Model
from aitune.triton.check.scalars import quote
from aitune.triton.check.tree import Node

__all__ = [
    "agents",
    "batch_size",
    "cache",
    "metrics",
    "name_matches",
    "platform_pair",
    "preferred_sizes",
    "priorities",
    "queue_order",
]

_PAIRS = {
    "tensorflow": ("tensorflow_graphdef", "tensorflow_savedmodel"),
    "tensorrt": ("tensorrt_plan",),
    "onnxruntime": ("onnxruntime_onnx",),
    "pytorch": ("pytorch_libtorch",),
}


def name_matches(model: Model) -> Iterator[Finding]:
    """R29: a written name must be the directory's."""
    name = model.written.text("name")
    if name and name != model.name:
        better = f"name: {quote(model.name)}"
        edits = set_field(model.source, model.written, "name", better)
        message = f"the name is {name!r}, the directory {model.name!r}: directory name must equal model name"
        yield model.error("R29", model.written, "name", message, better, edits)


def platform_pair(model: Model) -> Iterator[Finding]:
    """R54 to R56: platform and backend must belong together."""
    backend, platform = model.backend, model.config.text("platform")
    if platform == "ensemble" and backend:
        message = "an ensemble has no backend: must have platform type 'ensemble' and empty backend type"
        edits = remove_field(model.source, model.config, "backend")
        yield model.error("R54", model.config, "backend", message, "remove the backend line", edits)
        return
    allowed = _PAIRS.get(backend)
    if backend == "pytorch" and model.has("torch_aoti"):
        allowed = ("pytorch_libtorch", "torch_aoti")
    if allowed is None or platform in allowed:
        return
    rule = "R56" if platform == "libtorch" else "R55"
    if model.written.text("backend"):
        fix, edits = f'platform: "{allowed[0]}"', remove_field(model.source, model.config, "platform")
    else:
        fix, edits = "keep either platform or default_model_filename: they name different backends", ()
        rule = "R174"
    message = f"unexpected 'platform' and 'backend' pair: {platform!r} does not belong to {backend!r}"
    yield model.error(rule, model.config, "platform", message, fix, edits)


def batch_size(model: Model) -> Iterator[Finding]:
    """R57: max_batch_size must not be negative."""
    size = model.config.number("max_batch_size")
    if size < 0:
        edits = replace_value(model.source, model.config, "max_batch_size", "0")
        message = f"'max_batch_size' is {size}: it must be a non-negative value"
        yield model.error("R57", model.config, "max_batch_size", message, "max_batch_size: 0", edits)


def preferred_sizes(model: Model) -> Iterator[Finding]:
    """R58, R59: preferred sizes of the dynamic batcher lie in 1..max_batch_size."""
    batching = model.config.message("dynamic_batching")
    if batching is not None:
        yield from sizes_in_range(model, batching, "R58", "R59", "dynamic batching preferred size")


def sizes_in_range(model: Model, node: Node, positive: str, bounded: str, what: str) -> Iterator[Finding]:
    """Every preferred_batch_size of ``node`` lies in 1..max_batch_size."""
    limit = max(model.config.number("max_batch_size"), 0)
    sizes = node.numbers("preferred_batch_size")
    good = [size for size in sizes if 0 < size <= limit]
    for size in sizes:
        if 0 < size <= limit:
            continue
        rule, gist = (positive, "must be positive") if size <= 0 else (bounded, f"must be <= max batch size, {limit}")
        if good:
            better = f"preferred_batch_size: [ {', '.join(map(str, good))} ]"
            edits = set_field(model.source, node, "preferred_batch_size", better)
        else:
            better = "leave preferred_batch_size out"
            edits = remove_field(model.source, node, "preferred_batch_size")
        yield model.error(rule, node, "preferred_batch_size", f"{what} {size} {gist}", better, edits)


def priorities(model: Model) -> Iterator[Finding]:
    """R61, R62: priority levels count from 1 to priority_levels."""
    batching = model.config.message("dynamic_batching")
    levels = batching.number("priority_levels") if batching is not None else 0
    if batching is None or levels == 0:
        return
    default = batching.number("default_priority_level")
    if not 1 <= default <= levels:
        better = "default_priority_level: 1"
        edits = set_field(model.source, batching, "default_priority_level", better)
        message = f"default priority level is {default}: must be in range [1, {levels}]"
        yield model.error("R61", batching, "default_priority_level priority_levels", message, better, edits)
    for key, entry in batching.map("priority_queue_policy").items():
        if not 1 <= int(key) <= levels:
            message = f"priority queue policy for level {key}: must have priority level in range [1, {levels}]"
            yield model.error("R62", entry, "key", message)


def queue_order(model: Model) -> Iterator[Finding]:
    """R63, R64: preserve_ordering excludes several priorities and delaying timeouts."""
    batching = model.config.message("dynamic_batching")
    if batching is None or not batching.flag("preserve_ordering"):
        return
    if batching.number("priority_levels") > 1:
        message = "only one priority level is allowed when preserve_ordering is set"
        yield model.error("R63", batching, "priority_levels", message, "priority_levels: 1")
    policies = [batching.message("default_queue_policy")]
    policies += [entry.message("value") for entry in batching.map("priority_queue_policy").values()]
    for policy in policies:
        delays = policy is not None and policy.choice("timeout_action") == "DELAY"
        if policy is not None and delays and policy.number("default_timeout_microseconds"):
            message = "queue policy can not have DELAY as timeout action when preserve_ordering is set"
            yield model.error("R64", policy, "timeout_action", message, "timeout_action: REJECT")


def cache(model: Model) -> Iterator[Finding]:
    """R65, R80: the response cache excludes sequences and decoupled models."""
    response_cache = model.config.message("response_cache")
    if response_cache is None or not response_cache.flag("enable"):
        return
    if not model.has("cache_refused_for_sequence_and_decoupled"):
        return
    fix = "remove response_cache"
    if model.config.message("sequence_batching") is not None:
        message = "response cache does not currently support a model with sequence batching scheduler"
        yield model.error("R65", response_cache, "enable", message, fix)
    policy = model.config.message("model_transaction_policy")
    if policy is not None and policy.flag("decoupled"):
        message = "response cache does not currently support a model with 'decoupled' transaction policy"
        yield model.error("R80", response_cache, "enable", message, fix)


def metrics(model: Model) -> Iterator[Finding]:
    """R81: a metric control is complete."""
    holder = model.config.message("model_metrics")
    for control in holder.messages("metric_control") if holder is not None else ():
        identifier, options = control.message("metric_identifier"), control.message("histogram_options")
        if identifier is None:
            yield model.error("R81", control, "", "metric control must specify 'metric_identifier'")
        elif not identifier.text("family"):
            yield model.error("R81", identifier, "family", "metric identifier must specify non-empty 'family'")
        if options is None:
            yield model.error("R81", control, "", "metric control must specify 'histogram_options'")
        elif not options.given("buckets"):
            yield model.error("R81", options, "buckets", "histogram options must specify non-empty 'buckets'")


def agents(model: Model) -> Iterator[Finding]:
    """R7, R36: repository agents exist, and an empty list kills the server."""
    holder = model.config.message("model_repository_agents")
    if holder is None:
        return
    if not holder.given("agents"):
        edits = remove_field(model.source, model.config, "model_repository_agents")
        message = "an empty model_repository_agents makes the server crash"
        yield model.error("R7", holder, "agents", message, "remove model_repository_agents", edits)
    for agent in holder.messages("agents"):
        name = agent.text("name")
        if name not in model.options.agents:
            message = (
                f"unable to find libtritonrepoagent_{name}.so for repo agent {name!r}: the server does not bring it"
            )
            yield model.error("R36", agent, "name", message)
