"""The switches of the PyTorch frontend."""

from __future__ import annotations

import pytest

from aitune.errors import UsageError
from aitune.torch.config import Config, read_switch


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("TRUE", True), (" on ", True), ("0", False), ("no", False), ("", False)]
)
def test_a_switch_reads_yes_and_no(text: str, value: bool) -> None:
    """The usual words in any case; the default only where the variable is absent."""
    assert read_switch("X", default=not value, environment={"X": text}) is value
    assert read_switch("X", default=value, environment={}) is value


def test_a_switch_refuses_other_words() -> None:
    """A word that is neither is an error that names the variable."""
    with pytest.raises(UsageError, match="X must be a yes or a no, found 'maybe'"):
        read_switch("X", default=True, environment={"X": "maybe"})


def test_the_environment_switches_the_integration_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """AITUNE_TRANSFORMERS_INTEGRATION decides for a new Config."""
    monkeypatch.setenv("AITUNE_TRANSFORMERS_INTEGRATION", "0")
    assert Config().enable_transformers_integration is False
