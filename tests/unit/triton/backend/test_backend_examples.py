"""The examples in the backend's docstrings, which plain doctest collection cannot reach without Triton's stub."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["checks", "completion", "sessions", "settings"])
def test_the_examples_are_true(name: str) -> None:
    """And there are some."""
    module = importlib.import_module(f"aitune.triton.backends.onnxruntime.{name}")
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed
