"""TensorRT models, as far as config, header, record and interface tell without the engine's own library (section 6)."""

from __future__ import annotations

from collections.abc import Iterator

from aitune.records.dtypes import DType
from aitune.triton.check import declared
from aitune.triton.check.edits import dims_text, set_field
from aitune.triton.check.finding import ERROR, Edit, Finding
from aitune.triton.check.folder import FILE, inside, joined, kind_of
from aitune.triton.check.model import Model, Version
from aitune.triton.check.rules.tensorrt_plan import plan_files
from aitune.triton.check.tree import Node
from aitune.triton.datatypes import CONFIG_TYPES

__all__ = ["bound", "device", "file", "graphs", "names", "settings", "shapes", "types"]

_TYPES = {
    DType.FLOAT32: "", DType.FLOAT16: "", DType.INT8: "", DType.INT32: "", DType.BOOL: "",
    DType.BFLOAT16: "tensorrt_bf16", DType.UINT8: "tensorrt_uint8", DType.INT64: "tensorrt_int64",
}  # fmt: skip


def device(model: Model) -> Iterator[Finding]:
    """R250, R254: TensorRT needs a GPU; at most one DLA core beside it."""
    groups = model.config.messages("instance_group")
    multi = model.has("tensorrt_multi_device") and _parameter(model, "enable_multi_device").lower() in ("true", "1")
    for index, kind in enumerate(model.group_kinds()):
        node = groups[index] if groups else None
        if kind != "KIND_GPU" and not (multi and kind == "KIND_MODEL"):
            message = f"TensorRT backend supports only GPU device, the instance is {kind}"
            fix = "serve it on a host with a GPU"
            edits: tuple[Edit, ...] = ()
            if model.serves_gpu and node is not None and node.choice("kind") != "KIND_AUTO":
                fix = "kind: KIND_GPU"
                edits = set_field(model.source, node, "kind", fix)
            yield model.error("R250", node, "kind backend", message, fix, edits)
    for group in groups:
        devices = group.messages("secondary_devices")
        if len(devices) > 1:
            message = "TensorRT models must have either zero or one secondary devices"
            yield model.error("R254", group, "secondary_devices", message)
        for one in devices:
            if one.choice("kind") != "KIND_NVDLA":
                yield model.error("R254", one, "kind", "secondary device must be KIND_NVDLA", "kind: KIND_NVDLA")


def file(model: Model, version: Version) -> Iterator[Finding]:
    """R251: the plans are there."""
    name, *named = plan_files(version)
    for one in (name, *named):
        path, shown = joined(version.path, one), f"{version.number}/{one}"
        if not inside(model.root, path):
            continue
        if kind_of(path) != FILE:
            if one == name and named:
                continue
            message = f"unable to find {shown!r} for the model"
            yield model.at_file(ERROR, "R251", shown, message, f"put the plan at {model.name}/{shown}")
            continue
        version.artifact = version.artifact or path


def _parameter(model: Model, name: str) -> str:
    entry = model.config.map("parameters").get(name)
    holder = entry.message("value") if entry is not None else None
    return holder.text("string_value") if holder is not None else ""


def settings(model: Model) -> Iterator[Finding]:
    """R256, R257: parameters of the backend."""
    entry = model.config.map("parameters").get("execution_context_allocation_strategy")
    text = _parameter(model, "execution_context_allocation_strategy")
    allowed = ("STATIC", "ON_PROFILE_CHANGE")
    if entry is not None and model.has("tensorrt_allocation_strategy") and text not in allowed:
        message = f"invalid execution_context_allocation_strategy {text!r}: supported values are {', '.join(allowed)}"
        yield model.error("R256", entry.message("value") or entry, "string_value", message, 'string_value: "STATIC"')
    if not model.has("tensorrt_multi_device"):
        return
    if _parameter(model, "enable_multi_device").lower() not in ("true", "1"):
        return
    holder = model.config.map("parameters")["enable_multi_device"]
    gpus = [part.strip() for part in _parameter(model, "multi_device_gpus").split(",") if part.strip()]
    if len(gpus) < 2 or not all(part.isdigit() for part in gpus):
        message = "enable_multi_device needs multi_device_gpus with at least two GPU ids separated by commas"
        yield model.error("R257", holder, "key", message)
    if any(kind != "KIND_MODEL" for kind in model.group_kinds()):
        yield model.error("R257", holder, "key", "enable_multi_device needs KIND_MODEL", "kind: KIND_MODEL")


def names(model: Model, version: Version) -> Iterator[Finding]:
    """R193, R259, R260, R262: configured tensors are the engine's, each once."""
    interface = version.interface
    if interface is None:
        return
    inputs = version.config.messages("input")
    if len(inputs) > len(interface.inputs):
        message = f"configuration expects {len(inputs)} inputs, model provides at most {len(interface.inputs)}"
        yield model.error("R259", version.config, "input", message)
    seen: set[str] = set()
    for kind, node in model.tensors(version.config):
        name = node.text("name")
        ports = interface.inputs if kind == "input" else interface.outputs
        if name not in {port.name for port in ports}:
            allowed = ", ".join(port.name for port in ports)
            message = f"unexpected inference {kind} {name!r}, allowed {kind}s are: {allowed}"
            yield model.error("R193" if not model.options.strict else "R260", node, "name", message)
        if name in seen:
            yield model.error("R262", node, "name", f"{name!r} has already appeared as an input or output")
        seen.add(name)


def bound(model: Model, version: Version) -> Iterator[Finding]:
    """R261: every tensor of the engine is bound; auto-complete fills empty lists only."""
    interface, config = version.interface, version.config
    if interface is None:
        return
    sequence = config.message("sequence_batching")
    known = {node.text("name") for _, node in model.tensors(config)}
    known |= {name for node in config.messages("batch_input") for name in node.texts("target_name")}
    if sequence is not None:
        known |= {tensor.text("name") for tensor in sequence.messages("control_input")}
        for state in sequence.messages("state"):
            known |= {state.text("input_name"), state.text("output_name")}
    for kind, ports in (("input", interface.inputs), ("output", interface.outputs)):
        if not config.given(kind) and not model.options.strict:
            continue
        for port in ports:
            if port.name not in known:
                message = f"expected configuration for {kind} {port.name!r}"
                fix = declared.stanza(kind, port, config, model.options.release)
                yield model.error("R261", config, kind, message, fix)


def types(model: Model, version: Version) -> Iterator[Finding]:
    """R263: types agree, and are ones that TensorRT has."""
    for kind, node in model.tensors(version.config):
        port = declared.port(version.interface, kind, node.text("name"))
        if port is None or port.dtype is None or not node.given("data_type"):
            continue
        behaviour = _TYPES.get(port.dtype)
        provided = CONFIG_TYPES[port.dtype] if behaviour is not None else ""
        if behaviour and not model.has(behaviour):
            provided = ""
        if provided != node.choice("data_type"):
            message = (
                f"unexpected datatype {node.choice('data_type')} for inference {kind} {port.name!r}, expecting "
                f"{provided or 'none that this release serves'}"
            )
            text = f"data_type: {provided}" if provided else ""
            edits = set_field(model.source, node, "data_type", text) if text else ()
            yield model.error("R263", node, "data_type", message, text, edits)


def shapes(model: Model, version: Version) -> Iterator[Finding]:
    """R267, R269: rank and fixed sizes agree; a free axis on either side agrees with anything."""
    batching = version.config.number("max_batch_size") > 0
    for kind, node in model.tensors(version.config):
        port = declared.port(version.interface, kind, node.text("name"))
        if port is None or port.shape is None or node.flag("is_shape_tensor") or not node.given("dims"):
            continue
        reshape = node.message("reshape")
        dims = reshape.numbers("shape") if reshape is not None else node.numbers("dims")
        provided = declared.model_dims(port)
        if kind == "input" and node.flag("allow_ragged_batch"):
            if len(provided) != 1 or provided[0] != dims[0]:
                message = f"for the model to support ragged input {port.name!r} the engine's shape must be [-1]"
                yield model.error("R269", node, "allow_ragged_batch", message)
            continue
        full = (-1, *dims) if batching else dims
        pairs = list(zip(full, provided, strict=False))
        if len(full) != len(provided) or any(a != b and -1 not in (a, b) for a, b in pairs):
            message = (
                f"tensor {port.name!r}: the model expects {len(provided)} dimensions (shape {dims_text(provided)}) but "
                f"the model configuration specifies {len(full)} dimensions (shape {dims_text(full)})"
            )
            text = f"dims: {dims_text(declared.wanted_dims(version.config, port))}"
            edits = set_field(model.source, node, "dims", text) if reshape is None else ()
            yield model.error("R267", node, "dims", message, text, edits)


def graphs(model: Model) -> Iterator[Finding]:
    """R283 to R287: specs of CUDA graphs fit the batch size and each other."""
    optimization = model.config.message("optimization")
    cuda = optimization.message("cuda") if optimization is not None else None
    if cuda is None or not cuda.flag("graphs"):
        return
    size = model.config.number("max_batch_size")
    for spec in cuda.messages("graph_spec"):
        lower = spec.message("graph_lower_bound")
        for node in (spec, lower) if lower is not None else (spec,):
            batch = node.number("batch_size")
            if size == 0 and batch != 0:
                message = f"graph spec expects 'batch_size' to be 0, got {batch}"
                yield model.error("R283", node, "batch_size", message, "batch_size: 0")
            elif size > 0 and not 1 <= batch <= size:
                message = f"graph spec expects 'batch_size' to be >= 1 and <= {size}, got {batch}"
                yield model.error("R284", node, "batch_size", message)
            yield from _negative(model, node)
        if lower is not None:
            yield from _lower_bound(model, spec, lower)


def _dims(node: Node) -> dict[str, tuple[int, ...]]:
    found = {}
    for key, entry in node.map("input").items():
        shape = entry.message("value")
        found[str(key)] = shape.numbers("dim") if shape is not None else ()
    return found


def _negative(model: Model, node: Node) -> Iterator[Finding]:
    for name, dims in _dims(node).items():
        if any(size < 0 for size in dims):
            yield model.error("R287", node, "input", f"graph spec expects input {name!r} to have dimension >= 0")


def _lower_bound(model: Model, spec: Node, lower: Node) -> Iterator[Finding]:
    if lower.number("batch_size") > spec.number("batch_size"):
        message = "graph lower bound expects 'batch_size' to be <= graph spec 'batch_size'"
        yield model.error("R285", lower, "batch_size", message)
    bounds = _dims(lower)
    for name, dims in _dims(spec).items():
        low = bounds.get(name)
        if low is None:
            yield model.error("R286", lower, "input", f"graph lower bound expects shape for input {name!r}")
        elif len(low) != len(dims):
            yield model.error("R286", lower, "input", f"graph lower bound expects {name!r} to have {len(dims)} dims")
        elif any(a > b for a, b in zip(low, dims, strict=True)):
            yield model.error(
                "R286", lower, "input", f"graph lower bound expects {name!r} to have dimension <= the spec's"
            )
