"""Config against ONNX file, as the ONNX Runtime backend compares them (section 5)."""

from __future__ import annotations

from collections.abc import Iterator

from aitune.records.interface import Interface, Port
from aitune.triton.check import declared
from aitune.triton.check.edits import dims_text, remove_field, replace_value, set_field
from aitune.triton.check.finding import Edit, Finding
from aitune.triton.check.model import Model, Version
from aitune.triton.check.rules.onnx_controls import control_names, states_of
from aitune.triton.check.scalars import closest, quote
from aitune.triton.check.tree import Node

__all__ = [
    "ceilings",
    "input_count",
    "kinds",
    "names",
    "optional_inputs",
    "ragged",
    "scalars",
    "shapes",
    "types",
]


def _interface(version: Version) -> Interface:
    """The interface; rules of this module run only when there is one."""
    assert version.interface is not None
    return version.interface


def _overridable(interface: Interface) -> tuple[Port, ...]:
    """Initializers a request may replace; before IR version 4 all are constants."""
    return interface.initializers if interface.ir_version == 0 or interface.ir_version >= 4 else ()


def _targets(config: Node, field: str) -> set[str]:
    return {name for node in config.messages(field) for name in node.texts("target_name")}


def ceilings(model: Model, version: Version) -> Iterator[Finding]:
    """R213: the file is not newer than the release's ONNX Runtime."""
    interface, release = _interface(version), model.options.release
    file = f"{version.number}/{version.artifact.name}" if version.artifact is not None else ""
    runtime = f"ONNX Runtime {release.onnxruntime} of Triton {release.name}"
    if interface.ir_version > release.max_ir_version:
        message = f"IR version {interface.ir_version} is too new: {runtime} reads up to {release.max_ir_version}"
        yield model.at_file(
            "error", "R213", file, message, "export with an older IR version, or serve with a newer Triton"
        )
    limits = {"": release.max_opset, "ai.onnx": release.max_opset, "ai.onnx.ml": release.max_ml_opset}
    for domain, opset in interface.opset_imports:
        limit = limits.get(domain)
        if limit is not None and opset > limit:
            message = f"opset {opset} of {domain or 'ai.onnx'} is too new: {runtime} reads up to {limit}"
            yield model.at_file(
                "error", "R213", file, message, f"export with opset {limit}, or serve with a newer Triton"
            )


def kinds(model: Model, version: Version) -> Iterator[Finding]:
    """R215: everything at the boundary is a dense tensor, whether configured or not."""
    interface = _interface(version)
    for port in (*interface.inputs, *interface.outputs, *_overridable(interface)):
        if port.kind != "tensor":
            message = (
                f"{port.name!r} of the model is a {port.kind}: unsupported ONNX type 'ONNX_TYPE_{port.kind.upper()}', "
                "expected 'ONNX_TYPE_TENSOR'"
            )
            yield model.error("R215", model.config, "backend", message, "export the model without it")


def input_count(model: Model, version: Version) -> Iterator[Finding]:
    """R216, R217: as many required inputs are configured as the model has."""
    config, interface = version.config, _interface(version)
    inputs = config.messages("input")
    configured = sum(not node.flag("optional") for node in inputs) + len(config.messages("batch_input"))
    configured += len(control_names(config)) + len(states_of(config))
    required = {port.name for port in interface.inputs}
    if configured == len(required):
        return
    known = {node.text("name") for node in inputs if not node.flag("optional")} | set(control_names(config))
    known |= _targets(config, "batch_input") | {state.text("input_name") for state in states_of(config)}
    missing = [port for port in interface.inputs if port.name not in known]
    optional = [node for node in inputs if node.flag("optional") and node.text("name") in required]
    message = f"configuration expects {configured} inputs, model provides {len(required)}"
    if optional:
        names = ", ".join(repr(node.text("name")) for node in optional)
        edits = tuple(edit for node in optional for edit in remove_field(model.source, node, "optional"))
        yield model.error("R216", optional[0], "optional", f"{message}: {names} is required", "remove optional", edits)
        return
    if missing:
        names = ", ".join(repr(port.name) for port in missing)
        release = model.options.release
        fix = "\n".join(declared.stanza("input", port, config, release) for port in missing)
        edits = _append(model, fix) if all(declared.config_type(port, release) for port in missing) else ()
        yield model.error("R216", config, "input", f"{message}: {names} is missing", fix, edits)
        return
    listed = next((n for n in inputs if n.text("name") in {p.name for p in _overridable(interface)}), None)
    if listed is not None:
        edits = set_field(model.source, listed, "optional", "optional: true")
        also = f"{message}: {listed.text('name')!r} has a value in the model and must be marked optional"
        yield model.error("R217", listed, "name", also, "optional: true", edits)
        return
    yield model.error("R216", config, "input", message)


def _append(model: Model, text: str) -> tuple[Edit, ...]:
    if model.source is None:
        return ()
    end = len(model.source.text)
    gap = "" if model.source.text.endswith("\n") else "\n"
    return (Edit(end, end, f"{gap}{text}\n"),)


def names(model: Model, version: Version) -> Iterator[Finding]:
    """R218, R225: every configured name is one of the model's."""
    config, interface = version.config, _interface(version)
    allowed_inputs = [port.name for port in (*interface.inputs, *_overridable(interface))]
    for kind, rule, allowed in (
        ("input", "R218", allowed_inputs),
        ("output", "R225", [port.name for port in interface.outputs]),
    ):
        configured = {node.text("name") for node in config.messages(kind)}
        for node in config.messages(kind):
            name = node.text("name")
            if not name or name in allowed:
                continue
            better = _meant(name, [one for one in allowed if one not in configured])
            fix = f"name: {quote(better)}" if better else ""
            edits = replace_value(model.source, node, "name", quote(better)) if better else ()
            message = f"unexpected inference {kind} {name!r}, allowed {kind}s are: {', '.join(allowed) or 'none'}"
            yield model.error(rule, node, "name", message, fix, edits)


def _meant(name: str, free: list[str]) -> str:
    """The model's name that a configured one stands for: the only one left, or a near one."""
    same = [one for one in free if one.strip().lower() == name.strip().lower()]
    if same:
        return same[0]
    return free[0] if len(free) == 1 else closest(name, free)


def types(model: Model, version: Version) -> Iterator[Finding]:
    """R221, R226: the same element type on both sides."""
    release = model.options.release
    for kind, node in model.tensors(version.config):
        name, written = node.text("name"), node.choice("data_type")
        port = declared.port(version.interface, kind, name)
        if port is None or port.kind != "tensor" or written == "TYPE_INVALID":
            continue
        provided = declared.config_type(port, release)
        rule = "R221" if kind == "input" else "R226"
        if written == "TYPE_BF16" and not release.has("onnx_bf16"):
            message = f"unsupported datatype TYPE_BF16 for {kind} {name!r}: ONNX Runtime serves it from Triton 26.03 on"
            yield model.error(rule, node, "data_type", message, *_type_fix(model, node, provided))
        elif written != provided:
            shown = provided or f"TYPE_<invalid> ({port.element_type or 'unknown'})"
            message = f"configuration expects datatype {written} for {kind} {name!r}, model provides {shown}"
            yield model.error(rule, node, "data_type", message, *_type_fix(model, node, provided))


def _type_fix(model: Model, node: Node, provided: str) -> tuple[str, tuple[Edit, ...]]:
    if not provided:
        return "", ()
    text = f"data_type: {provided}"
    return text, set_field(model.source, node, "data_type", text)


def optional_inputs(model: Model, version: Version) -> Iterator[Finding]:
    """R219, R220: optional inputs exclude batching and ragged batches."""
    for node in version.config.messages("input"):
        if not node.flag("optional"):
            continue
        name = node.text("name")
        if version.config.number("max_batch_size") != 0:
            message = f"optional input {name!r} is not supported for models that support batching"
            yield model.error("R219", node, "optional", message, "leave the input out, or max_batch_size: 0")
        if node.flag("allow_ragged_batch"):
            message = f"allow_ragged_batch is not supported for optional input {name!r}"
            edits = remove_field(model.source, node, "allow_ragged_batch")
            yield model.error("R220", node, "allow_ragged_batch", message, "remove allow_ragged_batch", edits)


def ragged(model: Model, version: Version) -> Iterator[Finding]:
    """R222: a ragged input is one free axis in the model."""
    for node in version.config.messages("input"):
        port = declared.port(version.interface, "input", node.text("name"))
        if port is not None and node.flag("allow_ragged_batch") and declared.model_dims(port) != (-1,):
            shape = dims_text(declared.model_dims(port))
            message = f"ragged input {port.name!r} expects model provides input with shape [-1], it has {shape}"
            edits = remove_field(model.source, node, "allow_ragged_batch")
            yield model.error("R222", node, "allow_ragged_batch", message, "remove allow_ragged_batch", edits)


def scalars(model: Model, version: Version) -> Iterator[Finding]:
    """R224: a scalar of the model is 1 in every dim of the config."""
    if not model.has("onnx_scalar_check"):
        return
    for kind, node, port in _compared(model, version):
        if declared.model_dims(port) or not node.given("dims"):
            continue
        if any(size != 1 for size in _shape(node)):
            message = (
                f"scalar tensor {port.name!r} should only provide 1 in the model configuration, not "
                f"{dims_text(_shape(node))}"
            )
            if port.shape is None:
                message += "; the file gives it no shape, which Triton takes for a scalar"
            edits = set_field(model.source, node, "dims", "dims: [ 1 ]") if kind and not node.given("reshape") else ()
            yield model.error("R224", node, "dims", message, "dims: [ 1 ]", edits)


def shapes(model: Model, version: Version) -> Iterator[Finding]:
    """R223, R227: dims agree; an input may be narrower than the model, an output must repeat it exactly."""
    batching = version.config.number("max_batch_size") > 0
    for kind, node, port in _compared(model, version):
        provided = declared.model_dims(port)
        if not provided or not node.given("dims") or any(size == 0 or size < -1 for size in _shape(node)):
            continue
        if batching and provided[0] != -1:
            yield _not_batching(model, port, provided)
            continue
        full = (-1, *_shape(node)) if batching else _shape(node)
        if not _agree(kind, provided, full):
            yield _mismatch(model, version, node, port, full)


def _compared(model: Model, version: Version) -> Iterator[tuple[str, Node, Port]]:
    """Configured tensors whose dims the backend compares, with the model's side."""
    produced = _targets(version.config, "batch_output")
    for kind, node in model.tensors(version.config):
        port = declared.port(version.interface, kind, node.text("name"))
        exempt = node.flag("allow_ragged_batch") if kind == "input" else node.text("name") in produced
        if port is not None and port.kind == "tensor" and not exempt:
            yield kind, node, port


def _shape(node: Node) -> tuple[int, ...]:
    reshape = node.message("reshape")
    return reshape.numbers("shape") if reshape is not None else node.numbers("dims")


def _agree(kind: str, provided: tuple[int, ...], full: tuple[int, ...]) -> bool:
    if len(provided) != len(full):
        return False
    pairs = zip(provided, full, strict=True)
    return all(have == want or (kind == "input" and have == -1) for have, want in pairs)


def _not_batching(model: Model, port: Port, provided: tuple[int, ...]) -> Finding:
    message = (
        f"tensor {port.name!r}: for the model to support batching the shape should have at least 1 dimension and "
        f"the first dimension must be -1; the model's shape is {dims_text(provided)}"
    )
    edits = replace_value(model.source, model.config, "max_batch_size", "0")
    return model.error("R223", model.config, "max_batch_size", message, "max_batch_size: 0, with full shapes", edits)


def _mismatch(model: Model, version: Version, node: Node, port: Port, full: tuple[int, ...]) -> Finding:
    provided = declared.model_dims(port)
    wanted = f"dims: {dims_text(declared.wanted_dims(version.config, port))}"
    message = (
        f"tensor {port.name!r}: the model expects {len(provided)} dimensions (shape {dims_text(provided)}) but the "
        f"model configuration specifies {len(full)} dimensions (shape {dims_text(full)})"
    )
    reshape = node.message("reshape")
    if reshape is not None:
        return model.error("R223", reshape, "shape", message, f"{wanted}, without reshape")
    edits = set_field(model.source, node, "dims", wanted)
    if version.config.number("max_batch_size") > 0 and len(provided) == 1:
        wanted += " reshape: { shape: [ ] }"
        edits = set_field(model.source, node, "dims", wanted)
    return model.error("R223", node, "dims", message, wanted, edits)
