"""What an ONNX file says about itself, read straight off its bytes: no weights are touched, no package is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from aitune.onnx.element_types import dtype_of, element_word
from aitune.onnx.wire import Buffer, WireError, fields, signed, text, varints
from aitune.records.interface import Port
from aitune.records.shapes import Dim

__all__ = ["Outline", "Tensor", "read_outline", "read_ports"]

_MAX_DEPTH = 100  # protobuf's own limit for nested messages
_KINDS = {1: "tensor", 4: "sequence", 5: "map", 8: "sparse_tensor", 9: "optional"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One stored tensor, wherever in the file it stands.

    Attributes:
        name: Its name, ``""`` for an attribute's.
        number: Element type number.
        dims: Its sizes.
        raw_nbytes: Length of its raw bytes inside the file, None when it is stored in another way.
        external: (key, value) pairs of its external data; empty when the bytes are in this file.
        span: Where the message lies in the file.
        top: Whether it is an initializer of the main graph.
    """

    name: str
    number: int
    dims: tuple[int, ...]
    raw_nbytes: int | None
    external: tuple[tuple[str, str], ...]
    span: tuple[int, int]
    top: bool = False


@dataclass(slots=True, kw_only=True)
class Outline:
    """The outer form of an ONNX model.

    Attributes:
        ir_version: ONNX IR version, 0 when the file does not say.
        opset_imports: (domain, version) pairs, the default domain as ``""``.
        producer: Name and version of the program that wrote the file.
        graph: Where the main graph lies in the file; None when there is none.
        inputs: Declared graph inputs, also those with an initializer.
        outputs: Declared graph outputs.
        initializer_names: Names that have a stored value in the main graph.
        tensors: Stored tensors that are external, or initializers of the main graph.
    """

    ir_version: int = 0
    opset_imports: list[tuple[str, int]] = field(default_factory=list)
    producer: str = ""
    graph: tuple[int, int] | None = None
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    initializer_names: set[str] = field(default_factory=set)
    tensors: list[Tensor] = field(default_factory=list)


def read_outline(buffer: Buffer) -> Outline:
    """The outline of a model.

    Args:
        buffer: The whole file; a mapped one is read only where the structure is.

    Raises:
        WireError: If the bytes are not a protobuf message, or end too early.
    """
    outline = Outline()
    producer = ["", ""]
    for number, start, end in fields(buffer, 0, len(buffer)):
        if number == 1 and end == -1:
            outline.ir_version = signed(start)
        elif number in (2, 3) and end != -1:
            producer[number - 2] = text(buffer, start, end)
        elif number == 7 and end != -1:
            outline.graph = (start, end)
            _read_graph(buffer, start, end, outline)
        elif number == 8 and end != -1:
            outline.opset_imports.append(_opset(buffer, start, end))
        elif number == 20 and end != -1:
            outline.tensors.extend(_training_tensors(buffer, start, end))
        elif number == 25 and end != -1:
            outline.tensors.extend(_function_tensors(buffer, start, end))
    outline.producer = " ".join(part for part in producer if part)
    return outline


def read_ports(buffer: Buffer) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Declared inputs and outputs of a model."""
    outline = read_outline(buffer)
    return tuple(outline.inputs), tuple(outline.outputs)


def _opset(buffer: Buffer, start: int, end: int) -> tuple[str, int]:
    domain, version = "", 0
    for number, value, stop in fields(buffer, start, end):
        if number == 1 and stop != -1:
            domain = text(buffer, value, stop)
        elif number == 2 and stop == -1:
            version = signed(value)
    return ("" if domain == "ai.onnx" else domain), version


def _read_graph(buffer: Buffer, start: int, end: int, outline: Outline) -> None:
    """Ports, initializers and external tensors of the main graph."""
    for number, value, stop in fields(buffer, start, end):
        if stop == -1:
            continue
        if number == 11:
            outline.inputs.append(_port(buffer, value, stop))
        elif number == 12:
            outline.outputs.append(_port(buffer, value, stop))
        elif number == 5:
            tensor = _tensor(buffer, value, stop, top=True)
            outline.initializer_names.add(tensor.name)
            outline.tensors.append(tensor)
        elif number == 15:
            outline.initializer_names.add(_sparse_name(buffer, value, stop))
            outline.tensors.extend(_sparse_tensors(buffer, value, stop))
        elif number == 1:
            outline.tensors.extend(_node_tensors(buffer, value, stop, 0))


def _graph_tensors(buffer: Buffer, start: int, end: int, depth: int) -> Iterator[Tensor]:
    """External tensors of a graph that is not the main one."""
    if depth > _MAX_DEPTH:
        raise WireError(f"graphs are nested more than {_MAX_DEPTH} deep", at=start)
    for number, value, stop in fields(buffer, start, end):
        if stop == -1:
            continue
        if number == 1:
            yield from _node_tensors(buffer, value, stop, depth)
        elif number == 5:
            yield from _if_external(buffer, value, stop)
        elif number == 15:
            yield from _sparse_tensors(buffer, value, stop)


def _node_tensors(buffer: Buffer, start: int, end: int, depth: int) -> Iterator[Tensor]:
    for number, value, stop in fields(buffer, start, end):
        if number == 5 and stop != -1:
            yield from _attribute_tensors(buffer, value, stop, depth)


def _attribute_tensors(buffer: Buffer, start: int, end: int, depth: int) -> Iterator[Tensor]:
    for number, value, stop in fields(buffer, start, end):
        if stop == -1:
            continue
        if number in (5, 10):
            yield from _if_external(buffer, value, stop)
        elif number in (6, 11):
            yield from _graph_tensors(buffer, value, stop, depth + 1)
        elif number in (22, 23):
            yield from _sparse_tensors(buffer, value, stop)


def _function_tensors(buffer: Buffer, start: int, end: int) -> Iterator[Tensor]:
    """External tensors in the nodes and the attribute defaults of a model-local function."""
    for number, value, stop in fields(buffer, start, end):
        if number == 7 and stop != -1:
            yield from _node_tensors(buffer, value, stop, 1)
        elif number == 11 and stop != -1:
            yield from _attribute_tensors(buffer, value, stop, 1)


def _training_tensors(buffer: Buffer, start: int, end: int) -> Iterator[Tensor]:
    for number, value, stop in fields(buffer, start, end):
        if number in (1, 2) and stop != -1:
            yield from _graph_tensors(buffer, value, stop, 1)


def _sparse_name(buffer: Buffer, start: int, end: int) -> str:
    """Name of a sparse tensor: that of its values."""
    for number, value, stop in fields(buffer, start, end):
        if number == 1 and stop != -1:
            return _tensor(buffer, value, stop).name
    return ""


def _sparse_tensors(buffer: Buffer, start: int, end: int) -> Iterator[Tensor]:
    for number, value, stop in fields(buffer, start, end):
        if number in (1, 2) and stop != -1:
            yield from _if_external(buffer, value, stop)


def _if_external(buffer: Buffer, start: int, end: int) -> Iterator[Tensor]:
    tensor = _tensor(buffer, start, end)
    if tensor.external:
        yield tensor


def _tensor(buffer: Buffer, start: int, end: int, *, top: bool = False) -> Tensor:
    name, element, raw_nbytes, is_external = "", 0, None, False
    dims: list[int] = []
    pairs: list[tuple[str, str]] = []
    for number, value, stop in fields(buffer, start, end):
        if number == 1:
            dims.extend(signed(size) for size in varints(buffer, value, stop))
        elif number == 2 and stop == -1:
            element = value
        elif number == 8 and stop != -1:
            name = text(buffer, value, stop)
        elif number == 9 and stop != -1:
            raw_nbytes = stop - value
        elif number == 13 and stop != -1:
            pairs.append(_pair(buffer, value, stop))
        elif number == 14 and stop == -1:
            is_external = value == 1
    external = (tuple(pairs) or (("location", ""),)) if is_external else ()
    return Tensor(
        name=name,
        number=element,
        dims=tuple(dims),
        raw_nbytes=raw_nbytes,
        external=external,
        span=(start, end),
        top=top,
    )


def _pair(buffer: Buffer, start: int, end: int) -> tuple[str, str]:
    found = {number: text(buffer, value, stop) for number, value, stop in fields(buffer, start, end) if stop != -1}
    return found.get(1, ""), found.get(2, "")


def _port(buffer: Buffer, start: int, end: int) -> Port:
    name, kind, element, shape = "", "tensor", "", None
    for number, value, stop in fields(buffer, start, end):
        if number == 1 and stop != -1:
            name = text(buffer, value, stop)
        elif number == 2 and stop != -1:
            kind, element, shape = _type(buffer, value, stop)
    dtype = dtype_of(element) if kind == "tensor" else None
    return Port(name=name, kind=kind, element_type=element, dtype=dtype, shape=shape)


def _type(buffer: Buffer, start: int, end: int) -> tuple[str, str, tuple[Dim, ...] | None]:
    """Kind, element word and shape of a type; the shape of an optional or a sequence is nobody's shape."""
    for number, value, stop in fields(buffer, start, end):
        kind = _KINDS.get(number)
        if kind in ("tensor", "sparse_tensor"):
            word, shape = _tensor_type(buffer, value, stop)
            return kind, word, shape
        if kind is not None:
            return kind, _inner(buffer, value, stop, kind), None
    return "tensor", "", None


def _inner(buffer: Buffer, start: int, end: int, kind: str) -> str:
    """What a sequence, map or optional holds, in the form ONNX Runtime writes it."""
    key = ""
    for number, value, stop in fields(buffer, start, end):
        if kind == "map" and number == 1 and stop == -1:
            key = element_word(value).lower() + ","
        elif stop != -1:
            inner_kind, word, _ = _type(buffer, value, stop)
            outer = "seq" if inner_kind == "sequence" else inner_kind
            return f"{key}{outer}({word.lower()})"
    return key


def _tensor_type(buffer: Buffer, start: int, end: int) -> tuple[str, tuple[Dim, ...] | None]:
    element, shape = "", None
    for number, value, stop in fields(buffer, start, end):
        if number == 1 and stop == -1:
            element = element_word(value)
        elif number == 2 and stop != -1:
            shape = tuple(_dim(buffer, *span) for field_, *span in fields(buffer, value, stop) if field_ == 1)
    return element, shape


def _dim(buffer: Buffer, start: int, end: int) -> Dim:
    """A size, a symbol, or None; negative sizes and blank symbols say nothing."""
    for number, value, stop in fields(buffer, start, end):
        if number == 1 and stop == -1:
            return signed(value) if signed(value) >= 0 else None
        if number == 2 and stop != -1:
            symbol = text(buffer, value, stop)
            return symbol if symbol.strip() else None
    return None
