"""Learning forms a lattice: what samples teach depends on which there were, not on order, grouping or repetition."""

from __future__ import annotations

import itertools
import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from aitune.torch.module.sample_metadata import SampleMetadata
from aitune.torch.module.tensor_spec import TensorSpec

Sample = tuple[int | None, tuple[int, ...], torch.dtype]
DTYPES = (torch.float32, torch.int64)


@st.composite
def samples(draw: st.DrawFn, rank: int = 2) -> Sample:
    """A batch size, sizes of which many follow it, and a dtype."""
    batch = draw(st.sampled_from([1, 2, 3, 4, 6, None]))
    size = st.one_of(st.integers(0, 6), st.sampled_from([(batch or 1) * k for k in (1, 2, 3)]))
    return batch, tuple(draw(size) for _ in range(rank)), draw(st.sampled_from(DTYPES))


lists_of_samples = st.lists(samples(), min_size=1, max_size=5)


def spec_of(*seen: Sample) -> TensorSpec:
    """The spec that saw samples in order."""
    first, *rest = [TensorSpec.from_tensor(torch.zeros(sizes, dtype=dtype), batch) for batch, sizes, dtype in seen]
    for other in rest:
        first.update_shapes_seen(other)
    return first


def merged(*specs: TensorSpec) -> TensorSpec:
    """A new spec that learned from all of them."""
    first, *rest = [spec.copy() for spec in specs]
    for other in rest:
        first.update_shapes_seen(other)
    return first


def known(spec: TensorSpec) -> tuple[object, ...]:
    """All that a spec has learned; its dtype is by contract that of the first sample."""
    ratios = [None if math.isnan(ratio) else ratio for ratio in spec._bs_multipliers]
    return spec.shape, spec.min_shape, spec.max_shape, ratios, spec.batch_sizes, spec.dtypes


def expected_label(axis: int, seen: list[Sample]) -> int | str:
    """The label by its definition, from all samples at once."""
    sizes = [sizes[axis] for _, sizes, _ in seen]
    if len(set(sizes)) == 1:
        return sizes[0]
    ratios = {sizes[axis] / batch if batch else math.nan for batch, sizes, _ in seen}
    (ratio, *others) = ratios
    return f"batch{axis}" if not others and ratio >= 1 and ratio.is_integer() else f"dim{axis}"


@given(lists_of_samples)
def test_a_label_is_what_all_samples_together_say(seen: list[Sample]) -> None:
    """Labels, bounds, batch sizes and dtypes follow from the set of samples."""
    spec = spec_of(*seen)
    assert spec.shape == [expected_label(axis, seen) for axis in range(2)]
    assert spec.min_shape == [min(sizes[axis] for _, sizes, _ in seen) for axis in range(2)]
    assert spec.max_shape == [max(sizes[axis] for _, sizes, _ in seen) for axis in range(2)]
    assert spec.batch_sizes == {batch for batch, _, _ in seen if batch}
    assert spec.dtypes == {dtype for _, _, dtype in seen}


@given(st.lists(samples(rank=1), min_size=1, max_size=4))
def test_neither_order_nor_repetition_counts(seen: list[Sample]) -> None:
    """Every permutation, and one with every sample twice, teaches the same."""
    wanted = known(spec_of(*seen))
    assert all(known(spec_of(*order)) == wanted for order in itertools.permutations(seen))
    assert known(spec_of(*seen, *seen)) == wanted


@given(lists_of_samples, lists_of_samples)
def test_merging_is_commutative(left: list[Sample], right: list[Sample]) -> None:
    """Two learned specs teach each other the same."""
    one, other = spec_of(*left), spec_of(*right)
    assert known(merged(one, other)) == known(merged(other, one)) == known(spec_of(*left, *right))


@given(lists_of_samples, lists_of_samples, lists_of_samples)
def test_merging_is_associative(first: list[Sample], second: list[Sample], third: list[Sample]) -> None:
    """How learned specs are grouped does not count."""
    a, b, c = spec_of(*first), spec_of(*second), spec_of(*third)
    assert known(merged(merged(a, b), c)) == known(merged(a, merged(b, c)))


@given(lists_of_samples)
def test_merging_is_idempotent(seen: list[Sample]) -> None:
    """What is known already, oneself included, teaches nothing."""
    spec = spec_of(*seen)
    wanted = known(spec)
    spec.update_shapes_seen(spec)
    assert known(spec) == known(merged(spec, spec)) == wanted


@given(lists_of_samples, lists_of_samples)
def test_merging_never_loses_a_bound_nor_lowers_a_label(left: list[Sample], right: list[Sample]) -> None:
    """Bounds only widen, and labels only move up from one size over batch to dim."""
    before, after = spec_of(*left), merged(spec_of(*left), spec_of(*right))
    assert all(new <= old for new, old in zip(after.min_shape, before.min_shape, strict=True))
    assert all(new >= old for new, old in zip(after.max_shape, before.max_shape, strict=True))
    rank = {"b": 1, "d": 2}
    steps = [(rank.get(str(e)[0], 0), rank.get(str(f)[0], 0)) for e, f in zip(before.shape, after.shape, strict=True)]
    assert all(old <= new for old, new in steps)


@given(lists_of_samples)
def test_a_candidate_axis_is_backed_by_every_sample(seen: list[Sample]) -> None:
    """An axis may be the batch axis exactly when one whole multiplier fits all samples."""
    found = {one.axis: one for one in spec_of(*seen).batch_candidates()}
    for axis in range(2):
        fits = [k for k in range(1, 40) if all(batch and sizes[axis] == k * batch for batch, sizes, _ in seen)]
        assert [found[axis].multiplier] == fits if axis in found else not fits
    assert all(one.batch_sizes == tuple(sorted({batch for batch, _, _ in seen if batch})) for one in found.values())


@given(lists_of_samples, lists_of_samples)
def test_metadata_learns_as_its_specs_do(left: list[Sample], right: list[Sample]) -> None:
    """Two metadata merged either way know the same about every tensor."""

    def learned(seen: list[Sample]) -> SampleMetadata:
        first, *rest = [
            SampleMetadata.from_inputs({"x": torch.zeros(sizes, dtype=dtype)}, batch_size=batch)
            for batch, sizes, dtype in seen
        ]
        for other in rest:
            first.update_shapes_seen(other)
        return first

    one, other = learned(left), learned(right)
    one.update_shapes_seen(learned(right))
    other.update_shapes_seen(learned(left))
    assert known(one.tensor_specs[0]) == known(other.tensor_specs[0])


@given(lists_of_samples)
def test_a_spec_survives_being_written_down(seen: list[Sample]) -> None:
    """from_dict is the exact inverse of to_dict, evidence included."""
    spec = spec_of(*seen)
    assert known(TensorSpec.from_dict(spec.to_dict())) == known(spec)
