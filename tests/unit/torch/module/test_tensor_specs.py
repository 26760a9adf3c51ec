"""What a TensorSpec knows beside what merging teaches it."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from aitune.errors import AituneError
from aitune.torch.module.batch_axes import BatchAxisCandidate
from aitune.torch.module.tensor_spec import TensorSpec


def spec(*seen: tuple[tuple[int, ...], int | None]) -> TensorSpec:
    """A spec that saw shapes, each with a batch size."""
    first, *rest = [TensorSpec.from_tensor(torch.zeros(sizes), batch) for sizes, batch in seen]
    for other in rest:
        first.update_shapes_seen(other)
    return first


@pytest.mark.parametrize("batch", [0, -1, 1.5, float("inf"), True, "2"])
def test_a_batch_size_is_a_positive_int(batch: object) -> None:
    """Anything else is refused as a ValueError that repeats it."""
    with pytest.raises(ValueError, match="batch size must be") as caught:
        TensorSpec.from_tensor(torch.zeros(2), batch)  # type: ignore[arg-type]
    assert isinstance(caught.value, AituneError)
    assert repr(batch) in str(caught.value)


def test_normalized_sizes_are_batch_sizes() -> None:
    """A doubled batch of 1 and 2 is 2 and 4 long, and 1 and 2 when normalized."""
    doubled = spec(((2, 4), 1), ((4, 4), 2))
    assert (doubled.get_min_batch_size(), doubled.get_max_batch_size()) == (2, 4)
    assert (doubled.get_min_batch_size(normalized=True), doubled.get_max_batch_size(normalized=True)) == (1, 2)
    assert spec(((1,), 1)).get_min_batch_size(normalized=True) is None


def test_a_second_dtype_does_not_go_unseen() -> None:
    """The first dtype stays, and both can be asked for."""
    one, other = TensorSpec.from_tensor(torch.zeros(1), 1), TensorSpec.from_tensor(torch.zeros(2).long(), 2)
    assert one.has_one_dtype()
    one.update_shapes_seen(other)
    assert (one.dtype, one.dtypes) == (torch.float32, {torch.float32, torch.int64})
    assert not one.has_one_dtype()


def test_one_sample_leaves_open_which_axis_is_the_batch() -> None:
    """With one batch size every axis is a candidate, on evidence 1; a second one decides."""
    open_question = spec(((2, 4), 2))
    assert open_question.batch_candidates() == (BatchAxisCandidate(0, 1, (2,)), BatchAxisCandidate(1, 2, (2,)))
    (settled,) = spec(((2, 4), 2), ((3, 4), 3)).batch_candidates()
    assert (settled.axis, settled.multiplier, settled.evidence) == (0, 1, 2)


def test_a_spec_made_by_hand_proves_its_batch_sizes_by_its_bounds() -> None:
    """Bounds 2 and 16 of a doubled batch say that 1 and 8 were seen, also after it learned more."""
    made = TensorSpec(["batch0", 3], [2, 3], [16, 3], torch.float32, [2.0, float("nan")])
    assert made.batch_sizes == {1, 8}
    made.update_shapes_seen(spec(((8, 3), 4)))
    assert made.batch_sizes == {1, 4, 8}
    assert made.shape == ["batch0", 3]


def test_a_batch_axis_named_by_hand_without_a_ratio_stays_until_a_sample_disagrees() -> None:
    """Merging such a spec with its like changes nothing; a sample with a ratio makes the axis dynamic."""
    made = TensorSpec(["batch0"], [1], [4], None, [float("nan")])
    made.update_shapes_seen(copy.deepcopy(made))
    assert made.shape == ["batch0"]
    made.update_shapes_seen(spec(((2,), 2)))
    assert made.shape == ["dim0"]


def test_a_dim_named_by_hand_wins_over_a_ratio() -> None:
    """A dim stays above batch, whatever ratio stands beside it."""
    learned = spec(((1,), 1), ((2,), 2))
    learned.update_shapes_seen(TensorSpec(["dim0"], [1], [9], torch.float32, [1.0]))
    assert (learned.shape, learned.max_shape) == (["dim0"], [9])


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_the_ragged_axes_of_a_nested_tensor_are_dynamic(layout: torch.layout) -> None:
    """A nested tensor of lengths 2 and 5 has a dynamic axis between 2 and 5."""
    nested = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(5, 3)], layout=layout)
    seen = TensorSpec.from_tensor(nested, 2)
    assert (seen.shape, seen.min_shape, seen.max_shape) == ([2, "dim1", 3], [2, 2, 3], [2, 5, 3])
    assert seen.batch_sizes == {2}


def test_from_dict_refuses_unknown_and_missing_fields() -> None:
    """A field too many or too few is a TypeError, another type a ValueError."""
    state = spec(((1,), 1)).to_dict()
    with pytest.raises(TypeError, match="more"):
        TensorSpec.from_dict({**state, "more": 1})
    with pytest.raises(TypeError, match="dtype"):
        TensorSpec.from_dict({key: value for key, value in state.items() if key != "dtype"})
    with pytest.raises(ValueError, match="'Other'"):
        TensorSpec.from_dict({**state, "type": "Other"})


def test_copies_learn_on_their_own() -> None:
    """A copy, a deep copy and a pickled copy share no list with the spec."""
    learned = spec(((1, 3), 1), ((2, 3), 2))
    for other in (learned.copy(), copy.deepcopy(learned), pickle.loads(pickle.dumps(learned))):
        assert (other.shape, other.batch_sizes) == (learned.shape, learned.batch_sizes)
        other.update_shapes_seen(spec(((9, 3), 9)))
    assert learned.max_shape == [2, 3]


@pytest.mark.parametrize(("number", "answer"), [(2.0, True), (2, True), (2.5, False), (float("nan"), False)])
def test_is_int_says_whether_a_number_is_whole(number: float, answer: bool) -> None:
    """NaN and fractions are not."""
    assert TensorSpec.is_int(number) is answer
