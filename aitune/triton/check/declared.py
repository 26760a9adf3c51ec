"""The model file's side of the story, in the words of a config: its tensors as types, dims and stanzas."""

from __future__ import annotations

from aitune.records.dtypes import DType
from aitune.records.interface import Interface, Port
from aitune.triton.check.edits import dims_text
from aitune.triton.check.scalars import quote
from aitune.triton.check.tree import Node
from aitune.triton.datatypes import CONFIG_TYPES
from aitune.triton.releases import Release

__all__ = ["config_type", "model_dims", "port", "stanza", "tensor_node", "wanted_dims"]


def port(interface: Interface | None, kind: str, name: str) -> Port | None:
    """The ``"input"`` or ``"output"`` of that name; an initializer that may be overridden counts as an input."""
    if interface is None:
        return None
    ports = interface.outputs if kind == "output" else (*interface.inputs, *interface.initializers)
    return next((one for one in ports if one.name == name), None)


def config_type(port: Port, release: Release) -> str:
    """The config's word for the element type; ``""`` when the ONNX Runtime backend of this release has none."""
    if port.dtype is None or (port.dtype is DType.BFLOAT16 and not release.has("onnx_bf16")):
        return ""
    return CONFIG_TYPES[port.dtype]


def model_dims(port: Port) -> tuple[int, ...]:
    """Full shape with -1 where the size is free; a tensor of unknown rank looks like a scalar to Triton."""
    return tuple(size if isinstance(size, int) else -1 for size in port.shape or ())


def wanted_dims(config: Node, port: Port) -> tuple[int, ...]:
    """What ``dims`` should read beside the config's max_batch_size."""
    dims = model_dims(port)
    if config.number("max_batch_size") > 0 and dims:
        dims = dims[1:]
    return dims or (1,)


def tensor_node(kind: str, port: Port, config: Node, release: Release) -> Node:
    """The ``input`` or ``output`` that auto-complete would write."""
    node = Node.made(
        "ModelInput" if kind == "input" else "ModelOutput",
        name=port.name,
        data_type=config_type(port, release) or "TYPE_INVALID",
        dims=list(wanted_dims(config, port)),
    )
    if config.number("max_batch_size") > 0 and len(model_dims(port)) <= 1:
        node.set("reshape", Node("ModelTensorReshape"))
    return node


def stanza(kind: str, port: Port, config: Node, release: Release) -> str:
    """The tensor as config text."""
    needs_reshape = config.number("max_batch_size") > 0 and len(model_dims(port)) == 1
    lines = [
        f"name: {quote(port.name)}",
        f"data_type: {config_type(port, release) or 'TYPE_INVALID'}",
        f"dims: {dims_text(wanted_dims(config, port))}",
        *(["reshape: { shape: [ ] }"] if needs_reshape else []),
    ]
    return "\n".join([f"{kind} [", "  {", *(f"    {line}" for line in lines), "  }", "]"])
