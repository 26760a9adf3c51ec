"""Rendered configs, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_configs import FOLDER, texts

from aitune.triton.schema import parse_config


@pytest.mark.parametrize("name", sorted(texts()))
def test_a_config_is_rendered_byte_for_byte(name: str) -> None:
    """What people read does not change unseen; ``tests/golden_configs.py`` writes the files anew."""
    assert texts()[name].encode() == (FOLDER / name).read_bytes()


def test_no_golden_file_is_left_over() -> None:
    """Every file belongs to a plan."""
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(texts())


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_a_golden_config_is_one_that_triton_parses(path: Path) -> None:
    """The kept bytes are UTF-8 and text format."""
    assert parse_config(path.read_bytes().decode()) is not None
