"""Objects whose tensors no path leads to: said where they come out, refused where they go in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import DynamicCache

from aitune.errors import SourceError
from aitune.torch.observation import observe
from aitune.torch.opaque import holds_tensors, left_out


class Box:
    """A class that nobody registered."""

    __slots__ = ("inside",)

    def __init__(self, inside: object) -> None:
        self.inside = inside


def module(forward: Callable[..., Any]) -> nn.Module:
    """A module with this ``forward`` (``self`` first)."""
    return type("Model", (nn.Module,), {"forward": forward})()


def cache() -> DynamicCache:
    """A cache of one layer."""
    filled = DynamicCache()
    filled.update(torch.ones(2, 1, 3, 4), torch.ones(2, 1, 3, 4), 0)
    return filled


ring: list[Any] = []
ring.append(ring)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (Box({"a": [Box((torch.ones(1),))]}), True),
        (Box({torch.Size([1]), "text"}), False),
        (Box(ring), False),
        (nn.Linear(2, 2), False),
        (torch.Tensor, False),
        (3, False),
    ],
)
def test_tensors_are_found_however_deep(value: object, answer: bool) -> None:
    """Through slots, attributes and containers, cycles included; modules are no data."""
    assert holds_tensors(value) is answer


def test_a_cache_that_comes_out_is_said() -> None:
    """Keys and values of a decoder are not served, and the note says how not to make them."""
    seen = observe(module(lambda self, x: {"logits": x * 2, "past": cache()}), torch.ones(2, 3))
    assert [spec.name for spec in seen.outputs] == ["logits"]
    assert 'output["past"] is a DynamicCache: its tensors are left out' in " ".join(seen.notes)
    assert "use_cache=False" in " ".join(seen.notes)


def test_an_object_with_tensors_that_comes_out_is_said_once() -> None:
    """It is no output, and no plain value either."""
    seen = observe(module(lambda self, x: (x * 2, Box(x))), torch.ones(2, 3))
    assert [note for note in seen.notes if "Box" in note] == ["output[1] is a Box: its tensors are left out"]
    assert list(left_out([1, {"a": torch.ones(1)}])) == []


@pytest.mark.parametrize("given", [cache(), DynamicCache()])
def test_a_cache_that_goes_in_is_refused(given: DynamicCache) -> None:
    """Full or empty, ``forward`` would change it from run to run."""
    with pytest.raises(SourceError, match=r"past'\] is a DynamicCache, which forward changes"):
        observe(module(lambda self, x, past: x), {"x": torch.ones(2, 3), "past": given})


def test_tensors_in_a_plain_object_are_not_built_in_silently() -> None:
    """They would be constants of the graph, whatever a request says."""
    with pytest.raises(SourceError, match=r"box'\] is a Box that holds tensors"):
        observe(module(lambda self, x, box: x), {"x": torch.ones(2, 3), "box": Box([torch.ones(1)])})
