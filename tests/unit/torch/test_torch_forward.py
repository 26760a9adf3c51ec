"""Samples are bound to the parameters of ``forward``, and what does not fit is named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from aitune.errors import SourceError
from aitune.torch.forward import Forward


class Encoder(nn.Module):
    """Two parameters, one of them optional."""

    def forward(self, input_ids: Any, attention_mask: Any, scale: float = 2.0, extra: Any = None) -> Any:
        """Nothing is computed here."""


class Variadic(nn.Module):
    """Any number of positional and keyword arguments, and one by position only."""

    def forward(self, first: Any, /, second: Any, *rest: Any, flag: Any, **options: Any) -> Any:
        """Nothing is computed here."""


ENCODER, VARIADIC = Forward.of(Encoder()), Forward.of(Variadic())


def test_a_dict_is_put_into_the_order_of_forward() -> None:
    """Names follow ``forward``, however the sample was written."""
    assert list(ENCODER.bind({"attention_mask": 1, "input_ids": 2}, "it")) == ["input_ids", "attention_mask"]


@pytest.mark.parametrize("sample", [(1, 2), [1, 2]])
def test_positional_samples_get_names(sample: Any) -> None:
    """A tuple or list is taken by position."""
    assert ENCODER.bind(sample, "it") == {"input_ids": 1, "attention_mask": 2}


def test_a_tensor_is_the_first_argument() -> None:
    """A lone tensor is one positional argument."""
    assert list(Forward.of(nn.Linear(1, 1)).bind(torch.zeros(1), "it")) == ["input"]


@pytest.mark.parametrize(
    ("sample", "message", "hint"),
    [
        ({"ids": 1}, "it has 'ids', which forward of Encoder does not take", "input_ids, attention_mask"),
        ({"input_idz": 1}, "does not take", "did you mean 'input_ids'"),
        ({"input_ids": 1}, "it lacks 'attention_mask', which forward of Encoder needs", "scale=2.0"),
        ((1, 2, 3, 4, 5), "it has 5 positional values, forward of Encoder takes 4", "forward takes"),
        ({3: 1}, "it has 3, which", "forward takes"),
        (7, "must be a dict keyed by parameter of forward, found a int", "forward takes"),
        (None, "found None", "forward takes"),
    ],
)
def test_what_does_not_fit_is_named_with_what_would(sample: Any, message: str, hint: str) -> None:
    """Unknown, missing and superfluous values come with the valid names (B13)."""
    with pytest.raises(SourceError, match=message) as caught:
        ENCODER.bind(sample, "it")
    assert hint in caught.value.hint


def test_variadic_parameters_are_spread_again() -> None:
    """``*rest`` is one tuple in a sample; unknown names go to ``**options``."""
    bound = VARIADIC.bind({"first": 1, "second": 2, "rest": (3, 4), "flag": 5, "more": 6}, "it")
    assert VARIADIC.arguments(bound) == ((1, 2, 3, 4), {"flag": 5, "more": 6})


def test_positional_only_without_the_rest() -> None:
    """What can go by name goes by name."""
    bound = VARIADIC.bind({"first": 1, "second": 2, "flag": 5}, "it")
    assert VARIADIC.arguments(bound) == ((1,), {"second": 2, "flag": 5})


def test_superfluous_positions_go_to_the_rest() -> None:
    """A positional sample fills ``*args``."""

    class Sum(nn.Module):
        def forward(self, *terms: Any) -> Any:
            return sum(terms)

    assert Forward.of(Sum()).bind((1, 2, 3), "it") == {"terms": (1, 2, 3)}


def test_variadic_values_must_be_a_tuple() -> None:
    """A tensor for ``*args`` would be taken apart row by row."""
    with pytest.raises(SourceError, match=r"must give '\*rest' a tuple, found a Tensor"):
        VARIADIC.bind({"first": 1, "second": 2, "flag": 3, "rest": torch.zeros(2)}, "it")


def test_kept_defaults_are_told_and_none_is_not() -> None:
    """A default that becomes part of the graph is worth a word; an absent optional input is not."""
    assert ENCODER.defaults_kept({"input_ids": 1, "attention_mask": 2}) == (("scale", 2.0),)


def test_a_forward_without_parameters_says_so() -> None:
    """There is nothing to fit."""

    class Constant(nn.Module):
        def forward(self) -> Any:
            return torch.zeros(1)

    with pytest.raises(SourceError) as caught:
        Forward.of(Constant()).bind({"x": 1}, "it")
    assert caught.value.hint == "forward takes nothing"
