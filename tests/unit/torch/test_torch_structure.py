"""Nested arguments are taken apart and put together again as they were."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from aitune.errors import SourceError
from aitune.torch.structure import take_apart

Pair = namedtuple("Pair", "left right")


@dataclass(frozen=True)
class Frozen:
    """A dataclass whose fields cannot be set."""

    value: Any
    label: str = "kept"


class Holder:
    """An object of no known kind that holds a tensor."""

    def __init__(self) -> None:
        self.tensor = torch.zeros(1)


ONE, TWO = torch.ones(2), torch.zeros(3)


@pytest.mark.parametrize(
    "nested",
    [
        {"x": ONE, "y": [TWO, 3]},
        {"x": (ONE, [TWO, None])},
        {"x": Pair(ONE, {"k": TWO})},
        {"x": Frozen(ONE), "y": Frozen(TWO, "other")},
        {"x": OrderedDict(a=ONE, b=TWO)},
        {"x": [], "y": {}, "z": [ONE, TWO]},
    ],
)
def test_arguments_come_back_around_other_tensors(nested: Any) -> None:
    """Containers keep their type, values that are no tensors stay, tensors are replaced in order."""
    template, tensors = take_apart(nested)
    assert len(tensors) == 2
    other = [torch.full((1,), 5.0), torch.full((1,), 6.0)]
    rebuilt, found = take_apart(template.put_together(other))
    assert [tensor.item() for tensor in found] == [5.0, 6.0]
    assert rebuilt.locators == template.locators
    assert [value for _, value in rebuilt.constants] == [value for _, value in template.constants]


def test_places_read_like_python() -> None:
    """Every tensor and every constant has a place."""
    template, _ = take_apart({"x": ONE, "rest": [TWO, {"k": 4}]})
    assert list(map(str, template.locators)) == ["x", "rest[0]"]
    assert [(str(place), value) for place, value in template.constants] == [('rest[1]["k"]', 4)]


def test_the_user_s_containers_are_left_alone() -> None:
    """What was taken apart is not changed."""
    nested = {"x": [ONE]}
    template, _ = take_apart(nested)
    template.put_together([TWO])
    assert nested["x"][0] is ONE


def test_arrays_become_tensors() -> None:
    """Numeric arrays of numpy count as tensors; a bare tensor is a structure too."""
    _, (tensor,) = take_apart({"x": np.arange(3)})
    assert tensor.dtype is torch.int64
    assert take_apart(ONE)[0].put_together([TWO]) is TWO


def test_an_object_that_hides_tensors_is_refused() -> None:
    """Its tensors would become constants without a word."""
    from aitune.torch.module.locator import Locator

    Locator.register_user_type(Holder)
    try:
        with pytest.raises(SourceError, match="Holder that holds tensors"):
            take_apart({"x": Holder()})
    finally:
        Locator.unregister_user_type(Holder)
