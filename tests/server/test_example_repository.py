"""The committed example serves as it stands, and the models really know digits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from aitune.records import DType
from aitune.triton import LocalServer, validate
from aitune.triton.client import connect
from aitune.triton.endpoint import Endpoint

ROOT = Path(__file__).resolve().parents[2] / "model_repository"

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    """A tritonserver with default flags: it would not come up if anything failed to load."""
    with LocalServer(ROOT, exit_on_error=True) as server:
        yield server


@pytest.mark.parametrize(("model", "name", "atleast"), [("digits", "image", 0.97), ("digits_reader", "rows", 0.9)])
def test_an_example_recognises_digits(server: LocalServer, model: str, name: str, atleast: float) -> None:
    """Accuracy over the training set, in full batches over gRPC: the weights are trained ones."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)
    right = 0
    with connect(Endpoint.parse(server.grpc, protocol="grpc")) as client:
        for start in range(0, len(images), 32):
            answer = client.infer(model, "", {name: (images[start : start + 32], DType.FLOAT32)}, ["probability"])
            right += int((answer["probability"].argmax(axis=1) == digits.target[start : start + 32]).sum())
    assert right / len(images) >= atleast


def test_the_example_validates() -> None:
    """What is served is what was recorded."""
    report = validate(ROOT)
    assert not report.failed, report.to_json()
    assert {model.name for model in report.models} == {"digits", "digits_reader"}
