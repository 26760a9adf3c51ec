"""Faults that people met when they exported modules, and what happens here instead.

The ids are those of the field reports that the tests are drawn from.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from aitune.errors import NumericsError, SourceError, UsageError
from aitune.torch.exporting import Exported, export
from aitune.torch.observation import observe


def module(forward: Callable[..., Any], inner: nn.Module | None = None) -> nn.Module:
    """A module with this ``forward`` (``self`` first) and perhaps one inside."""
    made = type("Model", (nn.Module,), {"forward": forward})()
    made.inner = inner
    return made


def numbers(*shape: int) -> torch.Tensor:
    """The same numbers in every run of the tests."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def inputs(exported: Exported) -> dict[str, Any]:
    """Names and shapes of the file's inputs, as ONNX Runtime sees them."""
    return {port.name: port.shape for port in exported.interface.inputs}


def outputs(exported: Exported) -> dict[str, Any]:
    """The same for outputs."""
    return {port.name: port.shape for port in exported.interface.outputs}


def test_a_batch_of_one_is_exported_dynamic(tmp_path: Path) -> None:
    """B01: a sample of one row gives a file that runs at every batch, and equals the module there."""
    exported = export(observe(nn.Linear(4, 3), numbers(1, 4)), tmp_path / "model.onnx")
    assert (inputs(exported), outputs(exported)) == ({"input": ("batch", 4)}, {"output": ("batch", 3)})
    assert {"batch": 1} in exported.verification.sizes
    assert {"batch": 8} in exported.verification.sizes


def test_rows_that_are_mixed_by_a_view_are_declared_as_they_are(tmp_path: Path) -> None:
    """B02: ``view(2, -1)`` keeps two rows whatever comes in, and the file says so."""
    exported = export(observe(module(lambda self, x: x.view(2, -1)), numbers(2, 4, 6)), tmp_path / "model.onnx")
    assert inputs(exported)["x"][0] == "batch"
    assert outputs(exported)["output"][0] == 2


def test_a_loop_over_rows_is_fixed_and_says_why(tmp_path: Path) -> None:
    """B02: unrolled rows cannot be dynamic; nobody asked for a batch, so it is fixed, with the reason of every way."""
    observation = observe(module(lambda self, x: torch.stack([row * 2 for row in x])), numbers(2, 4))
    exported = export(observation, tmp_path / "model.onnx")
    assert inputs(exported) == {"x": (2, 4)}
    assert [way for way, _ in exported.lost] == ["torch.export", "torch.export strict", "TorchScript"]
    assert "the batch is fixed to 2: no exporter keeps it dynamic" in exported.observation.notes
    assert "axis 0 of input 'x' came out as" in exported.lost[0][1]


def test_a_loop_over_rows_that_samples_vary_is_refused(tmp_path: Path) -> None:
    """A batch that the samples ask for is not silently fixed; nothing is left behind."""
    observation = observe(module(lambda self, x: torch.stack([r * 2 for r in x])), [numbers(2, 4), numbers(3, 4)])
    with pytest.raises(SourceError, match=r"cannot be exported as asked: .*axis 0 of input 'x' came out as \d"):
        export(observation, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_an_output_without_rows_is_in_the_file(tmp_path: Path) -> None:
    """B03: a weight that is returned is an output of fixed shape, not left out, and not the initializer itself."""
    both = module(lambda self, x: (self.inner(x), self.inner.weight), nn.Linear(4, 3))
    exported = export(observe(both, numbers(2, 4)), tmp_path / "model.onnx")
    assert outputs(exported) == {"output_0": ("batch", 3), "output_1": (3, 4)}


def test_a_count_that_depends_on_data_is_no_batch(tmp_path: Path) -> None:
    """B07: NonZero has rows of its own, also none."""
    exported = export(observe(module(lambda self, x: torch.nonzero(x > 0)), numbers(2, 6)), tmp_path / "model.onnx")
    assert outputs(exported)["output"][0] != "batch"
    assert not isinstance(outputs(exported)["output"][0], int)


def test_a_doubled_batch_says_so(tmp_path: Path) -> None:
    """B08: twice the rows is not the batch."""
    exported = export(observe(module(lambda self, x: x.reshape(-1, 2)), numbers(2, 4)), tmp_path / "model.onnx")
    assert outputs(exported)["output"] == ("2*batch", 2)


def test_scalars_go_in_and_out(tmp_path: Path) -> None:
    """B09: tensors of rank 0 on both sides."""
    scaled = module(lambda self, x, t: (x * t, x.mean()))
    exported = export(observe(scaled, {"x": numbers(4, 4), "t": torch.tensor(0.5)}), tmp_path / "model.onnx")
    assert inputs(exported)["t"] == ()
    assert outputs(exported)["output_1"] == ()


def test_one_number_per_row(tmp_path: Path) -> None:
    """B10: an argmax has the batch as its only axis."""
    best = module(lambda self, x: x.flatten(1).argmax(1))
    exported = export(observe(best, numbers(2, 3, 4)), tmp_path / "model.onnx")
    assert outputs(exported) == {"output": ("batch",)}


def test_a_batch_on_axis_1_keeps_its_place(tmp_path: Path) -> None:
    """B11: a sequence-first GRU."""
    exported = export(observe(nn.GRU(4, 5), numbers(7, 2, 4)), tmp_path / "model.onnx")
    assert outputs(exported) == {"output_0": (7, "batch", 5), "output_1": (1, "batch", 5)}


def test_names_of_nested_arguments_are_one_namespace(tmp_path: Path) -> None:
    """B13: ``*args``, ``**kwargs`` and optional arguments have the names that are seen everywhere else."""

    def forward(self: Any, *terms: torch.Tensor, extra: Any = None, **more: torch.Tensor) -> torch.Tensor:
        return terms[0] + terms[1] * more["scale"]

    sample = {"terms": (numbers(2, 3), numbers(2, 3)), "extra": None, "scale": numbers(2, 3)}
    renamed = observe(module(forward), sample, input_names={"terms.0": "first"})
    exported = export(renamed, tmp_path / "model.onnx")
    assert list(inputs(exported)) == ["first", "terms.1", "scale"]


def test_an_unused_input_stays_and_is_said(tmp_path: Path) -> None:
    """B14: the file's inputs are read back, and one that does nothing is named."""
    exported = export(
        observe(module(lambda self, a, b: a * 2), {"a": numbers(2, 3), "b": numbers(2, 3)}), tmp_path / "model.onnx"
    )
    assert list(inputs(exported)) == ["a", "b"]
    assert "input 'b' does not reach any output" in exported.notes


@pytest.mark.parametrize(
    ("forward", "names"),
    [
        (lambda self, x: (x, x + 1), ["output_0", "output_1"]),
        (lambda self, x: (x + 1,) * 2, ["output_0", "output_1"]),
        (lambda self, x: {"x": x}, ["x_out"]),
    ],
)
def test_outputs_that_are_inputs_or_twins_keep_their_names(tmp_path: Path, forward: Any, names: list[str]) -> None:
    """B15: the input is never called ``x_orig``, and one value under two names is two outputs."""
    exported = export(observe(module(forward), numbers(2, 3)), tmp_path / "model.onnx")
    assert list(inputs(exported)) == ["x"]
    assert list(outputs(exported)) == names


def test_an_output_name_that_an_internal_value_has_is_repaired(tmp_path: Path) -> None:
    """B15: the internal value gives way, and the file loads."""
    observation = observe(module(lambda self, x: x.softmax(-1)), numbers(2, 3), output_names=["softmax"])
    exported = export(observation, tmp_path / "model.onnx")
    assert list(outputs(exported)) == ["softmax"]
    onnxruntime.InferenceSession(exported.path)


def test_a_number_given_to_forward_is_built_in_and_said(tmp_path: Path) -> None:
    """B15: a float argument becomes part of the graph; the batch keeps its name."""
    scaled = module(lambda self, x, k: x * k)
    exported = export(observe(scaled, {"x": numbers(2, 3), "k": 2.0}), tmp_path / "model.onnx")
    assert inputs(exported) == {"x": ("batch", 3)}
    assert "k=2.0" in " ".join(exported.observation.notes)


def test_the_opset_asked_for_is_the_opset_written(tmp_path: Path) -> None:
    """B17: where the first exporter writes another one, the next is asked; where none can, it is an error."""
    observation = observe(nn.LayerNorm(4), numbers(2, 4))
    exported = export(observation, tmp_path / "model.onnx", opset=11)
    assert dict(exported.interface.opset_imports)[""] == 11
    assert (exported.way, exported.lost[0][1]) == ("TorchScript", "opset 11 was asked, the file has 18")
    with pytest.raises(UsageError, match="opset must be between 7 and 23, got 99"):
        export(observation, tmp_path / "model.onnx", opset=99)


def test_the_default_is_what_triton_24_10_reads(tmp_path: Path) -> None:
    """B18: opset 20 and IR version 10."""
    exported = export(observe(nn.LayerNorm(4), numbers(2, 4)), tmp_path / "model.onnx")
    assert dict(exported.interface.opset_imports) == {"": 20}
    assert exported.interface.ir_version == 10


def test_large_weights_go_to_a_companion_with_a_plain_name(tmp_path: Path) -> None:
    """B19: relative, beside the model, and the file loads from there; small ones stay inside."""
    observation = observe(nn.Linear(300, 300), numbers(2, 300))
    small = export(observation, tmp_path / "small.onnx")
    large = export(observation, tmp_path / "model.onnx", largest_file_bytes=100_000)
    assert small.interface.companions == ()
    assert large.interface.companions == ("model.onnx.data",)
    assert (tmp_path / "model.onnx.data").stat().st_size >= 300 * 300 * 4


def test_the_same_tensor_for_two_arguments_is_two_inputs(tmp_path: Path) -> None:
    """Aliased arguments are not merged."""
    x = numbers(2, 3)
    exported = export(observe(module(lambda self, a, b: (a + b, b)), {"a": x, "b": x}), tmp_path / "model.onnx")
    assert list(inputs(exported)) == ["a", "b"]


def test_a_sequence_output_is_a_tensor_per_element(tmp_path: Path) -> None:
    """B25: a list of tensors never becomes an ONNX sequence."""
    exported = export(observe(module(lambda self, x: list(x.split(2, 1))), numbers(2, 4)), tmp_path / "model.onnx")
    assert outputs(exported) == {"output_0": ("batch", 2), "output_1": ("batch", 2)}


def test_an_absent_optional_input_is_not_in_the_file(tmp_path: Path) -> None:
    """B27: optional inputs are decided by the samples."""
    optional = module(lambda self, x, mask=None: x if mask is None else x * mask)
    assert list(inputs(export(observe(optional, numbers(2, 3)), tmp_path / "a.onnx"))) == ["x"]
    both = observe(optional, {"x": numbers(2, 3), "mask": numbers(2, 3)})
    assert list(inputs(export(both, tmp_path / "b.onnx"))) == ["x", "mask"]


def test_empty_samples_are_refused() -> None:
    """B28: a size of 0 cannot be served."""
    with pytest.raises(SourceError, match=r"past is empty in the sample: shape \(2, 0, 4\)"):
        observe(module(lambda self, past: past), {"past": torch.zeros(2, 0, 4)})


def test_a_module_that_works_otherwise_at_small_batches_is_not_served_wrong(tmp_path: Path) -> None:
    """Guards on the batch: fixed where nobody asked for one, refused where samples did."""
    guarded = module(lambda self, x: x + 1 if x.shape[0] > 2 else x - 1)
    assert inputs(export(observe(guarded, numbers(4, 3)), tmp_path / "a.onnx")) == {"x": (4, 3)}
    with pytest.raises(SourceError, match="output 'output' of the exported file differs from the module's at"):
        export(observe(guarded, [numbers(4, 3), numbers(1, 3)]), tmp_path / "b.onnx")


def test_a_branch_on_values_is_refused_rather_than_traced(tmp_path: Path) -> None:
    """A trace would follow one branch, and be right as long as nobody looks at the other."""
    branching = module(lambda self, x: x + 1 if x.sum() > 0 else x - 1)
    with pytest.raises(SourceError, match=r"branches on the values of its inputs.*follow one branch only") as caught:
        export(observe(branching, numbers(2, 3)), tmp_path / "model.onnx")
    assert "torch.where" in caught.value.hint


def test_wrong_numbers_of_an_exporter_stop_the_build(tmp_path: Path) -> None:
    """A pooling that the exporter fixes to the traced size is caught, with tensor, sizes and error."""
    observation = observe(nn.AdaptiveAvgPool2d(2), [numbers(1, 3, n, n) for n in (8, 16)])
    with pytest.raises(
        NumericsError, match="output 'output' of the exported file differs from the module's at sample 0"
    ):
        export(observation, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_model_that_the_runtime_has_no_code_for_is_refused(tmp_path: Path) -> None:
    """B22: BFLOAT16 layers export, and ONNX Runtime cannot run them on a CPU."""
    observation = observe(nn.Linear(4, 3).bfloat16(), numbers(2, 4).bfloat16())
    with pytest.raises(SourceError, match="cannot run on a CPU"):
        export(observation, tmp_path / "model.onnx")


def test_sizes_that_collapse_at_the_traced_size_are_not_declared(tmp_path: Path) -> None:
    """An output that was 1 high when traced, and is 2 high elsewhere, is not declared as 1."""
    halves = nn.Sequential(*(nn.Conv2d(2, 2, 2, stride=2) for _ in range(4)))
    exported = export(observe(halves, [numbers(1, 2, n, n) for n in (16, 32)]), tmp_path / "model.onnx")
    assert not any(isinstance(dim, int) for dim in outputs(exported)["output"][2:])


def test_exporters_say_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Stdout is for results: prints, warnings and logs of exporters do not get there, nor to stderr."""
    unexportable = module(lambda self, x: torch.linalg.eigvals(x).abs())
    with pytest.raises(SourceError):
        export(observe(unexportable, numbers(2, 3, 3)), tmp_path / "model.onnx")
    export(observe(nn.GRU(4, 5, batch_first=True), [numbers(2, 7, 4), numbers(2, 9, 4)]), tmp_path / "model.onnx")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_the_module_is_as_it_was_after_an_export(tmp_path: Path) -> None:
    """Training flags and parameters are untouched, and the user can go on training."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.BatchNorm1d(4)).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    export(observe(model, numbers(4, 4)), tmp_path / "model.onnx")
    assert all(part.training for part in model.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    model(numbers(4, 4)).sum().backward()


def test_the_file_holds_no_shapes_that_only_held_when_traced(tmp_path: Path) -> None:
    """What the runtime can infer is not claimed."""
    exported = export(observe(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), numbers(2, 4)), tmp_path / "model.onnx")
    graph = onnx.load(exported.path).graph
    weights = {weight.name for weight in graph.initializer}
    values = [value for value in graph.value_info if value.name not in weights]
    assert not [value.name for value in values if value.type.tensor_type.HasField("shape")]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_layers_packed_for_pytorch_alone_are_refused_by_name(tmp_path: Path) -> None:
    """Exporters stumble over packed weights in three ways; the reason is one."""
    packed = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 3)), {nn.Linear})
    with pytest.raises(SourceError, match=r"layers quantised by torch\.ao, which have no form in ONNX") as caught:
        export(observe(packed, numbers(2, 4)), tmp_path / "model.onnx")
    assert caught.value.hint == "export the module before it is quantised, and quantise the ONNX file"


def test_a_file_that_fails_at_a_size_says_what_to_do(tmp_path: Path) -> None:
    """Windows that are cut by the size of the image are cut by the traced one."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.sum(1) for part in x.split(2, 1)], 1)

    observation = observe(module(forward), [numbers(2, n) for n in (4, 8)])
    with pytest.raises(SourceError) as caught:
        export(observation, tmp_path / "model.onnx")
    assert "give samples of one size along the axis that cannot move" in caught.value.hint
