"""What the ONNX Runtime backend fills in before core validates again; not in strict mode (rules R184 to R191)."""

from __future__ import annotations

from collections.abc import Iterator

from aitune.records.interface import Interface
from aitune.triton.check.declared import model_dims, tensor_node
from aitune.triton.check.edits import replace_value
from aitune.triton.check.finding import Finding
from aitune.triton.check.model import Model, Version
from aitune.triton.check.tree import Node

__all__ = ["can_batch", "complete_onnx", "needs_completion"]


def needs_completion(config: Node) -> bool:
    """R184: whether the backend completes anything at all."""
    no_inputs = not config.given("input") and not config.given("batch_input")
    return no_inputs or not config.given("output")


def can_batch(interface: Interface) -> bool:
    """R185: every input and output begins with a free axis."""
    shapes = [model_dims(port) for port in (*interface.inputs, *interface.outputs)]
    return all(shape and shape[0] == -1 for shape in shapes)


def complete_onnx(model: Model, version: Version) -> Iterator[Finding]:
    """Complete ``version.config`` from its interface as the backend does."""
    interface = version.interface
    if interface is None or not needs_completion(version.config):
        return
    if version.config.given("batch_input") and not version.config.given("output"):
        yield _broken(model)
        return
    config = version.config = version.config.copy()
    written = config.number("max_batch_size")
    batches = can_batch(interface)
    if not batches and written != 0:
        yield _cannot_batch(model, interface, written)
        return
    if batches and written == 0 and model.has("onnx_default_max_batch_size"):
        config.set("max_batch_size", max(model.options.default_max_batch_size, 0))
    size = config.number("max_batch_size")
    scheduled = config.message("dynamic_batching") is not None or config.message("sequence_batching") is not None
    if batches and size > 1 and not scheduled:
        config.set("dynamic_batching", Node("ModelDynamicBatching"))
    release = model.options.release
    if not config.given("input") and not config.given("batch_input"):
        config.set("input", [tensor_node("input", port, config, release) for port in interface.inputs])
    if not config.given("output"):
        config.set("output", [tensor_node("output", port, config, release) for port in interface.outputs])
    if written == 0 and size > 0:
        yield _raised(model, size)


def _broken(model: Model) -> Finding:
    """R184: observed with the C++ backend; strict mode loads the same config."""
    message = "auto-complete breaks a config that has a batch_input and leaves all outputs out"
    return model.error("R184", model.config, "batch_input", message, "write every output")


def _cannot_batch(model: Model, interface: Interface, written: int) -> Finding:
    ports = (*interface.inputs, *interface.outputs)
    culprit = next(port for port in ports if not model_dims(port) or model_dims(port)[0] != -1)
    shape = list(model_dims(culprit))
    message = (
        f"autofill failed: tensor {culprit.name!r} has shape {shape}, so the model does not support batching "
        f"while non-zero max_batch_size {written} is specified"
    )
    edits = replace_value(model.source, model.config, "max_batch_size", "0")
    return model.error("R188", model.config, "max_batch_size", message, "max_batch_size: 0", edits)


def _raised(model: Model, size: int) -> Finding:
    message = (
        f"max_batch_size 0 is raised to {size} by auto-complete because every tensor begins with a free axis; "
        "clients must then send that axis as the batch"
    )
    return model.warning("R186", model.config, "max_batch_size", message, "write every input and output")
