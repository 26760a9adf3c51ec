"""The one table of rules: what is checked, in which stage, under which ids.

A rule is a small function that yields findings. Adding one is one function, one row here, one line in ``rules.txt``
(its text for people) and one case in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from aitune.triton.check import artifact
from aitune.triton.check.finding import Finding
from aitune.triton.check.model import Model, Version
from aitune.triton.check.rules import (
    advice,
    core,
    demand,
    ensemble,
    files,
    instances,
    members,
    onnx,
    onnx_controls,
    onnx_settings,
    others,
    python,
    record,
    sequence,
    tensorrt,
    tensorrt_plan,
    tensors,
    warmup,
)
from aitune.triton.check.rules.members import Member

__all__ = [
    "CONFIG",
    "ENSEMBLE",
    "INTERFACE",
    "ONNX",
    "OTHERS",
    "PYTHON",
    "TENSORRT",
    "TENSORRT_CONFIG",
    "VERSION",
    "Row",
]

ModelRule: TypeAlias = Callable[[Model], Iterator[Finding]]
VersionRule: TypeAlias = Callable[[Model, Version], Iterator[Finding]]
EnsembleRule: TypeAlias = Callable[[Model, Mapping[str, Member]], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Row:
    """One rule.

    Attributes:
        check: The function.
        ids: Ids its findings may carry.
    """

    check: Callable[..., Iterator[Finding]]
    ids: tuple[str, ...]


def _rows(*pairs: tuple[Callable[..., Iterator[Finding]], str]) -> tuple[Row, ...]:
    return tuple(Row(check, tuple(ids.split())) for check, ids in pairs)


CONFIG = _rows(
    (core.name_matches, "R29"),
    (core.platform_pair, "R54 R55 R56 R174"),
    (core.batch_size, "R57"),
    (core.preferred_sizes, "R58 R59"),
    (core.priorities, "R61 R62"),
    (core.queue_order, "R63 R64"),
    (core.cache, "R65 R80"),
    (core.metrics, "R81"),
    (core.agents, "R7 R36"),
    (sequence.controls, "R66 R67 R68 R69 R70 R71 R72 R73"),
    (sequence.slots, "R74 R75"),
    (sequence.states, "R153 R154 R155 R156 R157 R158 R159 R160 R161 R50"),
    (ensemble.scheduling, "R77 R78"),
    (ensemble.forbidden, "R122 R123 R124"),
    (ensemble.mapping, "R125 R126 R127"),
    (ensemble.data_flow, "R128 R129 R130 R131"),
    (instances.backend_library, "R106"),
    (instances.groups, "R109 R110 R111 R112 R114"),
    (instances.profiles, "R115 R116"),
    (python.directory_name, "R13 R30"),
    (python.settings, "R210"),
    (advice.batches_never_form, "R60"),
    (advice.priorities_unused, "R62"),
    (advice.counts, "R117 R118"),
    (advice.pinned_memory, "R178"),
    (advice.repeated_keys, "R24"),
    (advice.placeholders, "R22"),
    (advice.unknown_types, "R18"),
    (advice.parameter_names, "R242"),
    (advice.gpu_accelerators, "R244"),
    (advice.skipped_samples, "R144"),
    (advice.state_memory, "R162"),
    (advice.unproved_latest, "A5"),
    (demand.instances, "A7"),
)
"""Rules on the config of any model, after the server filled in name and backend."""

VERSION = _rows(
    (tensors.complete, "R82 R83 R84"),
    (tensors.sizes, "R86 R87 R88 R96"),
    (tensors.reshapes, "R85 R89 R90 R91"),
    (tensors.layout, "R92"),
    (tensors.special, "R93 R94 R95"),
    (tensors.optional, "R97"),
    (tensors.batch_inputs, "R99 R100 R101 R102"),
    (tensors.batch_outputs, "R101 R102 R103 R104 R105"),
    (files.labels, "R48"),
    (files.batch_library, "R51"),
    (warmup.batches, "R150"),
    (warmup.data, "R145 R146 R147 R148 R49"),
    (warmup.inputs, "R148 R149 R152"),
    (warmup.requests, "R148"),
    (advice.duplicates, "R98"),
    (record.stale, "A4"),
    (demand.sequence_slots, "A7"),
    (demand.warmup_samples, "A7"),
    (demand.warmup_runs, "A7"),
    (demand.initial_states, "A7"),
)
"""Rules on a version of any backend, after auto-complete."""

ONNX = _rows(
    (onnx_settings.parameters, "R231 R232 R233 R234 R235 R238 R239 R240 R241"),
    (onnx_settings.accelerators, "R245 R246 R247 R248"),
    (onnx_settings.libraries, "R249"),
    (demand.threads, "A7"),
)
"""Rules on the config of an ONNX Runtime model."""

INTERFACE = _rows(
    (onnx.ceilings, "R213"),
    (onnx.kinds, "R215"),
    (onnx.input_count, "R216 R217"),
    (onnx.names, "R218 R225"),
    (onnx.types, "R221 R226"),
    (onnx.optional_inputs, "R219 R220"),
    (onnx.ragged, "R222"),
    (onnx.scalars, "R224"),
    (onnx.shapes, "R223"),
    (onnx_controls.controls, "R228 R229"),
    (artifact.companions, "R212"),
    (advice.stand_ins, "R216"),
    (advice.state_names, "R230"),
)
"""Rules that compare a version with what its ONNX file declares."""

OTHERS = _rows(
    (others.file, "R45"),
)
"""Rules on a version of a backend whose files nobody here can open."""

PYTHON = _rows((python.file, "R12"), (python.source, "R203"))
"""Rules on a version of a Python model."""

TENSORRT_CONFIG = _rows(
    (tensorrt.device, "R250 R254"), (tensorrt.settings, "R256 R257"), (tensorrt.graphs, "R283 R284 R285 R286 R287")
)
"""Rules on the config of a TensorRT model."""

TENSORRT = _rows(
    (tensorrt.names, "R193 R259 R260 R262"),
    (tensorrt.bound, "R261"),
    (tensorrt.types, "R263"),
    (tensorrt.shapes, "R267 R269"),
    (tensorrt_plan.library, "R252 R253"),
    (tensorrt_plan.profiles, "R199 R268 R280 R294"),
    (tensorrt_plan.shape_tensors, "R264 R270 R271 R272"),
    (tensorrt_plan.layouts, "R265"),
)
"""Rules that compare a version with its TensorRT plan."""

ENSEMBLE = _rows(
    (members.loaded, "R132 R134 R135"),
    (members.circles, "R133"),
    (members.batching, "R136"),
    (members.wiring, "R137 R138 R139"),
    (members.tensors, "R140 R141"),
    (members.decoupled, "R142"),
)
"""Rules on an ensemble and its members, after all models were judged."""
