"""The golden probe."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping

import numpy as np
import pytest

from aitune.errors import UsageError
from aitune.numerics import Array, check_probe, from_float, make_probe, probe_request
from aitune.numerics.probe import Run
from aitune.records import DType, TunedTensorSpec
from aitune.records.codec import dump, load
from aitune.records.evidence import InputDomain, Probe

X = TunedTensorSpec("x", DType.FLOAT32, ("batch", 64), (1, 64), (8, 64), 0)
DOMAIN = InputDomain(name="x", typical_shape=(4, 64), low=-1, high=1)
OUTPUTS = (
    TunedTensorSpec("y", DType.FLOAT32, ("batch", 384), (1, 384), (8, 384), 0),
    TunedTensorSpec("label", DType.INT64, ("batch",), (1,), (8,), 0),
    TunedTensorSpec("word", DType.STRING, ("batch",), (1,), (8,), 0),
    TunedTensorSpec("bits", DType.BFLOAT16, ("batch", 3), (1, 3), (8, 3), 0),
)


def model(scale: float = 1.0, label: int = 3, word: bytes = b"cat") -> Run:
    """A model whose weights are its arguments."""
    weights = np.linspace(-1, 1, 64 * 384, dtype=np.float32).reshape(64, 384)

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        rows = len(inputs["x"])
        return {
            "y": inputs["x"] @ weights * np.float32(scale),
            "label": np.full(rows, label, np.int64),
            "word": np.array([word] * rows, dtype=object),
            "bits": from_float(inputs["x"][:, :3] * scale, DType.BFLOAT16),
        }

    return run


@pytest.fixture(scope="module")
def probe() -> Probe:
    """The probe of the plain model."""
    return make_probe(model(), (X,), OUTPUTS, (DOMAIN,))


def answer(probe: Probe, **weights: object) -> Mapping[str, Array]:
    """What a model with these weights answers to a probe."""
    return model(**weights)(probe_request(probe, (X,)))  # type: ignore[arg-type]


def test_the_same_weights_are_recognised(probe: Probe) -> None:
    """The request is made again from the seed, has one row, and the answer agrees, also through JSON."""
    assert probe_request(probe, (X,))["x"].shape == (1, 64)
    again = load(Probe, json.loads(json.dumps(dump(probe), allow_nan=False)))
    assert again == probe
    found = check_probe(again, answer(again), OUTPUTS)
    assert found.agrees
    assert "4 outputs agree" in found.detail


@pytest.mark.parametrize(
    ("weights", "output"),
    [({"scale": 1.01}, "y"), ({"label": 4}, "label"), ({"word": b"dog"}, "word")],
)
def test_other_weights_are_not(probe: Probe, weights: dict[str, object], output: str) -> None:
    """One percent in the weights, another class or another word: the output that differs is named."""
    found = check_probe(probe, answer(probe, **weights), OUTPUTS)
    assert not found.agrees
    assert found.detail.startswith(f"output {output!r}: ")


def test_rounding_noise_does_not_matter_and_slack_widens_it(probe: Probe) -> None:
    """Another runtime of the same weights agrees; with slack, another processor too."""
    assert check_probe(probe, answer(probe, scale=1 + 1e-6), OUTPUTS).agrees
    assert not check_probe(probe, answer(probe, scale=1.001), OUTPUTS).agrees
    assert check_probe(probe, answer(probe, scale=1.001), OUTPUTS, slack=20).agrees


def test_a_probe_is_small_and_spread_over_the_output(probe: Probe) -> None:
    """A few kilobytes of JSON; the stride shares no divisor with a row."""
    assert len(json.dumps(dump(probe))) < 4096
    y = probe.outputs[0]
    assert math.gcd(y.stride, 384) == 1
    assert len(y.values) > 20


def test_many_outputs_share_the_room() -> None:
    """A hundred outputs: each keeps a value, and all together stay small."""
    outputs = [dataclasses.replace(OUTPUTS[0], name=f"y{index}") for index in range(100)]
    run = model()
    many = make_probe(
        lambda inputs: {spec.name: run(inputs)["y"] for spec in outputs},
        (X,), outputs, (DOMAIN,),
    )  # fmt: skip
    assert all(output.values for output in many.outputs)
    assert len(json.dumps(dump(many))) < 12_000


def test_values_that_json_cannot_say_are_words() -> None:
    """NaN and infinities are compared like numbers."""
    spec = TunedTensorSpec("y", DType.FLOAT32, (4,), (4,), (4,))
    values = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    made = make_probe(lambda _: {"y": values}, (X,), (spec,), (DOMAIN,))
    assert made.outputs[0].values == ("nan", "inf", "-inf", 1.0)
    assert check_probe(made, {"y": values}, (spec,)).agrees
    assert not check_probe(made, {"y": np.zeros(4, np.float32)}, (spec,)).agrees


def test_an_empty_output_is_compared_by_its_shape() -> None:
    """No rows were recorded, so none may come."""
    spec = TunedTensorSpec("y", DType.FLOAT32, (None, 2), (1, 2), (9, 2))
    made = make_probe(lambda _: {"y": np.zeros((0, 2), np.float32)}, (X,), (spec,), (DOMAIN,))
    assert check_probe(made, {"y": np.zeros((0, 2), np.float32)}, (spec,)).agrees
    assert "shape (1, 2), recorded (0, 2)" in check_probe(made, {"y": np.zeros((1, 2), np.float32)}, (spec,)).detail


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stride": 0}, "stride 0 keeps no values"),
        ({"values": ("what",) * 30}, "recorded values"),
        ({"values": (1.0,)}, "of 1 recorded values differ"),
        ({"name": "z"}, "output 'z' is missing"),
        ({"shape": (1, 383)}, r"shape \(1, 384\), recorded \(1, 383\)"),
    ],
)
def test_a_damaged_probe_agrees_with_nothing(probe: Probe, change: dict[str, object], message: str) -> None:
    """A contract from a server is data: nonsense in it is a disagreement, never a crash."""
    kept = len(probe.outputs[0].values)
    if change.get("values") == ("what",) * 30:
        change = {"values": ("what",) * kept}
    broken = dataclasses.replace(probe, outputs=(dataclasses.replace(probe.outputs[0], **change),))  # type: ignore[arg-type]
    found = check_probe(broken, answer(probe), OUTPUTS)
    assert not found.agrees
    assert re.search(message, found.detail)


def test_an_answer_of_another_type_does_not_agree(probe: Probe) -> None:
    """A server that answers in float64 does not serve this contract."""
    wrong = {**answer(probe), "y": answer(probe)["y"].astype(np.float64)}
    assert "element type float64, recorded float32" in check_probe(probe, wrong, OUTPUTS).detail


def test_a_model_that_gives_no_such_output_has_no_probe() -> None:
    """The message names what is missing and what came."""
    with pytest.raises(UsageError, match="gave no output 'y', only 'z'"):
        make_probe(lambda _: {"z": np.zeros(1)}, (X,), OUTPUTS[:1], (DOMAIN,))
