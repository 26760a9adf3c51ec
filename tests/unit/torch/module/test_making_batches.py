"""Inputs at another batch size: right rows, nothing shared, nothing lost."""

from __future__ import annotations

import copy
import dataclasses
import threading
import types
from collections import OrderedDict, UserDict, defaultdict
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aitune.torch.module.errors import CycleError
from aitune.torch.module.locator import Locator
from aitune.torch.module.sample_metadata import SampleMetadata, batch_tensor


def learned(*samples: tuple[object, int]) -> SampleMetadata:
    """Metadata that saw inputs, each with a batch size."""
    first, *rest = [SampleMetadata.from_inputs(inputs, batch_size=batch) for inputs, batch in samples]
    for other in rest:
        first.update_shapes_seen(other)
    return first


def rows(count: int, *more: int) -> torch.Tensor:
    """A tensor whose rows differ."""
    return torch.arange(count * torch.Size(more).numel(), dtype=torch.float32).reshape(count, *more)


SIMPLE = learned(({"x": rows(1, 2)}, 1), ({"x": rows(2, 2)}, 2))


@given(st.integers(1, 5), st.integers(1, 12))
def test_rows_are_taken_in_turn(have: int, want: int) -> None:
    """Row i of a made batch is row i modulo the number of rows there were."""
    given_rows = rows(have, 2)
    made = SIMPLE.make_batch({"x": given_rows}, want)["x"]
    assert torch.equal(made, given_rows[torch.arange(want) % have])
    assert torch.equal(batch_tensor(given_rows, SIMPLE.tensor_specs[0], want), made)


@pytest.mark.parametrize("want", [1, 2, 3, 4])
def test_a_made_batch_shares_no_memory(want: int) -> None:
    """Writing into what was made leaves the inputs alone, and a small batch does not hold on to a large one."""
    inputs = {"x": rows(3, 2), "other": torch.zeros(2), "list": [1]}
    before = copy.deepcopy(inputs)
    made = SIMPLE.make_batch(inputs, want)
    made["x"].fill_(-1)
    made["other"].fill_(-1)
    made["list"].append(2)
    assert torch.equal(inputs["x"], before["x"])
    assert torch.equal(inputs["other"], before["other"])
    assert inputs["list"] == [1]
    assert made["x"].untyped_storage().nbytes() == want * 2 * 4


class Pair(NamedTuple):
    """A named tuple."""

    left: Any
    right: Any = "r"


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    """A frozen dataclass with slots and a field that its constructor does not take."""

    left: Any
    right: Any = "r"
    computed: int = dataclasses.field(default=7, init=False)


@dataclasses.dataclass
class Plain:
    """A dataclass with an attribute that is no field."""

    left: Any
    right: Any = "r"

    def __post_init__(self) -> None:
        self.extra = ["kept"]


class Names(list[Any]):
    """A list class."""


class Read(dict[Any, Any]):
    """A dict class."""


@pytest.mark.parametrize(
    "wrap",
    [
        lambda t: [t, "r"],
        lambda t: (t, "r"),
        lambda t: Pair(t),
        lambda t: Frozen(t),
        lambda t: Plain(t),
        lambda t: Names([t, "r"]),
        lambda t: Read(left=t, right="r"),
        lambda t: OrderedDict(left=t, right="r"),
        lambda t: UserDict(left=t, right="r"),
        lambda t: defaultdict(list, left=t, right="r"),
        lambda t: types.MappingProxyType({"left": t, "right": "r"}),
    ],
)
def test_every_container_keeps_its_type_and_its_other_parts(wrap: Any) -> None:
    """What held the tensor is made anew, of the same type, with everything else in it."""
    metadata = learned(({"x": [wrap(rows(1))]}, 1), ({"x": [wrap(rows(2))]}, 2))
    old = wrap(rows(2))
    made = metadata.make_batch({"x": [old]}, 4)["x"][0]
    assert type(made) is type(old)
    assert made is not old
    parts = [value for _, value in Locator.find_leaves(made)]
    assert parts[0].tolist() == [0, 1, 0, 1]
    assert parts[1:] == [value for _, value in Locator.find_leaves(old)][1:]
    assert getattr(made, "extra", ["kept"]) == ["kept"]
    assert getattr(made, "extra", 1) is not getattr(old, "extra", 2)
    assert getattr(made, "default_factory", list) is list


def test_a_registered_object_is_copied_whole() -> None:
    """Private state is copied, public tensors are resized, and the original stays as it was."""

    class Cache:
        def __init__(self, batch: int) -> None:
            self.keys, self._scratch, self.n = rows(batch, 2), torch.zeros(3), 4

    Locator.register_user_type(Cache)
    metadata = learned(({"c": Cache(1)}, 1), ({"c": Cache(2)}, 2))
    old = Cache(2)
    made = metadata.make_batch({"c": old}, 5)["c"]
    assert (made.keys.shape, old.keys.shape, made.n) == ((5, 2), (2, 2), 4)
    assert made._scratch.data_ptr() != old._scratch.data_ptr()
    Locator.unregister_user_type(Cache)


def test_one_tensor_at_two_places_stays_one() -> None:
    """Inputs that are tied stay tied, also when their size changes."""
    metadata = learned(({"x": rows(1), "y": rows(1)}, 1), ({"x": rows(2), "y": rows(2)}, 2))
    tied = rows(2)
    made = metadata.make_batch({"x": tied, "y": tied, "z": tied}, 3)
    assert made["x"] is made["y"]
    assert made["z"].shape == (2,)


def test_a_gradient_is_asked_for_where_it_was() -> None:
    """Leaves and results of a computation alike become leaves that require a gradient; others do not."""
    leaf = torch.ones(2, requires_grad=True)
    metadata = learned(({"x": rows(1)}, 1), ({"x": rows(2)}, 2))
    for tensor in (leaf, leaf * 2, torch.nn.Parameter(torch.ones(2))):
        for want in (1, 2, 3):
            made = metadata.make_batch({"x": tensor, "y": tensor}, want)
            assert made["x"].requires_grad
            assert made["x"].is_leaf
            assert made["y"].requires_grad
    assert not metadata.make_batch({"x": rows(2)}, 3)["x"].requires_grad


@pytest.mark.parametrize("size", [0, -1, 2.5, None, float("nan"), True])
def test_a_batch_to_make_has_at_least_one_row(size: Any) -> None:
    """Sizes below 1 and things that are no size are refused by every way to make a batch."""
    for make in (
        lambda: SIMPLE.make_batch({"x": rows(1, 2)}, size),
        lambda: batch_tensor(rows(1, 2), SIMPLE.tensor_specs[0], size),
        lambda: SIMPLE.update_max_batch_size({"x": rows(1, 2)}, size),
    ):
        with pytest.raises(ValueError, match="batch size"):
            make()


def test_rows_cannot_be_made_of_none() -> None:
    """An empty batch cannot grow, and the message names the axis."""
    with pytest.raises(ValueError, match="axis 0, found none"):
        SIMPLE.make_batch({"x": rows(0, 2)}, 1)
    with pytest.raises(ValueError, match="axis 0, found none"):
        SIMPLE.update_max_batch_size({"x": rows(0, 2)}, 1)


@pytest.mark.parametrize(
    ("seen", "given_inputs", "error", "words"),
    [
        (lambda t: {"x": t}, {"y": 1}, KeyError, "below 'x', found a dict without it"),
        (lambda t: {"x": [1, t]}, {"x": [1]}, IndexError, "below 1, found a list"),
        (lambda t: {"x": (1, t)}, {"x": (1,)}, IndexError, "below 1, found a tuple"),
        (lambda t: {"x": Plain(1, t)}, {"x": 5}, AttributeError, "below 'right', found a int"),
        (lambda t: {"x": [t]}, {"x": torch.zeros(1)}, AttributeError, "below 0, found a Tensor"),
        (lambda t: {"x": t}, {"x": "text"}, AttributeError, "found a str in its place"),
        (lambda t: {"x": t}, {"x": [1]}, AttributeError, "found a list in its place"),
        (lambda t: t, [1], AttributeError, "found a list in its place"),
        (lambda t: {"x": [t]}, {"x": "text"}, AttributeError, "below 0, found a str"),
    ],
)
def test_inputs_that_are_built_otherwise_are_refused(
    seen: Any, given_inputs: Any, error: type[Exception], words: str
) -> None:
    """Where a tensor was learned and none is found, the error is the built-in one for it, and says what was found."""
    metadata = learned((seen(rows(1)), 1), (seen(rows(2)), 2))
    with pytest.raises(error, match=words):
        metadata.make_batch(given_inputs, 3)


def test_a_missing_batch_axis_is_an_index_error() -> None:
    """A tensor of too low a rank is refused by the axis that it lacks."""
    metadata = learned(({"x": rows(2, 1)}, 1), ({"x": rows(2, 2)}, 2))
    for make in (
        lambda: metadata.make_batch({"x": rows(2)}, 3),
        lambda: metadata.update_max_batch_size({"x": rows(2)}, 3),
    ):
        with pytest.raises(IndexError, match="batch axis 1 was learned"):
            make()


def test_a_lone_tensor_is_a_batch_too() -> None:
    """Metadata of a bare tensor, or of no tensor at all, makes what it was given."""
    metadata = learned((rows(1), 1), (rows(2), 2))
    assert metadata.make_batch(rows(2), 3).tolist() == [0, 1, 0]
    assert SampleMetadata((), ()).make_batch("text", 3) == "text"


def test_a_list_may_come_back_as_a_tuple() -> None:
    """What was learned on a list holds for a tuple."""
    metadata = learned(({"x": [rows(1)]}, 1), ({"x": [rows(2)]}, 2))
    assert metadata.make_batch({"x": (rows(2),)}, 3)["x"][0].shape == (3,)


def test_depth_is_no_obstacle_and_a_circle_is_refused() -> None:
    """A tensor inside 3000 lists is resized; a list that holds itself is an error, not an endless loop."""

    def nested(tensor: torch.Tensor) -> object:
        data: object = tensor
        for _ in range(3000):
            data = [data]
        return {"x": data}

    metadata = learned((nested(rows(1)), 1), (nested(rows(2)), 2))
    ((_, tensor),) = Locator.find_leaves(metadata.make_batch(nested(rows(2)), 3))
    assert tensor.shape == (3,)
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(CycleError):
        metadata.make_batch({"x": circle}, 3)


def test_other_leaves_are_copied_once() -> None:
    """An object that is no tensor is copied, and stays one object where it occurs twice."""
    lock_free = types.SimpleNamespace(value=[1])
    made = SIMPLE.make_batch({"x": rows(1, 2), "a": lock_free, "b": lock_free, "set": {1}}, 2)
    assert made["a"] is made["b"] is not lock_free
    assert made["a"].value == [1]
    assert made["set"] == {1}


def test_only_the_shared_axis_moves_when_that_is_asked_for() -> None:
    """A sequence that doubled along with the batch keeps its length."""
    metadata = learned(({"x": rows(1, 8)}, 1), ({"x": rows(2, 16)}, 2))
    assert metadata.make_batch({"x": rows(1, 8)}, 4)["x"].shape == (4, 32)
    assert metadata.make_batch({"x": rows(1, 8)}, 4, shared_axis_only=True)["x"].shape == (4, 8)
    assert metadata.make_batch({"x": rows(1, 8)}, 4)["x"].shape == (4, 32)


def test_changing_a_spec_by_hand_changes_the_next_batch() -> None:
    """Batches follow the specs as they are now."""
    metadata = learned(({"x": rows(1)}, 1), ({"x": rows(2)}, 2))
    assert metadata.make_batch({"x": rows(1)}, 3)["x"].shape == (3,)
    metadata.tensor_specs[0]._bs_multipliers[0] = 2.0
    assert metadata.make_batch({"x": rows(1)}, 3)["x"].shape == (6,)
    metadata.tensor_specs[0].shape[0] = "dim0"
    assert metadata.make_batch({"x": rows(1)}, 3)["x"].shape == (1,)


def test_the_largest_batch_is_learned_without_making_it() -> None:
    """A batch of 10^12 rows is learned at once; it counts as a bound, not as evidence."""
    metadata = learned(({"x": rows(1, 4)}, 1), ({"x": rows(2, 4)}, 2))
    metadata.update_max_batch_size({"x": rows(2, 4)}, 10**12)
    (spec,) = metadata.tensor_specs
    assert (spec.shape, spec.max_shape, spec.batch_sizes) == (["batch0", 4], [10**12, 4], {1, 2})


def test_without_a_batch_axis_no_batch_size_is_learned() -> None:
    """One sample proves no batch axis, and asking for a larger batch does not spoil what the next sample teaches."""
    metadata = learned(({"x": rows(2, 4)}, 2))
    metadata.update_max_batch_size({"x": rows(2, 4)}, 8)
    metadata.update_shapes_seen(learned(({"x": rows(3, 4)}, 3)))
    assert metadata.tensor_specs[0].shape == ["batch0", 4]


def test_batches_are_made_in_threads_at_once() -> None:
    """One metadata serves many threads."""
    made: list[int] = []
    sizes = range(1, 9)
    threads = [
        threading.Thread(target=lambda n=n: made.append(len(SIMPLE.make_batch({"x": rows(2, 2)}, n)["x"])))
        for n in sizes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == list(sizes)


def test_a_dataclass_keeps_a_default_that_only_its_class_holds() -> None:
    """A field deleted from the instance is read from the class, and other attributes are copied beside it."""
    metadata = learned(({"x": Plain(rows(1))}, 1), ({"x": Plain(rows(2))}, 2))
    old = Plain(rows(2))
    del old.right
    made = metadata.make_batch({"x": old}, 3)["x"]
    assert (made.left.shape, made.right, made.extra) == ((3,), "r", ["kept"])
    assert made.extra is not old.extra
