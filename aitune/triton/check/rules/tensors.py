"""What core validates in inputs and outputs, whatever the backend (sections 3.2 and 3.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from aitune.triton.check import declared
from aitune.triton.check.edits import dims_text, remove_field, set_field
from aitune.triton.check.finding import Finding
from aitune.triton.check.grammar import ENUMS
from aitune.triton.check.model import Model, Version
from aitune.triton.check.tree import Node

__all__ = ["batch_inputs", "batch_outputs", "complete", "layout", "optional", "reshapes", "sizes", "special"]

_INT64_MAX = 2**63 - 1


def _label(kind: str, node: Node) -> str:
    return f"model {kind} {node.text('name')!r}"


def complete(model: Model, version: Version) -> Iterator[Finding]:
    """R82 to R84: name, type and dims are there."""
    for kind, node in model.tensors(version.config):
        if not node.text("name"):
            yield model.error("R82", node, "name", f"model {kind} must specify 'name'", 'name: "…"')
        if node.choice("data_type") == "TYPE_INVALID":
            better = _declared_type(model, version, kind, node)
            edits = set_field(model.source, node, "data_type", better) if better else ()
            message = f"{_label(kind, node)} must specify 'data_type'"
            yield model.error("R83", node, "data_type name", message, better, edits)
        if not node.numbers("dims"):
            better = _declared_dims(version, kind, node)
            edits = set_field(model.source, node, "dims", better) if better else ()
            message = f"{_label(kind, node)} must specify 'dims'; a scalar is dims: [ 1 ]"
            yield model.error("R84", node, "dims name", message, better, edits)


def _declared_type(model: Model, version: Version, kind: str, node: Node) -> str:
    port = declared.port(version.interface, kind, node.text("name"))
    word = declared.config_type(port, model.options.release) if port is not None else ""
    return f"data_type: {word}" if word else ""


def _declared_dims(version: Version, kind: str, node: Node) -> str:
    port = declared.port(version.interface, kind, node.text("name"))
    return f"dims: {dims_text(declared.wanted_dims(version.config, port))}" if port is not None else ""


def sizes(model: Model, version: Version) -> Iterator[Finding]:
    """R86 to R88, R96: every size is at least 1 or -1, and the product fits into 64 bits where that is checked."""
    for kind, node in model.tensors(version.config):
        dims, reshape = node.numbers("dims"), node.message("reshape")
        gist = "must be integer >= 1, or -1 to indicate a variable-size dimension"
        for size in dims:
            if size == 0 or size < -1:
                yield model.error("R86", node, "dims", f"{_label(kind, node)} has the dimension {size}: {gist}")
                break
        shape = reshape.numbers("shape") if reshape is not None else ()
        if reshape is not None and any(size == 0 or size < -1 for size in shape):
            message = f"{_label(kind, node)} reshape dimensions {gist}, got {dims_text(shape)}"
            yield model.error("R87", reshape, "shape", message)
        if model.has("shape_overflow_check"):
            yield from _overflow(model, kind, node, dims, reshape)


def _overflow(model: Model, kind: str, node: Node, dims: tuple[int, ...], reshape: Node | None) -> Iterator[Finding]:
    for rule, shape, checked in (
        ("R88", dims, reshape is not None),
        ("R88", reshape.numbers("shape") if reshape is not None else (), True),
        ("R96", dims, reshape is None and kind == "input"),
    ):
        if checked and math.prod(abs(size) for size in shape) > _INT64_MAX:
            yield model.error(rule, node, "dims", f"{_label(kind, node)}: {dims_text(shape)} exceeds maximum size")
            return


def reshapes(model: Model, version: Version) -> Iterator[Finding]:
    """R85, R89 to R91: what the client sends and what the backend gets hold the same number of elements."""
    for kind, node in model.tensors(version.config):
        reshape, dims = node.message("reshape"), node.numbers("dims")
        if reshape is None or not dims:
            continue
        shape = reshape.numbers("shape")
        if any(size == 0 or size < -1 for size in dims + shape):
            continue
        if not shape and version.config.number("max_batch_size") == 0:
            message = f"{_label(kind, node)} cannot have empty reshape for non-batching model"
            edits = remove_field(model.source, node, "reshape")
            yield model.error("R85", reshape, "shape", message, "remove reshape", edits)
            continue
        rule, gist = _reshape_fault(dims, shape)
        if rule:
            message = f"{_label(kind, node)} {gist}: {dims_text(dims)} and {dims_text(shape)}"
            yield model.error(rule, reshape, "shape", message)


def _reshape_fault(dims: tuple[int, ...], shape: tuple[int, ...]) -> tuple[str, str]:
    """Rule and gist of what is wrong with a reshape; empty when nothing is."""
    count = -1 if -1 in dims else math.prod(dims)
    reshaped = -1 if -1 in shape else math.prod(shape)
    if not shape and count == 1:
        return "", ""
    if not shape or _wrap(count) != _wrap(reshaped):
        return "R89", "has different size for dims and reshape"
    if dims.count(-1) != shape.count(-1):
        return "R90", "has different number of variable-size dimensions for dims and reshape"
    if -1 in dims and _runs(dims) != _runs(shape):
        return "R91", "has different size for dims and reshape between its variable-size dimensions"
    return "", ""


def _wrap(count: int) -> int:
    """Triton multiplies in 64 bits; counts beyond compare as what is left of them."""
    return (count + 2**63) % 2**64 - 2**63


def _runs(shape: tuple[int, ...]) -> list[int]:
    """Products of the sizes between the wildcards."""
    products = [1]
    for size in shape:
        if size == -1:
            products.append(1)
        else:
            products[-1] *= size
    return products


def layout(model: Model, version: Version) -> Iterator[Finding]:
    """R92: NHWC and NCHW are for three dims."""
    for node in version.config.messages("input"):
        if node.choice("format") in ("FORMAT_NHWC", "FORMAT_NCHW") and len(node.numbers("dims")) != 3:
            message = f"{_label('input', node)}: NHWC/NCHW require 3 dims, not {len(node.numbers('dims'))}"
            edits = remove_field(model.source, node, "format")
            yield model.error("R92", node, "format", message, "remove format", edits)


def special(model: Model, version: Version) -> Iterator[Finding]:
    """R93 to R95: shape tensors and non-linear formats exist in TensorRT only."""
    tensorrt = version.config.text("platform") == "tensorrt_plan"
    for kind, node in model.tensors(version.config):
        for field, rule, gist in (
            ("is_shape_tensor", "R93", "shape tensors are only supported for TensorRT platform"),
            ("is_non_linear_format_io", "R94", "Non-linear IO format is only supported for TensorRT platform"),
        ):
            if node.flag(field) and not tensorrt:
                edits = remove_field(model.source, node, field)
                yield model.error(rule, node, field, f"{_label(kind, node)}: {gist}", f"remove {field}", edits)
        if node.flag("is_non_linear_format_io") and tensorrt and len(node.numbers("dims")) != 3:
            message = f"{_label(kind, node)}: Non-linear IO format requires 3 dims"
            yield model.error("R95", node, "dims", message)


def optional(model: Model, version: Version) -> Iterator[Finding]:
    """R97: the backend must know optional inputs."""
    backend = version.config.text("backend")
    lacking = backend == "tensorrt" or (backend == "onnxruntime" and not model.has("onnx_optional_inputs"))
    for node in version.config.messages("input"):
        if node.flag("optional") and lacking:
            message = f"{_label('input', node)}: backend {backend!r} doesn't support optional input"
            edits = remove_field(model.source, node, "optional")
            yield model.error("R97", node, "optional", message, "remove optional", edits)


def batch_inputs(model: Model, version: Version) -> Iterator[Finding]:
    """R99 to R102: a batch input has one known source and a type it can be computed in."""
    config = version.config
    names = {node.text("name") for node in config.messages("input")}
    for node in config.messages("batch_input"):
        sources = node.texts("source_input")
        if len(sources) != 1:
            yield model.error("R99", node, "source_input", f"batch input expects 1 source input, got {len(sources)}")
        if node.choice("data_type") not in ("TYPE_INT32", "TYPE_FP32"):
            message = f"batch input data type must be TYPE_INT32 or TYPE_FP32, not {node.choice('data_type')}"
            yield model.error("R100", node, "data_type", message, "data_type: TYPE_FP32")
        for source in sources:
            if source not in names:
                message = f"unknown source input name {source!r}; inputs are {', '.join(sorted(names)) or 'none'}"
                yield model.error("R101", node, "source_input", message)
        if node.choice("kind") not in ENUMS["BatchInput.Kind"]:
            yield model.error("R102", node, "kind", f"unknown batch input kind {node.choice('kind')}")


def batch_outputs(model: Model, version: Version) -> Iterator[Finding]:
    """R102 to R105: a batch output has one known source and targets outputs, each once."""
    config = version.config
    inputs = {node.text("name") for node in config.messages("input")}
    outputs = {node.text("name") for node in config.messages("output")}
    for node in config.messages("batch_output"):
        sources, targets = node.texts("source_input"), node.texts("target_name")
        if len(sources) != 1:
            yield model.error("R103", node, "source_input", f"batch output expects 1 source input, got {len(sources)}")
        for source in sources:
            if source not in inputs:
                yield model.error("R101", node, "source_input", f"unknown source input name {source!r}")
        for index, target in enumerate(targets):
            if target not in outputs:
                yield model.error("R104", node, "target_name", f"unknown target output name {target!r}")
            if target in targets[:index]:
                yield model.error("R105", node, "target_name", f"target output {target!r} can only be specified once")
        if node.choice("kind") not in ENUMS["BatchOutput.Kind"]:
            yield model.error("R102", node, "kind", f"unknown batch output kind {node.choice('kind')}")
