"""Literals and comments of the text format."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitune.errors import RecordError
from aitune.triton.literals import comment, quote, quote_lines
from aitune.triton.schema import parse_config

anything = st.text(st.characters(codec="utf-8"))


def parsed_name(text: str) -> str:
    """What the parser makes of a literal."""
    config: Any = parse_config(f"name: {text}")
    return str(config.name)


@given(anything)
def test_any_text_survives_quoting(text: str) -> None:
    """The parser reads back what was quoted, whatever it is (R22)."""
    assert parsed_name(quote(text)) == text


@given(anything, st.integers(1, 30))
def test_any_text_survives_being_cut_into_lines(text: str, width: int) -> None:
    """Neighbouring literals are one string (R22)."""
    assert parsed_name("\n  ".join(quote_lines(text, width))) == text


@given(anything)
def test_a_literal_is_one_line_that_can_be_seen(text: str) -> None:
    """No control or direction mark of a name reaches the file."""
    assert quote(text).isprintable()


@given(anything)
def test_no_text_breaks_out_of_a_comment(text: str) -> None:
    """Every line is a comment, so the parser sees nothing."""
    lines = comment(text, indent=4).split("\n")
    assert all(line.startswith("    #") and line.isprintable() for line in lines)
    config: Any = parse_config("\n".join(lines) + "\nname: 'm'")
    assert config.ListFields()[0][1] == "m"
    assert len(config.ListFields()) == 1


def test_a_long_comment_is_wrapped() -> None:
    """Lines end before column 118, words stay whole."""
    lines = comment("word " * 60).split("\n")
    assert len(lines) == 3
    assert max(map(len, lines)) <= 118


def test_a_lone_surrogate_is_refused() -> None:
    """What has no UTF-8 form cannot be written."""
    with pytest.raises(RecordError, match="lone surrogate"):
        quote("a\ud800")
