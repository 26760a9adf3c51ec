"""What is kept of a model that refuses values that are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tuning_fakes import Fake, interface

from aitune.errors import SourceError
from aitune.numerics import Array, observe_domains, read_samples
from aitune.numerics.samples import SAMPLE_FILE_NAME
from aitune.records import Artifact
from aitune.records.evidence import Evidence
from aitune.tuning import finish, resolve_ranges, tensor_specs

FACE = interface({"x": ("batch", 4)}, {"y": ("batch", 3)})
WEIGHTS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
SAMPLES = [{"x": np.array(rows, np.float32)} for rows in ([[1, 2, 3, 4]], [[4, 3, 2, 1], [0, 0, 5, 5], [10, 0, 0, 0]])]
REFUSED = "the model does not run on a made-up request"


def picky(x: Array) -> Array:
    """Takes rows that sum to ten."""
    if not np.allclose(x.sum(1), 10):
        raise SourceError("a row does not sum to 10")
    return x @ WEIGHTS


def made(file: Path, function: Any = picky, **options: Any) -> tuple[Artifact, Evidence]:
    """The artifact of a function, made of its samples, and its evidence."""
    specs = tensor_specs(FACE.inputs, "input")
    ranges = resolve_ranges(specs, samples=SAMPLES)
    domains = observe_domains(specs, ranges.shapes("typical"), SAMPLES)
    artifact = finish(file, FACE, ranges, domains, [Fake(function)], tune=False, samples=SAMPLES, **options)
    assert artifact.evidence is not None
    return artifact, artifact.evidence


def test_where_they_may_be_kept_recorded_samples_stand_for_the_probe(model_file: Path) -> None:
    """With the answers of the model: the user's own first, then those put together of them for other sizes."""
    artifact, evidence = made(model_file, keep_samples="recorded")
    assert evidence.batching is not None
    assert evidence.batching.proved
    assert evidence.probe is None
    kept = read_samples(model_file.parent / SAMPLE_FILE_NAME, artifact)
    assert {item.origin for item in kept} == {"recorded"}
    assert {item.label for item in kept} == {"smallest", "typical", "largest"}
    for item in kept:
        assert np.array_equal(item.outputs["y"], picky(item.inputs["x"]))
    assert any(np.array_equal(item.inputs["x"], SAMPLES[1]["x"]) for item in kept)
    assert any(note.startswith(f"no golden probe, the samples stand for it: {REFUSED}") for note in evidence.notes)


@pytest.mark.parametrize("keep_samples", ["none", "synthetic"])
def test_the_values_of_a_user_are_not_kept_as_made_up_ones(model_file: Path, keep_samples: str) -> None:
    """Requests that were put together of samples are the user's data, too; the note says what would keep them."""
    _, evidence = made(model_file, keep_samples=keep_samples)
    assert (evidence.probe, evidence.samples) == (None, None)
    (note,) = [note for note in evidence.notes if note.startswith("no golden probe and no samples")]
    assert note.endswith("; --keep-samples recorded keeps the samples to compare with")
    assert not (model_file.parent / SAMPLE_FILE_NAME).exists()


def test_samples_of_a_model_that_answers_differently_are_not_kept(model_file: Path) -> None:
    """Nothing could be compared with them."""
    generator = np.random.default_rng(0)

    def random(x: Array) -> Array:
        return picky(x) + generator.random(1, dtype=np.float32)

    _, evidence = made(model_file, random, keep_samples="recorded")
    assert (evidence.probe, evidence.samples) == (None, None)
    assert any("no samples: two equal runs differ: output 'y'" in note for note in evidence.notes)


def test_a_model_that_breaks_down_is_one_that_answers_differently(model_file: Path) -> None:
    """It refuses the probe, and then a request that it has answered; there is nothing to advise."""
    asked: list[int] = []
    most = 10_000

    def breaks_down(x: Array) -> Array:
        asked.append(len(x))
        if len(asked) > most:
            raise SourceError("no more")
        return x @ WEIGHTS

    made(model_file, breaks_down)
    most = len(asked) - 2  # the last two runs were those of the probe
    for keep_samples, words in (
        ("synthetic", "two equal runs differ: the second is refused: no more"),
        ("none", f"{REFUSED}: no more"),
    ):
        asked.clear()
        _, evidence = made(model_file, breaks_down, keep_samples=keep_samples)
        assert evidence.samples is None
        assert evidence.notes[-1] == f"no golden probe and no samples: {words}"


def test_a_model_that_refuses_only_the_probe_keeps_what_is_made_up(model_file: Path) -> None:
    """It answered those requests: they are compared as those of any other model are."""
    asked: list[int] = []
    refused: set[int] = set()

    def without_probe(x: Array) -> Array:
        asked.append(len(x))
        if len(asked) in refused:
            raise SourceError("not this one")
        return x @ WEIGHTS

    made(model_file, without_probe)
    refused.add(len(asked) - 1)  # the probe itself; what follows is its repetition
    asked.clear()
    artifact, evidence = made(model_file, without_probe)
    assert evidence.probe is None
    kept = read_samples(model_file.parent / SAMPLE_FILE_NAME, artifact)
    assert {item.origin for item in kept} == {"synthetic"}
