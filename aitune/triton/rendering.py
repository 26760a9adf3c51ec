"""A plan written down twice: as text for people and as a protobuf message, and the proof that both say the same."""

from __future__ import annotations

from typing import Any

from aitune.triton.contract import parameter_name
from aitune.triton.datatypes import config_type
from aitune.triton.plan import Plan
from aitune.triton.plan_tensorrt import EnginePlan, GraphSpec
from aitune.triton.plan_tensors import PlannedTensor
from aitune.triton.plan_warmup import WarmupSample
from aitune.triton.schema import model_config, parse_config
from aitune.triton.templates import render_template

__all__ = ["FINGERPRINT_TAG", "OVERLAYS", "check_text", "message", "overlay", "render", "set_kind"]

FINGERPRINT_TAG = "aitune_fingerprint"
OVERLAYS = {"cpu": "KIND_CPU", "gpu": "KIND_GPU"}
"""Name of each overlay and the kind of instance it pins."""


def render(found: Plan) -> str:
    """The ``config.pbtxt`` of a plan, proved equal to its message."""
    text = render_template(
        "config.pbtxt.j2",
        plan=found,
        inputs=[_fields(tensor) for tensor in found.inputs],
        outputs=[_fields(tensor) for tensor in found.outputs],
        contract_key=parameter_name(found.version),
        fingerprint_tag=FINGERPRINT_TAG,
    )
    check_text(text, message(found))
    return text


def check_text(text: str, expected: Any) -> None:
    """Parse the text and demand that it says what the message says.

    Raises:
        RuntimeError: If it does not, which is a bug in the template or in :func:`message`.
    """
    found = parse_config(text)
    if found != expected:
        from aitune.triton.normalisation import compare  # only a bug needs it

        raise RuntimeError(f"the text of a config differs from its message: {'; '.join(compare(found, expected))}")


def message(found: Plan) -> Any:
    """The ``ModelConfig`` message of a plan."""
    config = model_config().ModelConfig(
        name=found.model_name,
        backend=found.backend,
        default_model_filename=found.filename,
        max_batch_size=found.max_batch_size,
    )
    config.version_policy.specific.versions.append(found.version)
    for tensor in found.inputs:
        _add_tensor(config.input.add(), tensor)
    for tensor in found.outputs:
        _add_tensor(config.output.add(), tensor)
    if found.batcher is not None:
        batcher = config.dynamic_batching
        batcher.preferred_batch_size.extend(found.batcher.preferred_batch_sizes)
        batcher.max_queue_delay_microseconds = found.batcher.max_queue_delay_us
        if found.batcher.max_queue_size is not None:
            batcher.default_queue_policy.max_queue_size = found.batcher.max_queue_size
    group = config.instance_group.add()
    group.kind, group.count = group.Kind.Value(found.kind), found.instance_count
    if found.engine is not None:
        _add_engine(config, group, found.engine, found)
    if found.graph_level is not None:
        config.optimization.graph.level = found.graph_level
    if found.accelerator is not None:
        added = config.optimization.execution_accelerators.gpu_execution_accelerator.add(name=found.accelerator.name)
        added.parameters.update(found.accelerator.parameters)
    for key, value in (*found.settings, (parameter_name(found.version), found.contract)):
        config.parameters[key].string_value = value
    for sample in found.warmup.samples:
        _add_warmup(config.model_warmup.add(), sample, found)
    config.metric_tags[FINGERPRINT_TAG] = found.identity[:12]
    return config


def overlay(text: str, target: str) -> str:
    """The text of a config with its instances pinned to ``"cpu"`` or ``"gpu"``, for ``configs/<target>.pbtxt`` (R33).

    The change is one word of the text; that nothing else changed is proved on the messages.
    """
    config = parse_config(text)
    kind = OVERLAYS[target]
    before = model_config().ModelInstanceGroup.Kind.Name(_only_group(config).kind)
    pinned = text.replace(f"    kind: {before}\n", f"    kind: {kind}\n", 1)
    set_kind(config, kind)
    check_text(pinned, config)
    return pinned


def set_kind(config: Any, kind: str) -> None:
    """Pin the one instance group of a config that aitune wrote."""
    group = _only_group(config)
    group.kind = group.Kind.Value(kind)


def _only_group(config: Any) -> Any:
    (group,) = config.instance_group
    return group


def _fields(tensor: PlannedTensor) -> dict[str, object]:
    return {
        "name": tensor.name,
        "data_type": config_type(tensor.dtype),
        "dims": tensor.dims,
        "reshape": tensor.reshape,
        "comment": tensor.comment,
        "shape_tensor": tensor.shape_tensor,
        "non_linear": tensor.non_linear,
    }


def _add_tensor(field: Any, tensor: PlannedTensor) -> None:
    field.name = tensor.name
    field.data_type = model_config().DataType.Value(config_type(tensor.dtype))
    field.dims.extend(tensor.dims)
    if tensor.reshape is not None:
        field.reshape.SetInParent()
        field.reshape.shape.extend(tensor.reshape)
    if tensor.shape_tensor:
        field.is_shape_tensor = True
    if tensor.non_linear:
        field.is_non_linear_format_io = True


def _add_engine(config: Any, group: Any, engine: EnginePlan, found: Plan) -> None:
    config.platform = engine.platform
    group.profile.extend(str(index) for index in engine.profiles)
    for capability, file in engine.files:
        config.cc_model_filenames[capability] = file or found.filename
    if engine.graphs:
        config.optimization.cuda.graphs = True
    for graph in engine.graphs:
        _add_graph(config.optimization.cuda.graph_spec.add(), graph, found)


def _add_graph(field: Any, graph: GraphSpec, found: Plan) -> None:
    field.batch_size = graph.batch_size
    for tensor, dims in zip(found.inputs, graph.dims, strict=True):
        field.input[tensor.name].dim.extend(dims)
        field.input[tensor.name].SetInParent()


def _add_warmup(field: Any, sample: WarmupSample, found: Plan) -> None:
    field.name, field.batch_size = sample.name, sample.batch_size
    for tensor, dims in zip(found.inputs, sample.dims, strict=True):
        value = field.inputs[tensor.name]
        value.data_type = model_config().DataType.Value(config_type(tensor.dtype))
        value.dims.extend(dims)
        value.zero_data = True
