"""The boundary of an exported graph: every input and output under the name it was promised.

Exporters call an output that is also an input ``x`` and the input ``x_orig``, give one value two roles, and accept an
output name that an internal value has already, which makes a file that no runtime loads. All of that is put right here,
before the file is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

__all__ = ["name_boundary", "unused_inputs"]


def name_boundary(model: ir.Model, inputs: Mapping[str, str], outputs: Sequence[str]) -> tuple[str, ...]:
    """Give inputs and outputs their names; any other value that has one of these gives way.

    Args:
        model: The graph; changed.
        inputs: Present name of each input, to its new name.
        outputs: New names, in order.

    Returns:
        The names that internal values had to give up.
    """
    graph = model.graph
    _separate_outputs(graph)
    wanted = {**{id(value): inputs[value.name or ""] for value in graph.inputs}}
    wanted |= {id(value): name for value, name in zip(graph.outputs, outputs, strict=True)}
    names = set(wanted.values())
    values = {id(value): value for value in _values(graph)}
    used = {value.name for value in values.values() if value.name} | names
    fresh = (name for number in itertools.count() if (name := f"internal_{number}") not in used)
    given_up = []
    for key, value in values.items():
        if value.name in names and wanted.get(key) != value.name:
            if key not in wanted:
                given_up.append(value.name)
            value.name = next(fresh)
    for key, name in wanted.items():
        values[key].name = name
    return tuple(sorted(given_up))


def unused_inputs(model: ir.Model) -> tuple[str, ...]:
    """Inputs that nothing in the graph refers to."""
    outputs = set(model.graph.outputs)
    return tuple(value.name or "" for value in model.graph.inputs if not value.uses() and value not in outputs)


def _separate_outputs(graph: ir.Graph) -> None:
    """A value of its own for every output: one that is an input, a weight or another output too is copied."""
    taken = {id(value) for value in graph.inputs} | {id(value) for value in graph.initializers.values()}
    for index, value in enumerate(graph.outputs):
        if id(value) in taken:
            node = ir.node("Identity", inputs=[value])
            copied = node.outputs[0]
            copied.shape, copied.type = value.shape, value.type
            graph.append(node)
            graph.outputs[index] = copied
            value = copied
        taken.add(id(value))


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Every value that a name in the main graph can mean, those of subgraphs included."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in ir.traversal.RecursiveGraphIterator(graph):
        yield from node.outputs
        for attribute in node.attributes.values():
            for subgraph in _subgraphs(attribute):
                yield from subgraph.inputs
                yield from subgraph.initializers.values()


def _subgraphs(attribute: ir.Attr) -> Sequence[ir.Graph]:
    if attribute.is_ref():
        return ()
    if attribute.type == ir.AttributeType.GRAPH:
        return (attribute.as_graph(),)
    return attribute.as_graphs() if attribute.type == ir.AttributeType.GRAPHS else ()
