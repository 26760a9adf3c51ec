"""Ensembles by themselves: what their own config must say (static part of section 3.5)."""

from __future__ import annotations

from collections.abc import Iterator

from aitune.triton.check.edits import remove_field
from aitune.triton.check.finding import Finding
from aitune.triton.check.model import Model
from aitune.triton.check.tree import Node

__all__ = ["data_flow", "forbidden", "mapping", "scheduling", "steps"]


def scheduling(model: Model) -> Iterator[Finding]:
    """R77, R78: the platform and the scheduler say the same."""
    holder = model.config.message("ensemble_scheduling")
    if holder is not None and not model.is_ensemble and (model.backend or model.config.text("platform")):
        message = f"ensemble scheduling cannot be set for model {model.name!r} whose platform is not ensemble"
        yield model.error("R77", holder, "", message, 'platform: "ensemble"')
    if holder is None and model.is_ensemble:
        message = f"ensemble scheduling must be set for ensemble {model.name!r} whose platform is ensemble"
        yield model.error("R78", model.config, "platform", message, "ensemble_scheduling { step [ … ] }")


def forbidden(model: Model) -> Iterator[Finding]:
    """R122 to R124: an ensemble has no instances, no optimization and no warm-up of its own."""
    if not model.is_ensemble:
        return
    for rule, field in (("R122", "instance_group"), ("R123", "optimization"), ("R124", "model_warmup")):
        if model.config.given(field):
            message = f"{field} should not be specified for ensemble {model.name!r}"
            edits = remove_field(model.source, model.config, field)
            yield model.error(rule, model.config, field, message, f"remove {field}", edits)


def steps(model: Model) -> list[Node]:
    """The steps of an ensemble."""
    holder = model.config.message("ensemble_scheduling")
    return holder.messages("step") if holder is not None and model.is_ensemble else []


def mapped(step: Node, field: str) -> dict[str, tuple[str, Node]]:
    """Ensemble tensor and entry for each of the member's tensors."""
    return {str(key): (entry.text("value"), entry) for key, entry in step.map(field).items()}


def mapping(model: Model) -> Iterator[Finding]:
    """R125 to R127: every step names its model and its tensors, and no tensor is written twice."""
    holder = model.config.message("ensemble_scheduling")
    if holder is None or not model.is_ensemble:
        return
    if not holder.given("step"):
        yield model.error("R125", holder, "step", f"must specify 'step' for ensemble {model.name!r}")
    written: set[str] = set()
    for index, step in enumerate(steps(model)):
        for field in ("model_name", "input_map", "output_map"):
            if not (step.text(field) if field == "model_name" else step.given(field)):
                message = f"must specify '{field}' in step {index} of ensemble {model.name!r}"
                yield model.error("R126", step, field, message)
        for tensor, entry in mapped(step, "output_map").values():
            if tensor in written:
                message = f"ensemble tensor {tensor!r} can appear in an output map only once"
                yield model.error("R127", entry, "value", message)
            written.add(tensor)


def data_flow(model: Model) -> Iterator[Finding]:
    """R128 to R131: data reaches every tensor, and every tensor is needed."""
    if not steps(model) or any(True for _ in mapping(model)):
        return
    inputs = [node.text("name") for node in model.config.messages("input")]
    outputs = [node.text("name") for node in model.config.messages("output")]
    read: dict[str, Node] = {}
    written: dict[str, Node] = {}
    for step in steps(model):
        read.update(mapped(step, "input_map").values())
        written.update(mapped(step, "output_map").values())
    ready = _ready(model, set(inputs))
    yield from _ends(model, inputs, outputs, read, written, ready)
    for tensor, entry in {**written, **read}.items():
        if tensor in inputs or tensor in outputs:
            continue
        if tensor not in ready:
            why = "nobody writes it" if tensor not in written else "its step never runs"
            message = f"ensemble tensor {tensor!r} is unused or never ready: {why}"
            yield model.error("R131", entry, "value", message)
        elif tensor not in read:
            message = f"ensemble tensor {tensor!r} is unused: no step reads it, and it is no output"
            yield model.error("R131", entry, "value", message, "leave it out of output_map")


def _ends(
    model: Model,
    inputs: list[str],
    outputs: list[str],
    read: dict[str, Node],
    written: dict[str, Node],
    ready: set[str],
) -> Iterator[Finding]:
    for node in model.config.messages("input"):
        if node.text("name") not in read and node.text("name") not in written:
            message = f"ensemble input {node.text('name')!r} for ensemble {model.name!r} is not used"
            yield model.error("R128", node, "name", message, "map it in some input_map, or leave it out")
    for node in model.config.messages("output"):
        name = node.text("name")
        if name not in read and name not in written:
            message = f"ensemble output {name!r} for ensemble {model.name!r} is not used"
            yield model.error("R129", node, "name", message, "map it in some output_map, or leave it out")
        elif name not in ready:
            message = f"output {name!r} for ensemble {model.name!r} is not written: {_missing(model, name, ready)}"
            yield model.error("R130", node, "name", message)


def _ready(model: Model, ready: set[str]) -> set[str]:
    """Tensors that get data: a step runs when all it reads is ready."""
    waiting = [
        [{tensor for tensor, _ in mapped(step, field).values()} for field in ("input_map", "output_map")]
        for step in steps(model)
    ]
    while True:
        blocked = []
        for read, written in waiting:
            if read <= ready:
                ready |= written
            else:
                blocked.append([read, written])
        if len(blocked) == len(waiting):
            return ready
        waiting = blocked


def _missing(model: Model, name: str, ready: set[str]) -> str:
    """The first tensor that keeps ``name`` from being written."""
    for step in steps(model):
        if name in [tensor for tensor, _ in mapped(step, "output_map").values()]:
            lacking = [tensor for tensor, _ in mapped(step, "input_map").values() if tensor not in ready]
            return f"at least one of its depending tensors, {lacking[0]!r}, is not connected"
    return "no step writes it"
