"""The sequence batcher: controls, batch sizes, states (sections 3.1 and 3.7)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from aitune.triton.check.finding import Finding
from aitune.triton.check.folder import FILE, inside, joined, kind_of
from aitune.triton.check.model import Model
from aitune.triton.check.rules.core import sizes_in_range
from aitune.triton.check.tree import Node

__all__ = ["BYTES", "CORRID_TYPES", "control_values", "controls", "data_file_fault", "slots", "states"]

_LISTS = ("int32_false_true", "fp32_false_true", "bool_false_true")
_CORRID = "CONTROL_SEQUENCE_CORRID"
CORRID_TYPES = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")

BYTES = {
    "TYPE_BOOL": 1, "TYPE_UINT8": 1, "TYPE_INT8": 1,
    "TYPE_UINT16": 2, "TYPE_INT16": 2, "TYPE_FP16": 2, "TYPE_BF16": 2,
    "TYPE_UINT32": 4, "TYPE_INT32": 4, "TYPE_FP32": 4,
    "TYPE_UINT64": 8, "TYPE_INT64": 8, "TYPE_FP64": 8,
}  # fmt: skip
"""Bytes of one element; strings and invalid types have none."""


def _sequence(model: Model) -> Node | None:
    return model.config.message("sequence_batching")


def controls(model: Model) -> Iterator[Finding]:
    """R66 to R68: control tensors have names, and no name and no kind comes twice."""
    sequence = _sequence(model)
    seen_names: set[str] = set()
    seen_kinds: set[str] = set()
    for tensor in sequence.messages("control_input") if sequence is not None else ():
        name = tensor.text("name")
        if not name:
            yield model.error("R66", tensor, "name", "sequence batching control tensor must have a name")
        elif name in seen_names:
            message = f"sequence batching control tensor {name!r} is specified for multiple control kinds"
            yield model.error("R67", tensor, "name", message)
        seen_names.add(name)
        for control in tensor.messages("control"):
            kind = control.choice("kind")
            if kind in seen_kinds:
                yield model.error("R68", control, "kind", f"sequence batching specifies multiple {kind} tensors")
            seen_kinds.add(kind)
            yield from control_values(model, control, kind)


def control_values(model: Model, control: Node, kind: str) -> Iterator[Finding]:
    """R69 to R73: a flag has one pair of values, a correlation id has a type."""
    given = [field for field in _LISTS if control.given(field)]
    if kind == _CORRID:
        data_type = control.choice("data_type")
        if data_type not in CORRID_TYPES:
            message = f"unexpected data type {data_type} for control {kind}; allowed are {', '.join(CORRID_TYPES)}"
            yield model.error("R72", control, "data_type", message, "data_type: TYPE_UINT64")
        if given:
            message = f"sequence batching must not specify either {' or '.join(_LISTS)} for {kind}"
            yield model.error("R73", control, given[0], message, f"remove {given[0]}")
        return
    if not given:
        message = f"sequence batching must specify either {' or '.join(_LISTS)} for {kind}"
        yield model.error("R69", control, "kind", message, "fp32_false_true: [ 0, 1 ]")
    elif len(given) > 1:
        message = f"sequence batching specifies more than one from {', '.join(given)} for {kind}"
        yield model.error("R70", control, given[1], message, f"keep {given[0]}")
    elif len(control.items(given[0])) != 2:
        message = f"sequence batching control {given[0]!r} must have exactly 2 entries for {kind}"
        yield model.error("R71", control, given[0], message, f"{given[0]}: [ 0, 1 ]")


def slots(model: Model) -> Iterator[Finding]:
    """R74, R75: settings of the oldest and the direct strategy."""
    sequence = _sequence(model)
    if sequence is None:
        return
    oldest, direct = sequence.message("oldest"), sequence.message("direct")
    if oldest is not None:
        yield from sizes_in_range(model, oldest, "R74", "R74", "sequence batching preferred batch size")
    share = direct.real("minimum_slot_utilization") if direct is not None else 0.0
    if direct is not None and (share < 0.0 or share > 1.0):
        message = f"sequence batching minimum slot utilization is {share:g}: it must be in range [0.0, 1.0]"
        yield model.error("R75", direct, "minimum_slot_utilization", message)


def states(model: Model) -> Iterator[Finding]:
    """R153 to R161, R50: initial states fit their states, and their files are there."""
    sequence = _sequence(model)
    initialised: set[str] = set()
    for state in sequence.messages("state") if sequence is not None else ():
        initial = state.messages("initial_state")
        if len(initial) > 1:
            message = "initial_state field must contain exactly one or zero element"
            yield model.error("R153", state, "initial_state", message, "keep one")
        if len(initial) != 1:
            continue
        name = state.text("input_name")
        if name in initialised:
            yield model.error("R156", state, "input_name", f"sequence state input {name!r} is specified more than once")
        initialised.add(name)
        yield from _initial(model, state, initial[0])


def _initial(model: Model, state: Node, initial: Node) -> Iterator[Finding]:
    wanted, dims = state.numbers("dims"), initial.numbers("dims")
    if initial.choice("data_type") != state.choice("data_type"):
        message = (
            f"the data type {initial.choice('data_type')} of 'initial_state' does not match the state data type "
            f"{state.choice('data_type')}"
        )
        fix = f"data_type: {state.choice('data_type')}"
        yield model.error("R154", initial, "data_type", message, fix)
    if not initial.text("name"):
        yield model.error("R155", initial, "name", "field 'name' must be set when using initial_state", 'name: "…"')
    if len(dims) != len(wanted):
        message = f"number of dimensions in 'initial_state' doesn't match the state: {len(dims)}, not {len(wanted)}"
        yield model.error("R157", initial, "dims", message)
    elif any(size < 0 for size in dims):
        message = "'initial_state' field contains variable dimensions"
        yield model.error("R158", initial, "dims", message, "give every dimension a size")
    elif any(want != -1 and have != want for have, want in zip(dims, wanted, strict=True)):
        message = f"'initial_state' dims {list(dims)} don't match 'state' dim description {list(wanted)}"
        yield model.error("R159", initial, "dims", message)
    if not initial.given("zero_data") and not initial.given("data_file"):
        message = "initial state expects to have state_data set"
        yield model.error("R160", initial, "name", message, "zero_data: true")
    file = initial.text("data_file")
    if file and not any(size < 0 for size in dims):
        need = BYTES.get(initial.choice("data_type"), 0) * math.prod(dims)
        rule, fault = data_file_fault(model, joined(model.folder.path / "initial_state", file), need, "R50", "R161")
        if fault:
            yield model.error(rule, initial, "data_file", fault)


def data_file_fault(model: Model, path: Path, need: int, absent: str, short: str) -> tuple[str, str]:
    """Rule and message of what is wrong with a file of tensor bytes; empty when nothing is."""
    shown = path.relative_to(model.folder.path)
    if not inside(model.root, path):
        return "", ""
    if kind_of(path) != FILE:
        return absent, f"failed to open text file for read: {shown} is not a file of the model"
    if not os.access(path, os.R_OK):
        return absent, f"failed to open text file for read: {shown} may not be read"
    size = path.stat().st_size
    if size < need:
        return short, f"{shown} has {size} bytes, the setting expects {need} bytes"
    return "", ""
