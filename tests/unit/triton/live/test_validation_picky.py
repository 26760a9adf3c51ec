"""A model that refuses values that are made up is asked with the samples of its record, or not blamed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aitune.errors import SourceError
from aitune.numerics.samples import SAMPLE_FILE_NAME, Request, write_samples
from aitune.triton.checks_live import CHECKS, THOROUGH
from aitune.triton.checks_live.numbers import check_numbers
from aitune.triton.client_errors import InferenceRefused
from aitune.triton.subjects import make_request
from aitune.triton.validation import _guarded

W = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
TENS = np.array([[1, 2, 3, 4], [4, 3, 2, 1], [0, 0, 5, 5], [10, 0, 0, 0]], np.float32)
Rows = dict[str, np.ndarray]


def picky(inputs: Rows) -> Rows:
    """Takes rows that sum to ten."""
    if not np.allclose(inputs["x"].sum(1), 10):
        raise InferenceRefused("a row does not sum to 10")
    return {"y": inputs["x"] @ W}


@pytest.fixture
def recorded(stage: Any, retold: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """The model as it is published without a probe, with recorded samples or without any."""

    def make(*, samples: bool) -> Any:
        kept = None
        if samples:
            sent = [("smallest", TENS[:1]), ("typical", TENS[1:3]), ("largest", np.concatenate([TENS, TENS[::-1]]))]
            requests = [
                Request(label=label, origin="recorded", inputs={"x": x}, outputs=picky({"x": x})) for label, x in sent
            ]
            kept = write_samples(
                tmp_path, SAMPLE_FILE_NAME, requests, inputs=stage.artifact.inputs, outputs=stage.artifact.outputs
            )
        artifact = retold(stage.artifact, probe=None, samples=kept)
        stage.artifact, stage.fake.model = artifact, picky
        stage.published = replace(stage.published, artifact=artifact)
        return stage

    return make


@pytest.mark.parametrize("name", ["numbers", "rows", "concurrency", "json", "refusals", "batches"])
def test_its_samples_are_what_it_is_asked_with(name: str, recorded: Callable[..., Any]) -> None:
    """Cut or repeated to size; nothing is a false alarm."""
    assert {**CHECKS, **THOROUGH}[name](recorded(samples=True).context()).status == "pass"


@pytest.mark.parametrize("name", ["numbers", "rows"])
def test_its_faults_are_seen(name: str, recorded: Callable[..., Any]) -> None:
    """They would be missed if nothing were asked."""
    stage = recorded(samples=True)
    stage.fake.change = lambda answer, inputs: {"y": answer["y"] + np.float32(len(answer["y"]))}
    assert CHECKS[name](stage.context()).status == "fail"


def test_equal_seeds_are_equal_requests(recorded: Callable[..., Any]) -> None:
    """Of any size within the bounds."""
    subject = recorded(samples=True).subject()
    first, second = (make_request(subject, "typical", seed=5, rows=3)["x"] for _ in range(2))
    assert np.array_equal(first, second)
    assert first.shape == (3, 4)


@pytest.mark.parametrize("name", ["numbers", "rows", "concurrency", "json", "bounds"])
def test_without_samples_a_refusal_is_a_warning(name: str, recorded: Callable[..., Any]) -> None:
    """Nobody saw it answer what is made up, so the refusal may be the fault of the request."""
    result, gone = _guarded(name, CHECKS[name], recorded(samples=False).context())
    assert (result.status, gone) == ("warn", False)
    assert "a row does not sum to 10" in result.detail


def test_an_artifact_that_refuses_what_is_made_up_gives_no_reference(
    recorded: Callable[..., Any], stage: Any, retold: Callable[..., Any]
) -> None:
    """Where that was to be expected; of any other model it is an error."""

    def run(inputs: Rows) -> Rows:
        raise SourceError("a row does not sum to 10")

    assert check_numbers(recorded(samples=False).context(), run).status == "warn"
    stage.published = replace(stage.published, artifact=retold(stage.artifact, probe=None, samples=None))
    stage.published = None
    with pytest.raises(SourceError):
        check_numbers(stage.context(), run)
