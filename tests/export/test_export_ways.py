"""Which exporter is tried when, what it loses by, and the parts that put its files right."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn

from aitune.errors import SourceError
from aitune.torch import exporting
from aitune.torch.boundary import name_boundary, unused_inputs
from aitune.torch.exporting import export
from aitune.torch.limits import TooSlowError, time_limit
from aitune.torch.observation import observe
from aitune.torch.quiet import quiet
from aitune.torch.source import load_source
from aitune.torch.ways import WAYS, Order, Way


def numbers(*shape: int) -> torch.Tensor:
    """The same numbers in every run of the tests."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_a_recurrent_net_with_a_dynamic_length_needs_the_tracer(tmp_path: Path) -> None:
    """Two ways fix the length; the third keeps it, and its numbers are the module's at every size."""
    lengths = [numbers(2, 7, 4), numbers(3, 9, 4)]
    exported = export(observe(nn.GRU(4, 5, batch_first=True), lengths), tmp_path / "model.onnx")
    assert exported.way == "TorchScript"
    assert [reason for _, reason in exported.lost] == ["axis 1 of input 'input' came out as 9, asked dynamic"] * 2
    assert exported.interface.outputs[0].shape == ("batch", "input_dim1", 5)
    assert any("torch.export lost" in note for note in exported.notes)


def test_the_first_way_that_keeps_its_promises_wins(tmp_path: Path) -> None:
    """What an exporter raises, and a file that nobody can load, are reasons to try the next."""

    def raises(order: Order, path: Path) -> tuple[str, ...]:
        raise RuntimeError("no such operator\nand more") from ValueError("the root")

    def writes_rubbish(order: Order, path: Path) -> tuple[str, ...]:
        path.write_bytes(b"rubbish")
        return ()

    ways = (Way("raises", raises), Way("rubbish", writes_rubbish), *WAYS)
    exported = export(observe(nn.Linear(4, 3), numbers(2, 4)), tmp_path / "model.onnx", ways=ways)
    assert exported.way == "torch.export"
    assert exported.lost[0] == ("raises", "the exporter raised ValueError: the root")
    assert "model.onnx" in exported.lost[1][1]


def test_a_file_with_other_names_loses(tmp_path: Path) -> None:
    """Names and order are read back from the file."""

    def renames(order: Order, path: Path) -> tuple[str, ...]:
        other = Order(
            flat=order.flat,
            tensors=order.tensors,
            input_names=("other",),
            output_names=order.output_names,
            output_shapes=order.output_shapes,
            symbols=order.symbols,
            opset=order.opset,
        )
        return WAYS[0].write(other, path)

    with pytest.raises(SourceError, match="the file has inputs other and outputs output, others were asked"):
        export(observe(nn.Linear(4, 3), numbers(2, 4)), tmp_path / "model.onnx", ways=[Way("renames", renames)])


def test_an_exporter_that_never_ends_loses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasoning about sizes can take hours; the next way is tried."""

    def sleeps(order: Order, path: Path) -> tuple[str, ...]:
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(exporting, "LONGEST_WAY_S", 0.2)
    with pytest.raises(SourceError, match=r"sleeps: it took longer than 0\.2 s"):
        export(observe(nn.Linear(4, 3), numbers(2, 4)), tmp_path / "model.onnx", ways=[Way("sleeps", sleeps)])


def test_time_limits_need_the_main_thread() -> None:
    """Elsewhere the work just goes on."""
    with pytest.raises(TooSlowError, match="longer than"), time_limit(0.05):
        time.sleep(5)
    done: list[bool] = []

    def work() -> None:
        with time_limit(0.01):
            time.sleep(0.1)
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_progress_of_other_threads_is_seen_while_exporters_are_muted(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the exporter's own thread is muted on stderr."""
    import sys

    def bar() -> None:
        print("working", file=sys.stderr, flush=True)

    with quiet():
        print("noise", file=sys.stderr)
        assert not sys.stderr.isatty()
        thread = threading.Thread(target=bar)
        thread.start()
        thread.join()
    assert capsys.readouterr().err == "working\n"


def graph(build: Callable[[ir.Value], tuple[list[ir.Node], list[ir.Value]]]) -> ir.Model:
    """A graph with the input ``x``."""
    x = ir.Value(name="x", shape=ir.Shape([2]), type=ir.TensorType(ir.DataType.FLOAT))
    nodes, results = build(x)
    return ir.Model(ir.Graph([x], results, nodes=nodes, opset_imports={"": 20}), ir_version=10)


def test_names_can_be_exchanged() -> None:
    """All names are given at once."""

    def build(x: ir.Value) -> tuple[list[ir.Node], list[ir.Value]]:
        node = ir.node("Relu", inputs=[x])
        node.outputs[0].name = "y"
        return [node], [node.outputs[0]]

    model = graph(build)
    assert name_boundary(model, {"x": "y"}, ["x"]) == ()
    assert (model.graph.inputs[0].name, model.graph.outputs[0].name) == ("y", "x")


def test_weights_and_values_of_subgraphs_give_way() -> None:
    """A name that is taken anywhere in the graph is freed there, and every use follows."""

    def build(x: ir.Value) -> tuple[list[ir.Node], list[ir.Value]]:
        inner = ir.node("Neg", inputs=[x])
        inner.outputs[0].name = "wanted"
        branch = ir.Graph([], [inner.outputs[0]], nodes=[inner], name="branch")
        condition = ir.node("Constant", inputs=[], attributes={"value": ir.tensor(np.array(True))})
        choice = ir.node("If", inputs=[condition.outputs[0]], attributes={"then_branch": branch, "else_branch": branch})
        return [condition, choice], [choice.outputs[0]]

    model = graph(build)
    assert name_boundary(model, {"x": "x"}, ["wanted"]) == ("wanted",)
    names = [value.name for node in ir.traversal.RecursiveGraphIterator(model.graph) for value in node.outputs]
    assert names.count("wanted") == 1


def test_an_input_that_is_returned_is_copied() -> None:
    """Input and output need names of their own; an unused input is reported."""
    model = graph(lambda x: ([], [x, x]))
    name_boundary(model, {"x": "x"}, ["a", "b"])
    assert [node.op_type for node in model.graph] == ["Identity", "Identity"]
    assert [value.name for value in model.graph.outputs] == ["a", "b"]
    assert unused_inputs(model) == ()


def test_a_way_can_be_told_apart_by_what_it_sees() -> None:
    """Only the tracer follows one run."""
    assert [(way.name, way.follows_one_run) for way in WAYS] == [
        ("torch.export", False),
        ("torch.export strict", False),
        ("TorchScript", True),
    ]


CHECKED = """
import torch

class Checked(torch.nn.Module):
    def forward(self, ids, lengths):
        assert int(lengths.max()) <= ids.shape[1]
        return ids * lengths[:, None]

def checked():
    return Checked(), [{"ids": torch.ones(2, n, dtype=torch.long), "lengths": torch.tensor([n, 3])} for n in (5, 8)]
"""


def test_a_strict_export_is_a_way_of_its_own(tmp_path: Path) -> None:
    """What the first way takes for a branch on values, an assertion, the second one keeps.

    The module is in a file of its own, because pytest rewrites assertions in tests.
    """
    (tmp_path / "checked.py").write_text(CHECKED)
    source = load_source(f"{tmp_path}/checked.py:checked")
    exported = export(observe(source.module, source.samples), tmp_path / "model.onnx")
    assert exported.way == "torch.export strict"
    assert "input 'lengths' is always 3 in made-up requests" in " ".join(exported.observation.notes)
