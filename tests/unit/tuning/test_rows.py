"""Requests from recorded samples, where a model refuses what is made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tuning_fakes import Fake, FakeClock, interface

from aitune.errors import SourceError
from aitune.numerics import Array, observe_domains
from aitune.records import DType, TensorSpec
from aitune.records.evidence import InputDomain
from aitune.tuning import finish, resolve_ranges, tensor_specs
from aitune.tuning.rows import Rows

SPECS = (TensorSpec("x", DType.INT64, ("batch", "n")), TensorSpec("k", DType.INT64, ("batch",)))
DOMAINS = (InputDomain(name="x", typical_shape=(1, 3), high=9), InputDomain(name="k", typical_shape=(1,), high=2))
SAMPLES = (
    {"x": np.array([[1, 2, 3]]), "k": np.array([2])},
    {"x": np.array([[4, 5, 6], [7, 8, 9]]), "k": np.array([0, 1])},
)


def rows(*, made_up: bool) -> Rows:
    """Requests of both inputs."""
    return Rows(inputs=SPECS, domains=DOMAINS, samples=SAMPLES, made_up=made_up)


def test_a_sample_of_the_asked_shape_is_taken_as_it_is() -> None:
    """Its values belong together."""
    found = rows(made_up=False).request({"x": (2, 3), "k": (2,)}, seed=5)
    assert np.array_equal(found["x"], SAMPLES[1]["x"])
    assert np.array_equal(found["k"], SAMPLES[1]["k"])


def test_rows_of_all_samples_fill_a_larger_batch() -> None:
    """Rows stay whole across inputs, and come again when there are too few."""
    found = rows(made_up=False).request({"x": (5, 3), "k": (5,)}, seed=0)
    assert found["x"][:, 0].tolist() == [1, 4, 7, 1, 4]
    assert found["k"].tolist() == [2, 0, 1, 2, 0]
    other = rows(made_up=False).request({"x": (3, 3), "k": (3,)}, seed=1)
    assert list(zip(other["x"][:, 0].tolist(), other["k"].tolist(), strict=True)) == [(4, 0), (7, 1), (1, 2)]


def test_other_axes_are_cut_or_repeated() -> None:
    """To the size that was asked for."""
    found = rows(made_up=False).request({"x": (1, 5), "k": (1,)}, seed=0)
    assert found["x"].tolist() == [[1, 2, 3, 1, 2]]
    assert rows(made_up=False).request({"x": (3, 1), "k": (3,)}, seed=0)["x"].tolist() == [[1], [4], [7]]


def test_a_proof_mixes_recorded_rows_with_made_up_ones() -> None:
    """Every other row is recorded, all inputs alike; other shapes stay made up."""
    found = rows(made_up=True).mixed({"x": (8, 3), "k": (8,)}, seed=7)
    assert found["x"][[0, 2, 4]].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert found["k"][[0, 2, 4]].tolist() == [2, 0, 1]
    plain = rows(made_up=True).request({"x": (8, 4), "k": (8,)}, seed=7)
    mixed = rows(made_up=True).mixed({"x": (8, 4), "k": (8,)}, seed=7)
    assert all(np.array_equal(plain[name], mixed[name]) for name in plain)


def test_a_model_whose_inputs_belong_together_is_proved_on_its_samples(tmp_path: Path) -> None:
    """Made-up values are refused; the samples are not, and a note says what was done."""
    (tmp_path / "model.onnx").write_bytes(b"weights")
    face = interface({"x": (DType.INT64, ("batch", 3)), "total": (DType.INT64, ("batch",))}, {"y": ("batch", 3)})
    specs = tensor_specs(face.inputs, "input")

    def check(x: Array, total: Array) -> Array:
        if (x.sum(1) != total).any():
            raise SourceError("total is not the sum")
        return x.astype(np.float32) * 2

    values = np.arange(12).reshape(4, 3)
    samples = [{"x": values[:n], "total": values[:n].sum(1)} for n in (1, 2, 4)]
    ranges = resolve_ranges(specs, samples=samples)
    domains = observe_domains(specs, ranges.shapes("typical"), samples)
    artifact = finish(tmp_path / "model.onnx", face, ranges, domains, [Fake(check)], samples=samples, seconds=1.0,
                      clock=FakeClock())  # fmt: skip
    assert artifact.evidence is not None
    assert artifact.evidence.batching is not None
    assert artifact.evidence.batching.proved
    assert any("refuses made-up values" in note for note in artifact.evidence.notes)
