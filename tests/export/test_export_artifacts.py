"""From a module to a tuned artifact in one call, without measuring."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import aitune.torch
from aitune.errors import BatchingError, NumericsError, SourceError
from aitune.records import ONNXArtifact
from aitune.torch import verification
from aitune.torch.exporting import export
from aitune.torch.observation import observe
from aitune.torch.verification import verify


def numbers(*shape: int) -> torch.Tensor:
    """The same numbers in every run of the tests."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def module(forward: Any) -> nn.Module:
    """A module with this ``forward`` (``self`` first)."""
    return type("Model", (nn.Module,), {"forward": forward})()


def tuned(model: nn.Module, samples: Any, folder: Path, **options: Any) -> ONNXArtifact:
    """An artifact that nobody measured."""
    return aitune.torch.tune(model, samples, tune=False, workspace=folder, **options)


def test_a_linear_layer_becomes_a_batched_artifact(tmp_path: Path) -> None:
    """Names, bounds, verdict, probe, samples and where it all came from."""
    artifact = tuned(nn.Linear(4, 3), [numbers(1, 4), numbers(3, 4)], tmp_path, output_names=["scores"])
    assert (artifact.input_names, artifact.output_names, artifact.max_batch_size) == (("input",), ("scores",), 8)
    artifact.verify()
    evidence = artifact.evidence
    assert evidence is not None
    assert evidence.batching is not None
    assert evidence.batching.proved
    assert evidence.probe is not None
    assert evidence.samples is not None
    provenance = dict(evidence.provenance)
    assert (provenance["source"], provenance["exporter"], provenance["opset"]) == ("torch", "torch.export", "20")
    assert provenance["torch"] == torch.__version__


def test_ranges_reach_from_options_to_the_record(tmp_path: Path) -> None:
    """What was asked for is what was proved, beyond what the samples showed."""
    artifact = tuned(
        nn.Conv2d(3, 2, 3),
        numbers(1, 3, 8, 8),
        tmp_path,
        min_shapes={"input": (1, 3, 6, 6)},
        max_shapes={"input": (4, 3, 12, 16)},
    )
    assert artifact.inputs[0].min_shape == (1, 3, 6, 6)
    assert artifact.inputs[0].max_shape == (4, 3, 12, 16)
    assert artifact.outputs[0].max_shape == (4, 2, 10, 14)


def test_a_coupled_batch_is_not_batched_and_says_so(tmp_path: Path) -> None:
    """B40: shapes are perfect, and the values depend on neighbours."""
    coupled = module(lambda self, x: x / x.abs().sum(0, keepdim=True))
    artifact = tuned(coupled, numbers(4, 3), tmp_path)
    assert artifact.max_batch_size is None
    assert artifact.evidence is not None
    assert artifact.evidence.batching is not None
    assert "output" in artifact.evidence.batching.reason


def test_a_demanded_batch_that_is_not_there_stops_the_build(tmp_path: Path) -> None:
    """Asked for a batch, answered with the reason; without the demand the model is served without one."""
    scaled = module(lambda self, x: (x * 2, x.mean()))
    with pytest.raises(BatchingError, match="output_1"):
        tuned(scaled, numbers(4, 3), tmp_path / "a", max_batch_size=4)
    assert tuned(scaled, numbers(4, 3), tmp_path / "b").max_batch_size is None


def test_recorded_samples_are_kept_when_asked(tmp_path: Path) -> None:
    """The user's own numbers, and only then."""
    for keep in ("recorded", "synthetic"):
        artifact = tuned(nn.Linear(4, 3), numbers(2, 4), tmp_path / keep, keep_samples=keep)
        assert artifact.evidence is not None
        assert artifact.evidence.samples is not None
        origins = {sample.origin for sample in artifact.evidence.samples.samples}
        assert ("recorded" in origins) is (keep == "recorded")


def test_a_failed_build_leaves_nothing_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own in the cache goes when there is no artifact to live in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(SourceError):
        aitune.torch.tune(module(lambda self, x: torch.linalg.eigvals(x).abs()), numbers(2, 3, 3), tune=False)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def observed(model: nn.Module, samples: Any, folder: Path) -> Any:
    """A module that was observed and exported."""
    return export(observe(model, samples), folder / "model.onnx")


class Gain(nn.Module):
    """Multiplies by a weight, which a test can change behind an export."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> Any:
        """The product, and which of them are positive."""
        return {"y": x * self.gain, "positive": x * self.gain > 0}


def test_a_difference_names_tensor_size_and_error(tmp_path: Path) -> None:
    """The checker fails where file and module are not the same function."""
    model = Gain()
    exported = observed(model, numbers(2, 3), tmp_path)
    with torch.no_grad():
        model.gain += 0.5
    with pytest.raises(NumericsError, match=r"output 'y' .* at sample 0: .*difference"):
        verify(exported.observation, exported.path, exported.interface)


def test_whole_numbers_may_differ_where_rounding_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of thousands is a tie, many are not."""
    few, many = np.zeros(2000, np.int64), np.zeros(2000, np.int64)
    few[0], many[:10] = 1, 1
    same = np.zeros(2000, np.int64)
    assert verification._is_tie(few, same)
    assert not verification._is_tie(many, same)
    assert not verification._is_tie(few.astype(np.float32), same.astype(np.float32))
    assert not verification._is_tie(few[:5], same)


def test_sizes_that_the_module_refuses_are_left_out_and_said(tmp_path: Path) -> None:
    """A module that takes even sizes only is compared at even sizes."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] % 16:
            raise ValueError("a multiple of 16")
        return x * 2

    exported = observed(module(forward), [numbers(2, 16), numbers(2, 32)], tmp_path)
    assert any("the module itself refuses" in note for note in exported.notes)
    assert {size["x_dim1"] for size in exported.verification.sizes} == {16, 32}


def test_samples_own_values_stand_in_for_random_ones(tmp_path: Path) -> None:
    """Values that only mean something together (rows that sum to one) are not made up."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_exporting() and not torch.allclose(x.sum(1), torch.ones(len(x))):
            raise ValueError("rows must sum to one")
        return x * 2

    exported = observed(module(forward), numbers(2, 4).softmax(1), tmp_path)
    assert any("the samples' own were used" in note for note in exported.notes)


def test_the_sentence_encoder_of_the_quickstart_is_exported(tmp_path: Path, repository_root: Path) -> None:
    """The real MiniLM, real weights, an output called like an internal value, equal to its module at every size.

    Without the longest of its samples, to save time.
    """
    source = aitune.torch.load_source(f"{repository_root}/examples/minilm.py:sentence_encoder")
    exported = observed(source.module, source.samples[:2], tmp_path)
    assert [(port.name, port.shape) for port in exported.interface.inputs] == [
        ("input_ids", ("batch", "sequence")),
        ("attention_mask", ("batch", "sequence")),
    ]
    assert [(port.name, port.shape) for port in exported.interface.outputs] == [("embedding", ("batch", 384))]
    assert exported.verification.largest < 1e-5
    assert "an internal value gave up the name 'embedding' to an output" in exported.notes
    sys.modules.pop("minilm", None)
