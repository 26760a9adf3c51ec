"""The door of the room."""

from __future__ import annotations

import importlib.util

import pytest

import aitune.triton


@pytest.mark.parametrize("name", aitune.triton.__all__)
def test_every_name_of_the_door_leads_somewhere(name: str) -> None:
    """And is listed."""
    assert getattr(aitune.triton, name) is not None
    assert name in dir(aitune.triton)


@pytest.mark.parametrize("name", aitune.triton.__all__)
def test_no_module_has_the_name_of_a_function(name: str) -> None:
    """Importing it would put the module in the function's place."""
    assert importlib.util.find_spec(f"aitune.triton.{name}") is None


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        aitune.triton.nothing  # noqa: B018
