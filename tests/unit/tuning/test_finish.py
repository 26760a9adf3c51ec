"""From a model file to its artifact."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tuning_fakes import Fake, FakeClock, Recorder, interface

from aitune.errors import BatchingError, SourceError, UsageError
from aitune.numerics import Array, check_probe, observe_domains, probe_request, read_samples
from aitune.numerics.samples import SAMPLE_FILE_NAME
from aitune.records import Artifact, DType, ONNXArtifact
from aitune.records.codec import Document, dumps_document, loads_document
from aitune.records.interface import Interface
from aitune.tuning import finish, resolve_ranges, tensor_specs

WEIGHTS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
LINEAR = interface({"x": ("batch", 4)}, {"y": ("batch", 3)})
TOKENS = interface(
    {"ids": (DType.INT64, ("batch", "sequence")), "mask": (DType.INT64, ("batch", "sequence"))},
    {"y": ("batch", "sequence", 2), "pooled": ("rows", 2)},
)
BOUNDS = {"min_shapes": {"ids": (1, 8)}, "max_shapes": {"ids": (4, 32)}}


def linear(x: Array) -> Array:
    """Rows are independent."""
    return x @ WEIGHTS


def tokens(ids: Array, mask: Array) -> Mapping[str, Array]:
    """A token model with a pooled output."""
    values = np.stack([ids * mask, ids], axis=-1).astype(np.float32)
    with np.errstate(invalid="ignore"):
        return {"y": values, "pooled": values.sum(1) / mask.sum(1, keepdims=True).astype(np.float32)}


def made(
    file: Path, face: Interface, function: Callable[..., Any], *more: Fake, bounds: Any = None, **options: Any
) -> Artifact:
    """The artifact of a function; not tuned unless asked."""
    specs = tensor_specs(face.inputs, "input")
    samples = options.get("samples", ())
    ranges = resolve_ranges(specs, samples=samples, **(bounds or {}))
    domains = observe_domains(specs, ranges.shapes("typical"), samples)
    return finish(file, face, ranges, domains, [Fake(function), *more], **{"tune": False} | options)


def evidence(artifact: Artifact) -> Any:
    """Its evidence, which is there."""
    assert artifact.evidence is not None
    return artifact.evidence


def test_a_model_that_batches_gets_its_contract(model_file: Path) -> None:
    """Batch axis on every tensor, bounds from 1 to 8, fingerprint, verdict, probe, samples and machine."""
    artifact = made(model_file, LINEAR, linear, provenance=[("source", "test")], notes=["repaired"])
    assert isinstance(artifact, ONNXArtifact)
    assert artifact.max_batch_size == 8
    assert artifact.inputs[0].max_shape == (8, 4)
    assert artifact.outputs[0].shape == ("batch", 3)
    assert artifact.fingerprint == hashlib.sha256(b"weights").hexdigest()
    found = evidence(artifact)
    assert found.batching.proved
    assert found.tuning is None
    assert found.notes == ("repaired",)
    assert dict(found.provenance).keys() == {"source", "python", "numpy", "machine", "cpu", "cpus", "samples"}
    assert dict(found.provenance)["samples"] == "synthetic"
    assert found.inputs[0].zeros_valid


def test_the_record_survives_its_json_and_names_no_path(model_file: Path) -> None:
    """What is published equals what was made, and nothing of this machine's folders is in it."""
    artifact = made(model_file, LINEAR, linear)
    text = dumps_document(Document(artifact=artifact))
    assert loads_document(text, model_file.parent).artifact.evidence == artifact.evidence
    assert str(model_file.parent) not in text


def test_the_probe_and_the_samples_are_what_the_model_answers(model_file: Path) -> None:
    """The probe agrees with a new run; samples lie beside the model, smallest to largest."""
    artifact = made(model_file, LINEAR, linear)
    found = evidence(artifact)
    request = probe_request(found.probe, artifact.inputs)
    assert check_probe(found.probe, {"y": linear(**request)}, artifact.outputs).agrees
    samples = read_samples(model_file.parent / SAMPLE_FILE_NAME, artifact)
    assert [(item.label, len(item.inputs["x"])) for item in samples] == [
        ("smallest", 1),
        ("typical", 2),
        ("largest", 8),
    ]
    for item in samples:
        assert np.array_equal(item.outputs["y"], linear(**item.inputs))


def test_symbols_mean_the_same_everywhere(model_file: Path) -> None:
    """A symbol of an output is kept where it is new or keeps its size, and dropped where it lies."""
    lying = interface(
        {"ids": (DType.INT64, ("batch", "sequence")), "mask": (DType.INT64, ("batch", "sequence"))},
        {"y": ("batch", "sequence", 2), "pooled": ("sequence", 2)},
    )
    assert made(model_file, TOKENS, tokens, bounds=BOUNDS).outputs[1].shape == ("rows", 2)
    artifact = made(model_file, lying, tokens, bounds=BOUNDS)
    assert artifact.outputs[0].shape == ("batch", "sequence", 2)
    assert artifact.outputs[1].shape == (None, 2)
    assert artifact.max_batch_size == 4


def test_an_unproved_model_gets_no_batch_axis_but_full_bounds(model_file: Path) -> None:
    """The verdict carries the reason, and the first axis is a free axis like any other."""
    artifact = made(model_file, LINEAR, lambda x: (x / (x.sum(0) + 1))[:, :3])
    assert artifact.max_batch_size is None
    assert {spec.batch_axis for spec in artifact.inputs + artifact.outputs} == {None}
    assert (artifact.inputs[0].min_shape, artifact.inputs[0].max_shape) == ((1, 4), (8, 4))
    assert evidence(artifact).batching.reason.startswith("row ")


def test_a_demanded_batch_that_is_not_there_is_an_error(model_file: Path) -> None:
    """The message has the demand and the reason, and nothing is written."""
    with pytest.raises(BatchingError, match=r"max_batch_size 4 was asked for, but .* output 'y' has 6 rows for"):
        made(model_file, interface({"x": ("b", 4)}, {"y": ("c", 2)}), lambda x: x.reshape(-1, 2),
             requested_max_batch_size=4)  # fmt: skip
    assert [path.name for path in model_file.parent.iterdir()] == ["model.onnx"]


def test_a_demanded_batch_is_given_exactly(model_file: Path) -> None:
    """Not what the default would be."""
    assert made(model_file, LINEAR, linear, requested_max_batch_size=13).max_batch_size == 13
    assert made(model_file, LINEAR, linear, requested_max_batch_size=1).max_batch_size == 1


def test_batching_can_be_turned_off(model_file: Path) -> None:
    """Zero is a wish, not a verdict on the model: nothing is tried."""
    artifact = made(model_file, LINEAR, linear, requested_max_batch_size=0)
    assert artifact.max_batch_size is None
    assert evidence(artifact).batching.reason == "max_batch_size 0 was asked for"
    assert evidence(artifact).batching.evidence == ()


def test_a_largest_shape_bounds_the_batch(model_file: Path) -> None:
    """What the user said of the first axis is the largest batch, tuned or not."""
    bounds = {"max_shapes": {"x": (6, 4)}}
    assert made(model_file, LINEAR, linear, bounds=bounds).max_batch_size == 6
    clock = FakeClock()

    def steady(x: Array) -> Array:
        clock.spend(0.1)
        return linear(x)

    assert made(model_file, LINEAR, steady, bounds=bounds, tune=True, clock=clock).max_batch_size == 6


def test_tuning_finds_a_larger_batch_and_proves_it_again(model_file: Path) -> None:
    """Throughput rises up to the cap; the verdict speaks of that size."""
    clock = FakeClock()

    def steady(x: Array) -> Array:
        clock.spend(0.01)
        return linear(x)

    artifact = made(model_file, LINEAR, steady, tune=True, clock=clock, seconds=1000.0)
    assert artifact.max_batch_size == 64
    assert "and 64 is answered" in evidence(artifact).batching.reason
    assert evidence(artifact).tuning.winner == "default"


def test_a_batch_that_fails_its_second_proof_is_not_allowed(model_file: Path) -> None:
    """Rows that mix only from 16 on: the batch stays at what was proved, and a note says so."""
    clock = FakeClock()

    def mixing(x: Array) -> Array:
        clock.spend(0.01)
        return linear(x) + (x.mean() if len(x) >= 16 else 0)

    artifact = made(model_file, LINEAR, mixing, tune=True, clock=clock, seconds=1000.0)
    assert artifact.max_batch_size == 8
    assert evidence(artifact).batching.proved
    assert evidence(artifact).notes[0].startswith("batches over 8 are not allowed: row ")


def test_a_winner_that_does_not_batch_gives_way_to_the_baseline(model_file: Path) -> None:
    """Settings can break independence; then the simple way is served, and the record tells why."""
    clock = FakeClock()

    def slow(x: Array) -> Array:
        clock.spend(0.1)
        return linear(x)

    def fast(x: Array) -> Array:
        clock.spend(0.01)
        return linear(x) + (np.float32(0.01) * x.mean() if len(x) == 5 else 0)

    other = Fake(fast, "fast", {"graph": "wild"})
    artifact = made(model_file, LINEAR, slow, other, tune=True, clock=clock, requested_max_batch_size=8)
    found = evidence(artifact).tuning
    assert (found.winner, found.settings) == ("default", ())
    assert found.rejected[0][1].startswith("does not batch: row ")
    assert artifact.max_batch_size == 8
    assert other.opened == other.closed == 2


def test_the_winner_answers_the_samples_and_its_settings_are_recorded(model_file: Path) -> None:
    """A faster candidate with the same answers is what will be served."""
    clock = FakeClock()

    def costs(seconds: float) -> Callable[[Array], Array]:
        def run(x: Array) -> Array:
            clock.spend(seconds)
            return linear(x)

        return run

    other = Fake(costs(0.01), "fast", {"intra_op_thread_count": "1"})
    artifact = made(model_file, LINEAR, costs(0.1), other, tune=True, clock=clock, requested_max_batch_size=8)
    assert evidence(artifact).tuning.settings == (("intra_op_thread_count", "1"),)
    assert evidence(artifact).batching.proved
    assert other.opened == other.closed == 2


def test_a_size_that_the_data_decides_is_bounded_honestly(model_file: Path) -> None:
    """A count of hits: from 1 to what was seen, no symbol, and a note that it is no promise."""
    face = interface({"x": ("batch", 4)}, {"y": ("hits", 2)})
    artifact = made(model_file, face, lambda x: np.argwhere(x > 0.5).astype(np.float32))
    assert artifact.outputs[0].shape == (None, 2)
    assert artifact.outputs[0].min_shape == (1, 2)
    assert artifact.outputs[0].max_shape[0] > 8
    assert "axis 0 of output 'y' depends on the data" in evidence(artifact).notes[0]


def test_an_empty_output_is_noted(model_file: Path) -> None:
    """A contract has no size 0, so the bound is 1 and the note says it was empty."""
    face = interface({"x": ("batch", 4)}, {"y": (None, 2)})
    artifact = made(model_file, face, lambda x: np.zeros((0, 2), np.float32))
    assert artifact.outputs[0].max_shape == (1, 2)
    assert "axis 0 of output 'y' was empty in a run" in evidence(artifact).notes


def test_a_model_that_pins_its_batch_is_recorded_at_the_size_that_runs(model_file: Path) -> None:
    """Nobody named the first axis, so it is what works: 2, and nothing else."""

    def pinned(x: Array) -> Array:
        if len(x) != 2:
            raise SourceError(f"Split: got {len(x)} rows, expected 2")
        return linear(x)

    artifact = made(model_file, LINEAR, pinned)
    assert (artifact.inputs[0].min_shape, artifact.inputs[0].max_shape) == ((2, 4), (2, 4))
    assert evidence(artifact).batching.reason == "batch 5 does not run: Split: got 5 rows, expected 2"
    assert evidence(artifact).inputs[0].typical_shape == (2, 4)


def test_an_output_that_is_fixed_to_one_row_narrows_a_guessed_first_axis(model_file: Path) -> None:
    """A file that declares one row of output cannot be asked for more."""
    face = interface({"x": ("batch", 4)}, {"y": (1, 3)})
    artifact = made(model_file, face, linear)
    assert artifact.inputs[0].max_shape == (1, 4)
    assert evidence(artifact).batching.reason == "output 'y' has a fixed first axis of 1"


def test_a_shape_that_the_user_named_must_run(model_file: Path) -> None:
    """Then it is an error, with the shape and the runtime's reason."""

    def short(ids: Array, mask: Array) -> Mapping[str, Array]:
        if ids.shape[1] > 16:
            raise SourceError("Gather: position 31 is out of bounds")
        return tokens(ids, mask)

    with pytest.raises(SourceError, match=r"at its largest shape \(ids: 4x32, .*\): Gather: position 31"):
        made(model_file, TOKENS, short, bounds=BOUNDS)


def test_a_model_that_does_not_run_at_all_is_an_error(model_file: Path) -> None:
    """The first request says so, whoever named the shape."""

    def broken(**_: Array) -> Array:
        raise SourceError("no kernel for Foo")

    with pytest.raises(SourceError, match=r"does not run at its typical shape \(x: 1x4\): no kernel for Foo"):
        made(model_file, LINEAR, broken)
    with pytest.raises(SourceError, match="does not run at its typical shape"):
        made(model_file, TOKENS, broken, bounds=BOUNDS)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: {"z": x}, "did not give output 'y'"),
        (lambda x: x[..., None], r"output 'y' has shape \(1, 4, 1\) .* but the file declares \('batch', 3\)"),
        (lambda x: x, r"output 'y' has shape \(1, 4\)"),
        (
            lambda x: x.astype(np.float64),
            "does not answer as the file declares at its typical shape: output 'y' of type",
        ),
    ],
)
def test_an_answer_that_contradicts_the_file_is_an_error(
    model_file: Path, function: Callable[..., Any], message: str
) -> None:
    """A fixed size, a rank or an output that does not come as declared: Triton would refuse or lie."""
    with pytest.raises(SourceError, match=message):
        made(model_file, LINEAR, function)


def test_zeros_are_valid_only_where_outputs_stay_finite(model_file: Path) -> None:
    """A mask of zeros divides by zero, ids of zeros do not: each input is judged, the valid ones together."""
    found = evidence(made(model_file, TOKENS, tokens, bounds=BOUNDS, samples=[
        {"ids": np.full((2, 8), 5), "mask": np.ones((2, 8), np.int64)}
    ]))  # fmt: skip
    assert {item.name: item.zeros_valid for item in found.inputs} == {"ids": True, "mask": False}


def test_zeros_that_the_runtime_refuses_are_not_valid(model_file: Path) -> None:
    """The refusal is the answer, not an error."""

    def positive(x: Array) -> Array:
        if not x.any():
            raise SourceError("log of zero")
        return linear(x)

    assert not evidence(made(model_file, LINEAR, positive)).inputs[0].zeros_valid


def test_a_random_model_has_neither_probe_nor_samples(model_file: Path) -> None:
    """What cannot be repeated proves nothing; the note says so."""
    generator = np.random.default_rng(1)
    artifact = made(model_file, LINEAR, lambda x: linear(x) + generator.random(1, dtype=np.float32))
    found = evidence(artifact)
    assert (found.probe, found.samples) == (None, None)
    assert found.batching.reason.startswith("two equal runs of batch 5 differ in output 'y'")
    assert any(note.startswith("no golden probe and no samples: two equal runs differ") for note in found.notes)
    assert not (model_file.parent / SAMPLE_FILE_NAME).exists()


RECORDED = [
    {"ids": np.full((rows, length), 7), "mask": np.ones((rows, length), np.int64)} for rows, length in ((1, 8), (3, 16))
]


def test_recorded_samples_are_kept_only_when_asked(model_file: Path) -> None:
    """By default nothing of the user's data is stored; asked for, theirs come first."""
    plain = evidence(made(model_file, TOKENS, tokens, samples=RECORDED))
    assert {item.origin for item in plain.samples.samples} == {"synthetic"}
    assert dict(plain.provenance)["samples"] == "recorded"
    artifact = made(model_file, TOKENS, tokens, samples=RECORDED, keep_samples="recorded")
    kept = read_samples(model_file.parent / SAMPLE_FILE_NAME, artifact)
    recorded = [item for item in kept if item.origin == "recorded"]
    assert [item.label for item in recorded] == ["smallest", "typical"]
    assert np.array_equal(recorded[1].inputs["ids"], RECORDED[1]["ids"])
    assert evidence(made(model_file, TOKENS, tokens, samples=RECORDED, keep_samples="none")).samples is None


def test_a_recorded_sample_outside_the_bounds_is_not_kept(model_file: Path) -> None:
    """The user narrowed the range; the sample would not be servable."""
    bounds = {"max_shapes": {"ids": (2, 8)}}
    artifact = made(model_file, TOKENS, tokens, samples=RECORDED, keep_samples="recorded", bounds=bounds)
    kept = read_samples(model_file.parent / SAMPLE_FILE_NAME, artifact)
    assert [item.label for item in kept if item.origin == "recorded"] == ["smallest"]


def test_a_batch_that_the_samples_have_stays_allowed(model_file: Path) -> None:
    """Samples of 20 rows: the default of 8 would refuse what users send."""
    samples = [{"x": np.ones((20, 4), np.float32)}]
    assert made(model_file, LINEAR, linear, samples=samples).max_batch_size == 20


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"x": np.ones((1, 4))}, "sample 0 does not fit: input 'x' of type float32 must be held as numpy float32"),
        ({"z": np.ones((1, 4))}, "sample 0 lacks input 'x', it has 'z'"),
    ],
)
def test_a_sample_that_does_not_fit_is_refused(model_file: Path, sample: Any, message: str) -> None:
    """Before anything is run."""
    specs = tensor_specs(LINEAR.inputs, "input")
    ranges = resolve_ranges(specs)
    domains = observe_domains(specs, ranges.shapes("typical"))
    with pytest.raises(SourceError, match=message):
        finish(model_file, LINEAR, ranges, domains, [Fake(linear)], samples=[sample])


def test_samples_that_are_too_large_are_not_kept(model_file: Path) -> None:
    """No sample file, and a note instead."""
    face = interface({"x": ("batch", 600, 600)}, {"y": ("batch", 600, 600)})
    found = evidence(made(model_file, face, lambda x: x, requested_max_batch_size=1))
    assert found.samples is None
    assert "no sample is kept: the smallest request is larger than 1 MiB" in found.notes


def test_companions_are_fingerprinted(model_file: Path) -> None:
    """External weights are part of the record."""
    (model_file.parent / "model.onnx.data").write_bytes(b"more")
    artifact = made(model_file, dataclasses.replace(LINEAR, companions=("model.onnx.data",)), linear)
    assert artifact.companions[0].fingerprint == hashlib.sha256(b"more").hexdigest()
    artifact.verify()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"requested_max_batch_size": -1}, "max_batch_size must be 0 or more, got -1"),
        ({"keep_samples": "all"}, "keep_samples must be one of none, synthetic, recorded, got 'all'"),
    ],
)
def test_options_that_make_no_sense_are_refused(model_file: Path, options: Any, message: str) -> None:
    """Before the model is opened."""
    with pytest.raises(UsageError, match=message):
        made(model_file, LINEAR, linear, **options)


def test_a_format_without_artifact_and_no_candidates_are_refused(model_file: Path) -> None:
    """What cannot end in a record is not begun."""
    with pytest.raises(UsageError, match="'caffe' has no artifact; known are onnx, tensorrt_plan"):
        made(model_file, dataclasses.replace(LINEAR, format="caffe"), linear)
    with pytest.raises(UsageError, match="at least one candidate"):
        finish(model_file, LINEAR, resolve_ranges([]), [], [])


@pytest.mark.parametrize("at", [1, 2, 5, 40, 70, 75])
def test_an_interrupt_at_any_run_leaves_nothing(model_file: Path, at: int) -> None:
    """Ctrl-C: the session is closed, no file is there, and the progress is not left open by the proof."""
    runs = iter(range(1, 1000))

    def interrupted(x: Array) -> Array:
        if next(runs) == at:
            raise KeyboardInterrupt
        return linear(x)

    candidate = Fake(interrupted)
    specs = tensor_specs(LINEAR.inputs, "input")
    ranges = resolve_ranges(specs)
    with pytest.raises(KeyboardInterrupt):
        finish(model_file, LINEAR, ranges, observe_domains(specs, ranges.shapes("typical")), [candidate], tune=True,
               seconds=0.0)  # fmt: skip
    assert candidate.closed == candidate.opened
    assert [path.name for path in model_file.parent.iterdir()] == ["model.onnx"]


def test_a_busy_machine_is_noted(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements beside a load of fifty say little, and a reader should know."""
    monkeypatch.setattr("os.getloadavg", lambda: (50.0, 1.0, 1.0))
    assert not evidence(made(model_file, LINEAR, linear)).notes
    assert "load 50 on" in evidence(made(model_file, LINEAR, linear, tune=True, seconds=0.1)).notes[0]


def test_long_steps_say_what_they_do(model_file: Path) -> None:
    """Every step that is started is ended."""
    progress = Recorder()
    made(model_file, LINEAR, linear, progress=progress, tune=True, seconds=0.1)
    assert progress.open == 0
    assert progress.told[0] == "proving batches up to 8"
    assert "measuring 1 candidates" in progress.told
