"""The committed example repository is what its records say, and what this version would write."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from aitune.records.artifact import Artifact
from aitune.triton import Repository, render
from aitune.triton.plan import plan
from aitune.triton.repository import PublishedModel

ROOT = Path(__file__).resolve().parents[2] / "model_repository"
MODELS = ("digits", "digits_reader")


def current(name: str) -> tuple[PublishedModel, Artifact]:
    """A model of the example, and the record of the version that is served."""
    model = Repository(ROOT).model(name)
    assert model.document is not None
    return model, model.document.artifact


def test_the_example_holds_exactly_these_models() -> None:
    """Nothing else lies in the root but the history."""
    assert Repository(ROOT).names() == MODELS
    assert [path.name for path in ROOT.iterdir() if path.is_file()] == ["aitune_history.jsonl"]


@pytest.mark.parametrize("name", MODELS)
def test_every_file_is_the_recorded_one(name: str) -> None:
    """SHA-256 of the model and the samples."""
    _, artifact = current(name)
    artifact.verify()
    assert artifact.evidence is not None
    assert artifact.evidence.samples is not None
    samples = dataclasses.replace(
        artifact,
        path=artifact.path.with_name(artifact.evidence.samples.name),
        fingerprint=artifact.evidence.samples.fingerprint,
    )
    samples.verify()


@pytest.mark.parametrize("name", MODELS)
def test_the_config_is_what_this_version_renders(name: str) -> None:
    """Run scripts/make_example_repository when this fails."""
    model, artifact = current(name)
    assert model.document is not None
    assert model.config_text == model.document.config
    assert render(plan(artifact, model_name=name, version=model.current or 0)) == model.config_text


@pytest.mark.parametrize("name", MODELS)
def test_batching_was_proved(name: str) -> None:
    """Both examples batch."""
    _, artifact = current(name)
    assert artifact.max_batch_size == 32
    assert artifact.evidence is not None
    assert artifact.evidence.batching is not None
    assert artifact.evidence.batching.proved


def test_no_path_and_no_user_is_in_any_file() -> None:
    """Nothing about the machine that made them."""
    words = (b"/home/", b"/root", b"/tmp/", b"site-packages", b".py")
    found = [(path, word) for path in ROOT.rglob("*") if path.is_file() for word in words if word in path.read_bytes()]
    assert found == []
