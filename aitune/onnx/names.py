"""Names of values in an ONNX file: renaming them everywhere at once, and repairing a name that two values share.

Weights in other files stay where they are: nothing here reads them, and the file is written without them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from aitune.errors import SourceError, UsageError
from aitune.onnx.opening import opened
from aitune.records.fingerprints import write_atomically

__all__ = ["rename_values", "repair_duplicates"]


def rename_values(path: Path, names: Mapping[str, str]) -> None:
    """Give inputs and outputs of a model other names, in place.

    All renames happen at once, so two names can be exchanged. A reference from a subgraph follows. Where an internal
    value already has a new name, it is the internal value that gives way.

    Args:
        path: The model file; replaced atomically.
        names: Present name to new name.

    Raises:
        SourceError: If the file cannot be read as ONNX or holds training graphs.
        UsageError: If a present name is no input or output, or two inputs or outputs would get one name.
    """
    model = _load(path)
    boundary = [value.name for value in (*model.graph.input, *model.graph.output)]
    _check_names(path, boundary, names)
    taken = _all_names(model.graph)
    mapping = {old: new for old, new in names.items() if old != new}
    fresh = _Fresh(taken | set(mapping.values()))
    for new in set(mapping.values()) & taken - set(mapping):
        mapping[new] = fresh.like(new)
    for graph in _graphs(model.graph):
        _substitute(graph, mapping)
    _write(path, model)


def repair_duplicates(path: Path) -> dict[str, str]:
    """Give each value of the main graph a name of its own, in place; an output keeps its name.

    Exporters that let the caller choose output names can call two values the same, and no runtime loads such a file.
    A reference means the latest definition before it. Of several definitions of an output's name the output is the
    last one that nothing refers to, or else the last.

    Args:
        path: The model file; replaced atomically, and only when something had to be repaired.

    Returns:
        Name that was shared to the name an internal value has now (of several the last); empty when all was well.

    Raises:
        SourceError: If the file cannot be read as ONNX, or an input has the name of an output.
    """
    model = _load(path)
    graph = model.graph
    shared = _shared_names(path, graph)
    fresh = _Fresh(_all_names(graph))
    repaired = {name: _separate(graph, name, fresh) for name in shared}
    if repaired:
        _write(path, model)
    return repaired


class _Fresh:
    """Names that nothing has yet."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = set(taken)

    def like(self, name: str) -> str:
        found = next(f"{name}_{count}" for count in itertools.count(1) if f"{name}_{count}" not in self._taken)
        self._taken.add(found)
        return found


def _load(path: Path) -> Any:
    with opened(path):
        pass  # says in one line what is wrong with the file
    try:
        model = onnx.load(str(path), load_external_data=False)
    except DecodeError as error:
        raise SourceError(f"model {str(path)!r} cannot be decoded: {error}", hint="export it again") from error
    if model.training_info:
        raise SourceError(f"model {str(path)!r} holds training graphs", hint="export it for inference only")
    return model


def _write(path: Path, model: Any) -> None:
    """Replace the file: at any moment it is the old one or the complete new one."""
    write_atomically(path, model.SerializeToString(), mode=path.stat().st_mode & 0o777)


def _check_names(path: Path, boundary: list[str], names: Mapping[str, str]) -> None:
    unknown = [name for name in names if name not in boundary]
    if unknown:
        raise UsageError(
            f"{unknown[0]!r} is no input or output of {str(path)!r}",
            hint=f"it has: {', '.join(dict.fromkeys(boundary))}",
        )
    blank = [old for old, new in names.items() if not new.strip()]
    if blank:
        raise UsageError(f"the new name of {blank[0]!r} is blank")
    renamed = Counter(names.get(name, name) for name in dict.fromkeys(boundary))
    twice = [name for name, count in renamed.items() if count > 1]
    if twice:
        raise UsageError(f"two inputs or outputs of {str(path)!r} would be called {twice[0]!r}")


def _graphs(graph: Any) -> Iterator[Any]:
    """The graph and every graph inside it."""
    yield graph
    for node in graph.node:
        for inner in _subgraphs(node):
            yield from _graphs(inner)


def _subgraphs(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _stored(graph: Any) -> Iterator[Any]:
    """The tensors whose names are values of the graph."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values


def _all_names(graph: Any) -> set[str]:
    """Every value name in the graph and the graphs inside it."""
    found: set[str] = set()
    for part in _graphs(graph):
        found.update(item.name for item in (*part.input, *part.output, *part.value_info, *_stored(part)))
        for node in part.node:
            found.update(node.input)
            found.update(node.output)
    return found - {""}


def _substitute(graph: Any, mapping: Mapping[str, str]) -> None:
    """Rename values in one graph.

    The mapping never makes two names one, so applying it everywhere keeps every reference what it was, whichever
    graph it crosses.
    """
    for item in (*graph.input, *graph.output, *graph.value_info, *_stored(graph)):
        item.name = mapping.get(item.name, item.name)
    for node in graph.node:
        node.input[:] = [mapping.get(name, name) for name in node.input]
        node.output[:] = [mapping.get(name, name) for name in node.output]
    for note in graph.quantization_annotation:
        note.tensor_name = mapping.get(note.tensor_name, note.tensor_name)
        for entry in note.quant_parameter_tensor_names:
            entry.value = mapping.get(entry.value, entry.value)


@dataclass(slots=True)
class _Definition:
    """One place that defines a name: an initializer, or an output of a node, and the nodes that mean it."""

    owner: Any
    users: list[Any] = field(default_factory=list)


def _shared_names(path: Path, graph: Any) -> list[str]:
    """Names that more than one value of the graph has."""
    inputs = {value.name for value in graph.input}
    stored = Counter(tensor.name for tensor in _stored(graph))
    made = Counter(name for node in graph.node for name in node.output if name)
    clash = next((name for name in made if name in inputs), None) or next(
        (name for name, count in stored.items() if count > 1), None
    )
    if clash is not None:
        raise SourceError(
            f"model {str(path)!r} defines the name {clash!r} twice, and which is meant cannot be told",
            hint="export it again with different names for inputs and outputs",
        )
    return [name for name, count in made.items() if count + stored[name] > 1]


def _separate(graph: Any, name: str, fresh: _Fresh) -> str:
    """Rename all definitions of a name but one; returns the last new name."""
    definitions = _definitions(graph, name)
    is_output = any(value.name == name for value in graph.output)
    unused = [definition for definition in definitions if not definition.users]
    kept = (unused or definitions)[-1] if is_output else definitions[0]
    new = name
    for definition in definitions:
        if definition is not kept:
            new = fresh.like(name)
            _rename_definition(definition, name, new)
    _rename_hints(graph, name, new, others=len(definitions) - 1)
    return new


def _definitions(graph: Any, name: str) -> list[_Definition]:
    found = [_Definition(tensor) for tensor in _stored(graph) if tensor.name == name]
    for node in graph.node:
        if found and _refers(node, name):
            found[-1].users.append(node)
        if name in node.output:
            found.append(_Definition(node))
    return found


def _refers(node: Any, name: str) -> bool:
    """Whether a node, or a graph inside it, takes the value from outside."""
    return name in node.input or any(_captures(graph, name) for graph in _subgraphs(node))


def _captures(graph: Any, name: str) -> bool:
    if _owns(graph, name):
        return False
    return any(_refers(node, name) for node in graph.node) or any(value.name == name for value in graph.output)


def _owns(graph: Any, name: str) -> bool:
    """Whether the name, inside this graph, is the graph's own."""
    declared = any(item.name == name for item in (*graph.input, *_stored(graph)))
    return declared or any(name in node.output for node in graph.node)


def _rename_definition(definition: _Definition, name: str, new: str) -> None:
    owner = definition.owner
    if isinstance(owner, onnx.NodeProto):
        owner.output[:] = [new if item == name else item for item in owner.output]
    else:
        owner.name = new
    for node in definition.users:
        _rename_uses(node, name, new)


def _rename_uses(node: Any, name: str, new: str) -> None:
    node.input[:] = [new if item == name else item for item in node.input]
    for graph in _subgraphs(node):
        if not _owns(graph, name):
            for inner in graph.node:
                _rename_uses(inner, name, new)
            for value in graph.output:
                value.name = new if value.name == name else value.name


def _rename_hints(graph: Any, name: str, new: str, *, others: int) -> None:
    """Give the internal value its shape hint; hints that may be anybody's go, since nothing depends on them."""
    hints = [value for value in graph.value_info if value.name == name]
    if len(hints) == 1 and others == 1:
        hints[0].name = new
        return
    for value in hints:
        graph.value_info.remove(value)
