"""Loading Triton's protobuf classes by path."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from aitune.errors import MissingDependencyError
from aitune.triton import schema


def test_the_classes_are_the_ones_tritonclient_gives() -> None:
    """A message built with our classes is an instance of tritonclient's, whichever came first."""
    ours = schema.model_config()
    from tritonclient.grpc import model_config_pb2

    assert ours.ModelConfig is model_config_pb2.ModelConfig


def test_a_text_becomes_a_message() -> None:
    """Protobuf's own reading of a config text is at hand."""
    assert schema.parse_config('name: "m" max_batch_size: 4') == schema.model_config().ModelConfig(
        name="m", max_batch_size=4
    )


def test_a_missing_tritonclient_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without tritonclient the error names it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="'tritonclient' is not installed"):
        schema._generated_file()


def test_a_missing_protobuf_is_one_clear_error(tmp_path: Path) -> None:
    """Without protobuf the error names it; any other missing module stays what it is."""
    (tmp_path / "a.py").write_text("raise ModuleNotFoundError('no', name='google.protobuf')\n", encoding="utf-8")
    with pytest.raises(MissingDependencyError, match="'protobuf' is not installed"):
        schema._load(tmp_path / "a.py")
    (tmp_path / "b.py").write_text("raise ModuleNotFoundError('no', name='other')\n", encoding="utf-8")
    with pytest.raises(ModuleNotFoundError, match="no"):
        schema._load(tmp_path / "b.py")
