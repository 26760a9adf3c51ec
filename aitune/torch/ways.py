"""The ways to write a module as ONNX, in the order in which they are tried."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir
import torch
from onnx_ir.passes.common import ClearMetadataAndDocStringPass

from aitune.records.shapes import Dim
from aitune.torch.boundary import name_boundary, unused_inputs
from aitune.torch.flat import FlatModule
from aitune.torch.symbols import Symbol
from aitune.torch.writing import write_model

__all__ = ["LARGEST_FILE_BYTES", "WAYS", "Order", "Way"]

LARGEST_FILE_BYTES = 1_500_000_000
"""Weights up to this size are kept in the model file; beyond it, in a companion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to write.

    Attributes:
        flat: The module.
        tensors: Inputs to trace it with.
        input_names: Their names.
        output_names: Names of the outputs.
        output_shapes: Their sizes as the module showed them; None where a size was seen to vary.
        symbols: Dynamic axes.
        opset: Version of the default operator set.
        largest_file_bytes: Weights beyond this go to a companion file.
    """

    flat: FlatModule
    tensors: tuple[torch.Tensor, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    output_shapes: tuple[tuple[Dim, ...], ...]
    symbols: tuple[Symbol, ...]
    opset: int
    largest_file_bytes: int = LARGEST_FILE_BYTES

    def names_by_axis(self) -> list[dict[int, str]]:
        """Per input the symbol of each dynamic axis."""
        axes: list[dict[int, str]] = [{} for _ in self.tensors]
        for symbol in self.symbols:
            for index, axis in symbol.axes:
                axes[index][axis] = symbol.name
        return axes


@dataclass(frozen=True, slots=True)
class Way:
    """One exporter with its settings.

    Attributes:
        name: For people and records.
        write: Writes the file; returns notes. What it raises is the exporter's own.
        follows_one_run: Whether it sees one run instead of the code, so that branches on values are lost.
    """

    name: str
    write: Callable[[Order, Path], tuple[str, ...]]
    follows_one_run: bool = False


def _exported(strict: bool) -> Callable[[Order, Path], tuple[str, ...]]:
    def write(order: Order, path: Path) -> tuple[str, ...]:
        dynamic = [dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for axes in order.names_by_axis()]
        with torch.no_grad():
            program = torch.export.export(order.flat, order.tensors, dynamic_shapes=(tuple(dynamic),), strict=strict)
            written = torch.onnx.export(program, dynamo=True, opset_version=order.opset, verbose=False)
        assert written is not None  # only the TorchScript exporter returns None
        mapping: dict[str | ir.SymbolicDim, str] = {}
        for value, axes in zip(written.model.graph.inputs, order.names_by_axis(), strict=True):
            mapping |= _symbols_of(value, axes)
        written.rename_axes(mapping)
        present = [value.name or "" for value in written.model.graph.inputs]
        return _save(written.model, dict(zip(present, order.input_names, strict=True)), order, path)

    return write


def _symbols_of(value: ir.Value, axes: dict[int, str]) -> dict[str | ir.SymbolicDim, str]:
    """The exporter's symbol of each dynamic axis, to ours; derived ones (``2*s3``) keep their formula."""
    if value.shape is None:
        return {}
    dims = {axis: value.shape[axis] for axis in axes}
    return {
        dim.value: axes[axis]
        for axis, dim in dims.items()
        if isinstance(dim, ir.SymbolicDim) and isinstance(dim.value, str) and dim.value.isidentifier()
    }


def _traced(order: Order, path: Path) -> tuple[str, ...]:
    """The TorchScript exporter: it follows one run, so that only axes and not branches stay dynamic."""
    axes = {name: axes for name, axes in zip(order.input_names, order.names_by_axis(), strict=True) if axes}
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        draft = Path(folder) / "draft.onnx"
        with torch.no_grad():
            torch.onnx.export(
                order.flat,
                order.tensors,
                draft,
                dynamo=False,
                input_names=list(order.input_names),
                output_names=list(order.output_names),
                dynamic_axes=axes,
                opset_version=order.opset,
            )
        model = ir.load(draft)
        for value in model.graph.outputs:
            value.shape = None if value.shape is None else ir.Shape([None] * len(value.shape))
        return _save(model, {name: name for name in order.input_names}, order, path)


def _tell_only_the_truth(model: ir.Model, shapes: Sequence[Sequence[Dim]]) -> None:
    """Drop shapes that hold for the traced sizes only: all inner ones, and output sizes that were seen to vary.

    The runtime infers shapes by itself; what a file says besides is believed without proof.
    """
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for value in node.outputs:
            if not value.is_graph_output():
                value.shape = None
    for value, seen in zip(model.graph.outputs, shapes, strict=True):
        if value.shape is not None and len(value.shape) == len(seen):
            dims = [
                None if now is None and isinstance(dim, int) else dim
                for dim, now in zip(value.shape, seen, strict=True)
            ]
            value.shape = ir.Shape(dims)


def _save(model: ir.Model, inputs: dict[str, str], order: Order, path: Path) -> tuple[str, ...]:
    given_up = name_boundary(model, inputs, order.output_names)
    _tell_only_the_truth(model, order.output_shapes)
    # Exporters write where each node comes from, with paths and lines of this machine. No path goes into what is
    # served, and the same model must have the same fingerprint wherever it was exported.
    ClearMetadataAndDocStringPass()(model)
    size = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)
    if size > order.largest_file_bytes:
        ir.save(model, path, external_data=f"{path.name}.data")
    else:
        write_model(model, path)
    notes = [f"an internal value gave up the name {name!r} to an output" for name in given_up]
    notes += [f"input {name!r} does not reach any output" for name in unused_inputs(model)]
    return tuple(notes)


WAYS: tuple[Way, ...] = (
    Way("torch.export", _exported(strict=False)),
    Way("torch.export strict", _exported(strict=True)),
    Way("TorchScript", _traced, follows_one_run=True),
)
"""From the most faithful to the most forgiving."""
