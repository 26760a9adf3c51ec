"""Sequence controls and states against an ONNX file (rules R228 and R229)."""

from __future__ import annotations

from collections.abc import Iterator

from aitune.triton.check import declared
from aitune.triton.check.edits import dims_text
from aitune.triton.check.finding import Finding
from aitune.triton.check.model import Model, Version
from aitune.triton.check.rules.sequence import CORRID_TYPES
from aitune.triton.check.tree import Node

__all__ = ["control_names", "controls", "states_of"]

_FALSE_TRUE = {"int32_false_true": "TYPE_INT32", "fp32_false_true": "TYPE_FP32", "bool_false_true": "TYPE_BOOL"}


def _sequence(config: Node) -> Node | None:
    return config.message("sequence_batching")


def states_of(config: Node) -> list[Node]:
    """States of the sequence batcher."""
    sequence = _sequence(config)
    return sequence.messages("state") if sequence is not None else []


def controls_of(config: Node) -> Iterator[tuple[Node, Node]]:
    """(control_input, control) pairs."""
    sequence = _sequence(config)
    for tensor in sequence.messages("control_input") if sequence is not None else ():
        for control in tensor.messages("control"):
            yield tensor, control


def control_names(config: Node) -> list[str]:
    """The control tensor of every control: one with two controls comes twice."""
    return [tensor.text("name") for tensor, _ in controls_of(config)]


def controls(model: Model, version: Version) -> Iterator[Finding]:
    """R228, R229: the model has every control tensor, of shape [1] a row and of the control's type."""
    batching = version.config.number("max_batch_size") > 0
    for tensor, control in controls_of(version.config):
        name = tensor.text("name")
        port = declared.port(version.interface, "input", name)
        if port is None:
            message = f"specified sequence control {name!r} but model does not provide that input"
            yield model.error("R228", tensor, "name", message)
            continue
        dims = declared.model_dims(port)
        if (dims[1:] if batching else dims) != (1,):
            message = f"sequence control {name!r} has dims {dims_text(dims)} but dims [1] is expected"
            yield model.error("R229", tensor, "name", message, "export the control as one number per row")
        written = _control_type(control)
        provided = declared.config_type(port, model.options.release)
        if written and written != provided:
            message = (
                f"sequence control {name!r}: the model expects data-type {provided.removeprefix('TYPE_') or 'unknown'} "
                f"but the model configuration specifies data-type {written.removeprefix('TYPE_')}"
            )
            yield model.error("R229", control, "data_type", message, f"use {provided}")


def _control_type(control: Node) -> str:
    """The type the control says it has; ``""`` when core refuses what it says anyway."""
    if control.choice("kind") == "CONTROL_SEQUENCE_CORRID":
        return control.choice("data_type") if control.choice("data_type") in CORRID_TYPES else ""
    return next((word for field, word in _FALSE_TRUE.items() if control.given(field)), "")
