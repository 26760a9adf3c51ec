"""Optimisation profiles from contracts, and the one that serves a request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitune.errors import SourceError, UsageError
from aitune.records import DType, TunedTensorSpec
from aitune.records.evidence import InputDomain
from aitune.records.plans import Profile, ProfileRange
from aitune.tensorrt.profiles import profiles_of, split_profile
from aitune.tensorrt.runner import choose_profile

IDS = TunedTensorSpec("ids", DType.INT64, ("batch", "sequence"), (1, 8), (8, 512), 0)
MASK = TunedTensorSpec("mask", DType.INT64, ("batch", "sequence"), (1, 8), (8, 512), 0)
TYPICAL = [InputDomain(name=name, typical_shape=(2, 64)) for name in ("ids", "mask")]


def test_a_profile_is_the_contract_with_the_typical_shape_at_the_largest_batch() -> None:
    """A server that batches sends the largest batch when speed matters."""
    (profile,) = profiles_of([IDS], TYPICAL)
    (item,) = profile.inputs
    assert (item.min, item.opt, item.max) == ((1, 8), (8, 64), (8, 512))


def test_without_a_batch_the_typical_shape_is_taken_as_it_is() -> None:
    """And the largest one where nobody knows a typical one."""
    plain = TunedTensorSpec("ids", DType.INT64, ("n", "sequence"), (1, 8), (8, 512))
    assert profiles_of([plain], TYPICAL)[0].inputs[0].opt == (2, 64)
    assert profiles_of([plain])[0].inputs[0].opt == (8, 512)


def test_a_typical_shape_outside_the_bounds_is_moved_to_them() -> None:
    """Bounds may have been made narrower than the samples."""
    domain = InputDomain(name="ids", typical_shape=(2, 4096))
    assert profiles_of([IDS], [domain])[0].inputs[0].opt == (8, 512)


def test_equal_symbols_are_split_together() -> None:
    """Both inputs of a profile have the same lengths."""
    found = profiles_of([IDS, MASK], TYPICAL, splits={"sequence": (32, 128)})
    assert [[item.max[1] for item in profile.inputs] for profile in found] == [[32, 32], [128, 128], [512, 512]]
    assert [[item.min[1] for item in profile.inputs] for profile in found] == [[8, 8], [33, 33], [129, 129]]


@given(st.lists(st.integers(8, 511), unique=True, max_size=4).map(sorted), st.integers(8, 512))
def test_every_size_lies_in_exactly_one_part(bounds: list[int], size: int) -> None:
    """Parts touch and do not overlap."""
    (whole,) = profiles_of([IDS], TYPICAL)
    parts = split_profile(whole, [IDS], "sequence", bounds)
    assert sum(part.inputs[0].min[1] <= size <= part.inputs[0].max[1] for part in parts) == 1


@pytest.mark.parametrize(
    ("symbol", "bounds"), [("length", (8,)), ("sequence", (64, 32)), ("sequence", (512,)), ("sequence", (4,))]
)
def test_a_split_that_makes_no_sense_is_refused(symbol: str, bounds: tuple[int, ...]) -> None:
    """An unknown symbol, bounds that do not ascend, or lie outside."""
    (whole,) = profiles_of([IDS], TYPICAL)
    with pytest.raises(UsageError, match=symbol):
        split_profile(whole, [IDS], symbol, bounds)


def test_a_shape_tensor_gets_a_range_of_values() -> None:
    """From the domain, for each of its elements."""
    size = TunedTensorSpec("size", DType.INT64, (2,), (2,), (2,))
    domain = InputDomain(name="size", typical_shape=(2,), low=1, high=4)
    (item,) = profiles_of([size], [domain], shape_tensors=["size"])[0].inputs
    assert (item.values, item.min, item.opt, item.max) == (True, (1, 1), (3, 3), (4, 4))
    with pytest.raises(UsageError, match="nobody knows which values"):
        profiles_of([size], shape_tensors=["size"])


def profile(best: int, top: int) -> Profile:
    """One input of one axis."""
    return Profile(inputs=(ProfileRange(name="x", min=(1,), opt=(best,), max=(top,)),))


@pytest.mark.parametrize(("size", "index"), [(1, 0), (6, 0), (14, 1), (20, 1)])
def test_the_nearest_profile_that_holds_a_request_serves_it(size: int, index: int) -> None:
    """As Triton chooses it (R282)."""
    assert choose_profile((profile(4, 10), profile(16, 32)), {"x": (size,)}) == index


def test_a_request_outside_every_profile_is_refused() -> None:
    """B37: the message gives its shape."""
    with pytest.raises(SourceError, match=r"no optimisation profile of the plan holds x \(33,\)"):
        choose_profile((profile(4, 10), profile(16, 32)), {"x": (33,)})
