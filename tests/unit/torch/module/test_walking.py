"""Which objects a walk goes into, and that it always ends."""

from __future__ import annotations

import dataclasses
import gc
import types
import warnings
import weakref
from collections import UserDict
from collections.abc import Iterator
from functools import cached_property

import pytest
import torch

from aitune.torch.config import config
from aitune.torch.module import containers
from aitune.torch.module.errors import CycleError
from aitune.torch.module.locator import Locator, ObjectType
from aitune.torch.module.sample_metadata import SampleMetadata
from aitune.torch.module.unwalked import HiddenTensorWarning


def places(data: object, **options: bool) -> list[str]:
    """The display paths of all leaves."""
    return [place.display_path for place, _ in Locator.find_leaves(data, **options)]


class Holder:
    """A class to register; its instances are made with any attributes."""

    shared = 1

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)

    @cached_property
    def computed(self) -> int:
        """Computed, so not data."""
        raise AssertionError("a walk must not compute anything")

    @classmethod
    def made(cls) -> Holder:
        """Callable, so not data."""
        return cls()


class Child(Holder):
    """A subclass about which nothing is said."""


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test() -> Iterator[None]:
    yield
    for cls in (Holder, Child):
        Locator.unregister_user_type(cls)
        Locator.unignore_type(cls)


def test_the_nearest_ancestor_about_which_something_was_said_decides() -> None:
    """A registered class is walked in its subclasses too, until one of them is ignored."""
    Locator.register_user_type(Holder)
    assert places(Child(t=torch.zeros(1))) == [".shared", ".t"]
    Locator.ignore_type(Child)
    assert places({"c": Child(t=1), "h": Holder(t=1)}) == ["h.shared", "h.t"]
    Locator.unignore_type(Child)
    assert places(Child(t=1)) == [".shared", ".t"]


def test_only_tensors_ends_where_another_registration_begins() -> None:
    """Below a tensors-only object other leaves are left out, except below one registered without that."""
    Locator.register_user_type(Holder, only_tensors=True)
    Locator.register_user_type(Child)
    data = Holder(a=1, b=[2, torch.zeros(1)], c=Child(d=3), e=4)
    assert places([data, 5]) == ["[0].b[1]", "[0].c.d", "[0].c.shared", "[1]"]


def test_ignoring_holds_for_builtin_classes_too() -> None:
    """Whatever class is ignored is neither walked nor returned, and walked again afterwards."""
    Locator.ignore_type(tuple)
    assert places({"a": (1,), "b": [2]}) == ["b[0]"]
    Locator.unignore_type(tuple)
    assert places({"a": (1,), "b": [2]}) == ["a[0]", "b[0]"]


def test_unset_slots_and_fields_are_passed_over() -> None:
    """A slot or a computed field that was never set is no leaf and no error."""

    class Slotted(Holder):
        __slots__ = ("a", "b")

    @dataclasses.dataclass
    class Later:
        now: int
        later: int = dataclasses.field(init=False)

    Locator.register_user_type(Holder)
    some = Slotted()
    some.a = 1  # type: ignore[attr-defined]
    assert places([some, Later(1)]) == ["[0].a", "[0].shared", "[1].now"]


@pytest.mark.parametrize("wrap", [types.MappingProxyType, UserDict, dict])
def test_every_mapping_is_walked(wrap: type) -> None:
    """Read-only and user-made mappings hold tensors like any dict."""
    assert places({"m": wrap({"k": torch.zeros(1)})}) == ['m["k"]']


@pytest.mark.parametrize("depth", [1, 63, 64, 500])
def test_a_container_that_holds_itself_is_refused(depth: int) -> None:
    """However long the way round is, the walk ends with an error that names the container's class."""
    inner: list[object] = []
    outer: object = inner
    for _ in range(depth):
        outer = [1, outer]
    inner.append(outer)
    with pytest.raises(CycleError, match="a list that holds itself"):
        places({"x": outer})


def test_one_container_may_sit_at_two_places() -> None:
    """Holding one list twice is no circle."""
    shared = [1]
    assert places([shared, shared]) == ["[0][0]", "[1][0]"]


def test_deep_nesting_is_no_obstacle() -> None:
    """A tensor inside 5000 lists is found, read and replaced."""
    data: object = torch.zeros(1)
    for _ in range(5000):
        data = (data,)
    ((place, _),) = Locator.find_leaves(data)
    assert place.depth == 5000
    assert place.get_value(place.set_value(data, "new")) == "new"


def test_no_class_is_kept_alive_by_a_walk() -> None:
    """A class made for one call can be collected after it, registered or not."""
    alive = []
    for base in (object, list, Holder):
        cls = type("Temporary", (base,), {})
        places([cls()])
        Locator.register_user_type(cls)
        places([cls()])
        alive.append(weakref.ref(cls))
        del cls
    gc.collect()
    assert [ref() for ref in alive] == [None, None, None]


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A frozen dataclass."""

    part: object
    other: int = 1


def test_set_value_makes_anew_what_cannot_change() -> None:
    """Named tuples, frozen dataclasses and read-only mappings keep their types; the old ones stay as they were."""
    pair = torch.return_types.max((torch.zeros(1), torch.ones(1)))
    old = {"m": types.MappingProxyType({"f": Frozen((1, pair)), "k": 2})}
    place = next(place for place, _ in Locator.find_leaves(old) if place.display_path == 'm["f"].part[1][1]')
    frozen, before = old["m"]["f"], old["m"]
    assert place.set_value(old, "new") is old
    made = old["m"]
    assert (type(made), type(made["f"]), type(made["f"].part[1])) == (type(before), Frozen, type(pair))
    assert (made["f"].part[1][1], made["f"].other, made["k"], frozen.part[1][1].item()) == ("new", 1, 2, 1.0)


def test_a_negative_index_replaces_from_the_end() -> None:
    """Paths made by hand may count from the end, also in tuples."""
    assert Locator(((-1, ObjectType.SEQUENCE),)).set_value((1, 2, 3), 9) == (1, 2, 9)
    with pytest.raises(IndexError):
        Locator(((7, ObjectType.SEQUENCE),)).set_value((1, 2, 3), 9)


def test_paths_are_never_ambiguous_as_accessors() -> None:
    """One key that is a tuple and two nested keys have one path, but different accessors."""
    one, two = (place for place, _ in Locator.find_leaves({("a", "b"): 1, "a": {"b": 2}}))
    assert one.path == two.path
    assert (one.accessors, two.accessors) == ((("a", "b"),), ("a", "b"))
    assert one != two


def test_tensors_that_a_walk_cannot_reach_are_spoken_of_once() -> None:
    """An unregistered object that holds tensors gives one warning for its class, others give none."""

    class Secret:
        __slots__ = "inside"

    class Empty:
        pass

    secret = Secret()
    secret.inside = torch.zeros(1)  # type: ignore[attr-defined]
    with pytest.warns(HiddenTensorWarning, match="Secret among the samples holds tensors"):
        SampleMetadata.from_inputs({"x": secret})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SampleMetadata.from_inputs({"x": [secret, Empty(), torch.nn.Linear(1, 1), Secret]})


def _class_of_transformers(name: str) -> type:
    return type(name, (Holder,), {"__module__": "transformers.cache_utils", "__qualname__": name})


def test_the_caches_of_transformers_are_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Static caches are walked for tensors, dynamic ones left out, unless that is switched off or said otherwise."""
    static, dynamic = _class_of_transformers("StaticCache"), _class_of_transformers("DynamicCache")
    data = {"s": static(t=torch.zeros(1), n=1), "d": dynamic(t=torch.zeros(1))}
    assert places(data) == ["s.t"]
    Locator.unignore_type(dynamic)
    Locator.unregister_user_type(static)
    assert places(data) == ["s", "d"]
    monkeypatch.setattr(config, "enable_transformers_integration", False)
    assert containers.kind_of(_class_of_transformers("StaticCache")) is containers.LEAF
