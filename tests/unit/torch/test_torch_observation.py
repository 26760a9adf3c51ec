"""What running a module on its samples shows, and what it must not change."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from aitune.errors import SourceError, UsageError
from aitune.records import DType
from aitune.torch.observation import observe


def module(forward: Callable[..., Any]) -> nn.Module:
    """A module with this ``forward`` (``self`` first)."""
    return type("Model", (nn.Module,), {"forward": forward})()


def shapes(observation: Any) -> dict[str, tuple[Any, ...]]:
    """Names and shapes of the inputs."""
    return {spec.name: spec.shape for spec in observation.inputs}


def random_tensor(*shape: int) -> torch.Tensor:
    """The same numbers in every run of the tests."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_axes_that_vary_become_dynamic() -> None:
    """Batch and length vary across samples, and equal sizes share a symbol."""
    samples = [
        {"ids": torch.ones(b, n, dtype=torch.long), "mask": torch.ones(b, n, dtype=torch.bool)}
        for b, n in [(2, 5), (3, 9)]
    ]
    seen = observe(module(lambda self, ids, mask: (ids * mask).float()), samples)
    assert shapes(seen) == {"ids": ("batch", "sequence"), "mask": ("batch", "sequence")}
    assert [(one.name, one.low, one.high, one.batch) for one in seen.symbols] == [
        ("batch", 1, 8, True),
        ("sequence", 5, 9, False),
    ]
    assert [spec.dtype for spec in seen.inputs] == [DType.INT64, DType.BOOL]


def test_one_batch_size_makes_the_observer_ask() -> None:
    """A single sample is enough: the module is run at other batch sizes."""
    seen = observe(nn.Linear(4, 3), random_tensor(1, 4))
    assert shapes(seen) == {"input": ("batch", 4)}
    assert seen.symbols[0].invented
    assert seen.trace["batch"] >= 2


def test_a_module_that_refuses_other_batches_stays_fixed() -> None:
    """No axis is called dynamic that the module does not take."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] != 4:
            raise ValueError("four rows")
        return x.reshape(2, 2, 5)

    assert shapes(observe(module(forward), random_tensor(4, 5))) == {"x": (4, 5)}


def test_the_batch_may_lie_on_axis_1() -> None:
    """Every output of a sequence-first GRU has the batch on axis 1, so that is the batch (B11)."""
    seen = observe(nn.GRU(4, 5), random_tensor(7, 2, 4))
    assert shapes(seen) == {"input": (7, "batch", 4)}


@pytest.mark.parametrize("samples", [random_tensor(7, 2, 4), [random_tensor(7, 2, 4), random_tensor(9, 3, 4)]])
def test_steps_are_not_taken_for_rows(samples: Any) -> None:
    """Both axes grow the output of a sequence-first net; only rows of a batch may come in any order."""
    net = module(lambda self, x: self.memory(x)[0])
    net.memory = nn.GRU(4, 5)
    seen = observe(net, samples)
    assert next(one.axes for one in seen.symbols if one.batch) == ((0, 1),)
    assert seen.batch_elsewhere == "axis 1 of input 'x' and axis 1 of output 'output'"


def test_rows_may_come_out_on_another_axis() -> None:
    """The mean over the steps of a sequence-first batch has its rows first."""
    seen = observe(module(lambda self, x: x.cumsum(0).mean(0)), random_tensor(7, 2, 4))
    assert shapes(seen) == {"x": (7, "batch", 4)}
    assert seen.batch_elsewhere == "axis 1 of input 'x'"


def test_inputs_without_a_batch_are_told_apart() -> None:
    """Anchors of an accidentally equal size do not grow with the batch (B03)."""
    seen = observe(
        module(lambda self, x, anchors: x @ anchors), {"x": random_tensor(4, 4), "anchors": random_tensor(4, 3)}
    )
    assert shapes(seen) == {"x": ("batch", 4), "anchors": (4, 3)}


def test_height_and_width_of_square_images_are_independent() -> None:
    """Square samples do not make every image square; where the module insists, they do."""
    images = [random_tensor(1, 3, n, n) for n in (16, 32)]
    assert shapes(observe(nn.Conv2d(3, 4, 3), images))["input"] == ("batch", 3, "height", "width")
    square = module(lambda self, x: x @ x)
    seen = observe(square, images)
    assert shapes(seen)["x"] == ("batch", 3, "height", "height")
    assert "width: the module refuses another size" in " ".join(seen.notes)


def test_equal_batch_and_length_are_still_two_sizes() -> None:
    """Samples of 2 x 2 and 4 x 4 have two dynamic axes, not one."""
    samples = [random_tensor(2, 2, 3), random_tensor(4, 4, 3)]
    assert shapes(observe(module(lambda self, x: x * 2), samples))["x"] == ("batch", "x_dim1", 3)


def test_options_override_what_samples_show() -> None:
    """Bounds of the user win, and make axes dynamic that no sample varied."""
    seen = observe(
        nn.Conv2d(3, 4, 3),
        random_tensor(1, 3, 16, 16),
        min_shapes={"input": (1, 3, 8, 8)},
        opt_shapes={"input": (2, 3, 16, 16)},
        max_shapes={"input": (4, 3, 32, 64)},
    )
    assert [(one.name, one.low, one.typical, one.high) for one in seen.symbols] == [
        ("batch", 1, 2, 4),
        ("height", 8, 16, 32),
        ("width", 8, 16, 64),
    ]
    assert seen.outputs[0].shape == (None, 4, None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_shapes": {"y": (4, 4)}}, "there is no input 'y' to give a shape to"),
        ({"max_shapes": {"x": (4,)}}, "needs 2 sizes >= 1, got"),
        ({"min_shapes": {"x": (4, 4)}, "max_shapes": {"x": (2, 4)}}, "must not shrink"),
        ({"input_names": {"y": "z"}}, "there is no input 'y' to rename"),
        ({"output_names": ["x"]}, "'x' is the name of an input and of an output"),
        ({"output_names": ["a", "b"]}, "2 output names were given for 1 outputs"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    """Names and shapes are checked against what is there."""
    with pytest.raises(UsageError, match=message):
        observe(module(lambda self, x: x * 2), random_tensor(2, 4), **options)


def test_tied_axes_cannot_have_two_maxima() -> None:
    """What always had one size in the samples is asked for one size."""
    samples = [{"a": random_tensor(1, n), "b": random_tensor(1, n)} for n in (4, 6)]
    with pytest.raises(UsageError, match="always have one size in the samples, but 8 and 9"):
        observe(module(lambda self, a, b: a + b), samples, max_shapes={"a": (1, 8), "b": (1, 9)})


@dataclass
class Boxes:
    """A dataclass that goes in and comes out."""

    left: torch.Tensor
    right: torch.Tensor


def test_nested_inputs_and_outputs_get_names() -> None:
    """Dicts, lists, dataclasses, ``*args`` and None in and out (B13)."""

    def forward(self: Any, boxes: Boxes, *more: torch.Tensor, scale: float) -> dict[str, Any]:
        total = boxes.left + more[0] * scale
        return {"boxes": Boxes(total, boxes.right), "parts": [total, None, 3]}

    sample = {"boxes": Boxes(random_tensor(2, 3), random_tensor(2, 3)), "more": (random_tensor(2, 3),), "scale": 2.0}
    seen = observe(module(forward), sample, output_names={"parts.0": "total"})
    assert list(shapes(seen)) == ["boxes.left", "boxes.right", "more.0"]
    assert [spec.name for spec in seen.outputs] == ["boxes.left_out", "boxes.right_out", "total"]
    notes = " ".join(seen.notes)
    assert "scale=2.0" in notes
    assert "is a int, not a tensor: it is left out" in notes
    assert "'boxes.left' is called 'boxes.left_out'" in notes


def test_the_module_is_left_as_it_was_found() -> None:
    """Training flags, buffers and random states are restored, also when the module raises."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.drop = nn.BatchNorm1d(3), nn.Dropout(0.5)
            self.drop.eval()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            torch.rand(3), random.random(), np.random.rand()
            return self.drop(self.norm(x))

    model = Model().train()
    model.drop.eval()
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist())
    seen = observe(model, random_tensor(4, 3))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (random.getstate(), np.random.get_state()[1].tolist())
    assert (model.training, model.norm.training, model.drop.training) == (True, True, False)
    assert model.calls.item() == 0
    assert model.norm.num_batches_tracked.item() == 0
    assert "forward changes buffer 'calls'" in " ".join(seen.notes)


def test_inputs_changed_in_place_are_said_and_not_touched() -> None:
    """The module gets copies, the user's sample keeps its values."""
    x = random_tensor(2, 3)
    before = x.clone()
    seen = observe(module(lambda self, x: x.add_(1) * 2), {"x": x})
    assert torch.equal(x, before)
    assert "forward changes input 'x' in place" in " ".join(seen.notes)
    assert seen.flat.changed == {0}


def test_dropout_left_on_is_found() -> None:
    """Two runs on one sample differ (B40's cousin): say so, with the output's name."""
    with pytest.raises(SourceError, match="another 'output' for the same sample in a second run: it draws random"):
        observe(module(lambda self, x: nn.functional.dropout(x)), random_tensor(8, 8))


def test_a_counter_that_changes_the_answer_is_found() -> None:
    """A model with state gives other answers each time."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count

    model = module(forward)
    model.register_buffer("count", torch.zeros(1))
    with pytest.raises(SourceError, match="it changes its buffer 'count'"):
        observe(model, random_tensor(2, 2))


def test_nothing_but_nan_is_refused_and_some_is_said() -> None:
    """A model that only answers NaN is broken; one that sometimes does may mean it."""
    with pytest.raises(SourceError, match="nothing but NaN in 'output'"):
        observe(module(lambda self, x: x * float("nan")), random_tensor(2, 2))
    seen = observe(module(lambda self, x: x.sqrt()), random_tensor(4, 4))
    assert "output 'output' has NaN" in " ".join(seen.notes)


def test_a_module_that_raises_is_named_with_its_line() -> None:
    """Class, sample, error and the line of the user's file."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        raise KeyError("weights")

    message = r"forward of Model on sample 0 raised KeyError: 'weights' \(test_torch_observation\.py:\d+\)"
    with pytest.raises(SourceError, match=message):
        observe(module(forward), random_tensor(2, 2))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "there are no samples"),
        ("text", "samples must be a dict"),
        ([torch.zeros(2, 3), torch.zeros(2, 3, 1)], "x has 2 axes in sample 0 and 3 in sample 1"),
        ([torch.zeros(2), torch.zeros(2).long()], "x is torch.float32 in sample 0 and torch.int64 in sample 1"),
        ([{"x": torch.zeros(2)}, {"x": [torch.zeros(2)]}], "built differently from sample 0: it lacks x"),
        ([{"x": torch.zeros(2)}, {"x": torch.zeros(2), "k": 2}], "k is absent in sample 0 and 2 in sample 1"),
        (torch.zeros(0, 3), "x is empty in the sample"),
        ({"x": 3}, "the sample holds no tensor"),
        (torch.zeros(2, dtype=torch.complex64), "input 'x' is complex64, which cannot be served"),
        (torch.zeros(2, 2).to_sparse(), "input 'x' is a sparse tensor"),
    ],
)
def test_samples_that_cannot_be_learned_together_are_refused(samples: Any, message: str) -> None:
    """Number of axes, element type, structure and emptiness are checked, and the sample is named."""
    with pytest.raises(SourceError, match=message):
        observe(module(lambda self, x, k=None: x * 2), samples)


def test_a_value_that_is_no_tensor_must_be_the_same_everywhere() -> None:
    """It becomes part of the graph, so two values cannot be."""
    samples = [{"x": torch.ones(2), "k": 1.0}, {"x": torch.ones(2), "k": 2.0}]
    with pytest.raises(SourceError, match=r"k is 1\.0 in sample 0 and 2\.0 in sample 1"):
        observe(module(lambda self, x, k: x * k), samples)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda x: x, "must be a torch.nn.Module, found function"),
        (torch.jit.script(nn.Linear(1, 1)), "found a scripted Linear"),
        (nn.LazyLinear(3), "is not initialised yet"),
        (nn.Linear(2, 2, device="meta"), "meta device"),
        (nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2, device="meta")]), "several devices: '0.weight' on cpu"),
    ],
)
def test_models_that_cannot_run_are_refused(model: Any, message: str) -> None:
    """What is no module, has no values or lies in two places says so."""
    with pytest.raises(SourceError, match=message):
        observe(model, torch.zeros(2, 2))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned no tensor, found None"),
        ({"a": 3}, "returned no tensor, found dict"),
        (torch.ones(2, dtype=torch.complex64), "output 'output' is complex64"),
        (torch.ones(2).to_sparse(), "output 'output' is a sparse tensor"),
    ],
)
def test_answers_that_cannot_be_served_are_refused(returned: Any, message: str) -> None:
    """No tensor at all, and tensors that no contract can hold."""
    with pytest.raises(SourceError, match=message):
        observe(module(lambda self, x: returned), torch.zeros(2, 2))


def test_lengths_that_are_not_random_are_narrowed() -> None:
    """Random lengths longer than the sequence are refused by the module, so requests use the smallest."""

    def forward(self: Any, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        if int(lengths.max()) > x.shape[1]:
            raise ValueError("too long")
        return x.sum(1) / lengths

    samples = [{"x": random_tensor(2, n), "lengths": torch.tensor([2, n])} for n in (4, 9)]
    seen = observe(module(forward), samples)
    assert (seen.domains[1].low, seen.domains[1].high) == (2, 2)
    assert "input 'lengths' is always 2 in made-up requests" in " ".join(seen.notes)


def test_value_ranges_come_from_the_samples() -> None:
    """Integers stay within what was seen, so an embedding is never asked for a row it lacks (B56)."""
    seen = observe(nn.Embedding(10, 3), torch.tensor([[1, 9], [4, 2]]))
    assert (seen.domains[0].low, seen.domains[0].high) == (1, 9)
    assert seen.metadata[0].tensor_data[0][1].shape[0] == "batch0"


def test_numpy_samples_are_taken() -> None:
    """Tokenisers return arrays as well."""
    assert shapes(observe(nn.Linear(4, 3), {"input": np.zeros((2, 4), np.float32)})) == {"input": ("batch", 4)}


def test_an_axis_that_is_squeezed_away_fixes_the_batch() -> None:
    """At another batch the answer has an axis more: that is no answer."""
    seen = observe(module(lambda self, x: x.squeeze(0).cumsum(-1)), random_tensor(1, 4))
    assert shapes(seen) == {"x": (1, 4)}


def test_answers_of_different_rank_are_refused_with_advice() -> None:
    """A bare squeeze drops the batch when it is 1."""
    with pytest.raises(
        SourceError, match="'output' as float32 with 1 axes for sample 0 and as float32 with 2 axes"
    ) as e:
        observe(module(lambda self, x: x.squeeze()), [random_tensor(1, 4), random_tensor(3, 4)])
    assert "squeeze(-1)" in e.value.hint
