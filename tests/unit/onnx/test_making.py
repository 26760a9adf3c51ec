"""From an ONNX file to an artifact."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aitune.errors import BatchingError, SourceError, UsageError
from aitune.onnx.making import check_servable, tune
from aitune.onnx.reading import read_interface
from aitune.records import DType, ONNXArtifact
from aitune.records.codec import dump_artifact

Write = Callable[..., Path]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
GAIN = numpy_helper.from_array(np.array([2.0, 3.0, 4.0, 5.0], np.float32), "gain")


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., ONNXArtifact]:
    """``tune`` without measuring, into a folder of its own."""

    def call(path: Path, **options: Any) -> ONNXArtifact:
        return tune(path, workspace=tmp_path / "made", **{"tune": False, "isolate": False, "cache": False, **options})

    return call


def _scale(build: Write, shape: tuple[Any, ...] = ("N", 4)) -> Path:
    """``y = x * gain``: batches along the first axis."""
    return build([helper.make_node("Mul", ["x", "gain"], ["y"])], [("x", FLOAT, shape)], [("y", FLOAT, shape)], [GAIN])


def _shapes(artifact: ONNXArtifact) -> list[tuple[Any, ...]]:
    specs = (*artifact.inputs, *artifact.outputs)
    return [(spec.name, spec.shape, spec.min_shape, spec.max_shape) for spec in specs]


def test_a_file_becomes_an_artifact_with_proof(build: Write, make: Callable[..., ONNXArtifact], tmp_path: Path) -> None:
    """Without any option the first axis is tried at 1 to 8, proved, and everything lies in the workspace."""
    path = _scale(build)
    artifact = make(path)
    assert _shapes(artifact) == [("x", ("N", 4), (1, 4), (8, 4)), ("y", ("N", 4), (1, 4), (8, 4))]
    assert artifact.max_batch_size == 8
    assert artifact.path == tmp_path / "made" / "model.onnx"
    artifact.verify()
    path.unlink()
    artifact.verify()
    evidence = artifact.evidence
    assert evidence is not None
    assert evidence.batching is not None
    assert evidence.batching.proved
    assert dict(evidence.provenance)["samples"] == "synthetic"
    assert dict(evidence.provenance)["opsets"] == "ai.onnx 17"


def test_nothing_in_a_record_names_a_path(build: Write, make: Callable[..., ONNXArtifact], tmp_path: Path) -> None:
    """What goes into the record can be published: no folder, and so no user, stands in it."""
    target = numpy_helper.from_array(np.array([2, 4], np.int64), "target")
    node = helper.make_node("Reshape", ["x", "target"], ["y"])
    path = build([node], [("x", FLOAT, ["N", 4])], [("y", FLOAT, None)], [target])
    for artifact in (make(_scale(build, ("N", 4))), make(path)):
        assert str(tmp_path) not in json.dumps(dump_artifact(artifact))


def test_the_batch_is_measured_when_asked(build: Write, make: Callable[..., ONNXArtifact]) -> None:
    """Candidates are measured within the budget, and the winner is one that was measured at that batch."""
    artifact = make(_scale(build), tune=True, tune_seconds=0.3, max_batch_size=4)
    assert artifact.max_batch_size == 4
    assert artifact.evidence is not None
    tuning = artifact.evidence.tuning
    assert tuning is not None
    assert (tuning.winner, 4) in {(one.candidate, one.batch_size) for one in tuning.measurements}


def test_companions_come_along(external: Write, make: Callable[..., ONNXArtifact]) -> None:
    """B19: a model with its weights beside it is recorded, copied and verified with them."""
    artifact = make(external("data/w.bin"))
    assert [companion.name for companion in artifact.companions] == ["data/w.bin"]
    artifact.verify()
    assert (artifact.path.parent / "data" / "w.bin").exists()


def test_axes_without_a_range_are_listed_with_the_option_to_give(
    build: Write, make: Callable[..., ONNXArtifact], tmp_path: Path
) -> None:
    """A file cannot say how long its sequences are: the error names input, axis and symbol, and shows the option."""
    path = _scale(build, ("N", "length", 4))
    with pytest.raises(UsageError, match=r"axis 1 of 'x' \('length'\)") as caught:
        make(path)
    assert "--min-shape x=" in caught.value.hint
    assert not (tmp_path / "made").exists()
    artifact = make(path, min_shapes={"x": (1, 2, 4)}, max_shapes={"x": (4, 16, 4)})
    assert _shapes(artifact)[0] == ("x", ("N", "length", 4), (1, 2, 4), (4, 16, 4))


def test_samples_teach_sizes_and_values(build: Write, make: Callable[..., ONNXArtifact], tmp_path: Path) -> None:
    """Ranges come from the samples in an ``.npz`` file, and an index stays within what was seen."""
    table = numpy_helper.from_array(np.ones((7, 4), np.float32), "table")
    node = helper.make_node("Gather", ["table", "ids"], ["y"])
    path = build([node], [("ids", INT64, ["N", "length"])], [("y", FLOAT, None)], [table])
    arrays = {"ids#0": np.array([[0, 6, 3]]), "ids#1": np.array([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])}
    np.savez(tmp_path / "s.npz", **arrays)
    for samples in (tmp_path / "s.npz", [{"ids": array} for array in arrays.values()]):
        artifact = make(path, samples=samples, keep_samples="recorded")
        assert artifact.inputs[0].min_shape[1:] + artifact.inputs[0].max_shape[1:] == (3, 5)
        assert artifact.evidence is not None
        assert (artifact.evidence.inputs[0].low, artifact.evidence.inputs[0].high) == (0.0, 6.0)
        assert artifact.evidence.samples is not None
        assert "recorded" in {sample.origin for sample in artifact.evidence.samples.samples}


def _reshape(build: Write, *target: int, shape: tuple[Any, ...] = ("N", 4)) -> Path:
    tensor = numpy_helper.from_array(np.array(target, np.int64), "target")
    node = helper.make_node("Reshape", ["x", "target"], ["y"])
    return build([node], [("x", FLOAT, shape)], [("y", FLOAT, None)], [tensor])


def _pinned(build: Write) -> Path:
    """B02: whatever the batch, two rows come out."""
    return _reshape(build, 2, -1)


def _doubled(build: Write) -> Path:
    """B08: twice as many rows as came in."""
    return _reshape(build, -1, 2)


def _counted(build: Write) -> Path:
    """B07: as many rows as the data has non-zeros."""
    nodes = [helper.make_node("NonZero", ["x"], ["n"]), helper.make_node("Transpose", ["n"], ["y"])]
    return build(nodes, [("x", FLOAT, ["N", 4])], [("y", INT64, ["k", 2])])


def _partial(build: Write) -> Path:
    """B03: one of two outputs has no batch."""
    nodes = [helper.make_node("Mul", ["x", "gain"], ["y"]), helper.make_node("Identity", ["gain"], ["w"])]
    return build(nodes, [("x", FLOAT, ["N", 4])], [("y", FLOAT, ["N", 4]), ("w", FLOAT, [4])], [GAIN])


def _scalars(build: Write) -> Path:
    """B09: a scalar input and a scalar output."""
    nodes = [helper.make_node("Mul", ["x", "t"], ["y"]), helper.make_node("ReduceMean", ["x"], ["w"], keepdims=0)]
    return build(nodes, [("x", FLOAT, ["N", 4]), ("t", FLOAT, [])], [("y", FLOAT, ["N", 4]), ("w", FLOAT, [])])


def _coupled(build: Write) -> Path:
    """B40: every row depends on all rows."""
    axis = numpy_helper.from_array(np.array([0], np.int64), "axis")
    nodes = [helper.make_node("ReduceSum", ["x", "axis"], ["w"]), helper.make_node("Div", ["x", "w"], ["y"])]
    return build(nodes, [("x", FLOAT, ["N", 4])], [("y", FLOAT, ["N", 4])], [axis])


def _fixed(build: Write) -> Path:
    """B04: a fixed first axis of one."""
    return _scale(build, (1, 4))


def _second(build: Write) -> Path:
    """B11: rows lie along the second axis."""
    return _scale(build, (7, "batch", 4))


@pytest.mark.parametrize(
    ("write", "options", "word"),
    [
        (_pinned, {}, "'y'"),
        (_doubled, {}, "'y'"),
        (_counted, {}, "'y'"),
        (_partial, {}, "'w'"),
        (_scalars, {}, "'t'|'w'"),
        (_coupled, {}, "'y'"),
        (_fixed, {}, "'x'|'y'"),
        (_second, {"min_shapes": {"x": (7, 1, 4)}, "max_shapes": {"x": (7, 8, 4)}}, "'x'|'y'"),
    ],
)
def test_a_model_that_does_not_batch_is_recorded_as_such_and_never_batched_on_demand(
    build: Write, make: Callable[..., ONNXArtifact], write: Write, options: dict[str, Any], word: str
) -> None:
    """The verdict names the tensor; when a batch was demanded the answer is no."""
    path = write(build)
    artifact = make(path, **options)
    assert artifact.max_batch_size is None
    assert artifact.evidence is not None
    assert artifact.evidence.batching is not None
    assert artifact.evidence.batching.verdict == "unbatched"
    with pytest.raises(BatchingError, match=word):
        make(path, max_batch_size=4, **options)


def test_an_output_of_one_number_a_row_batches(build: Write, make: Callable[..., ONNXArtifact]) -> None:
    """B10: an argmax gives one number a row, rank 1, and batches."""
    node = helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)
    artifact = make(build([node], [("x", FLOAT, ["N", 4])], [("y", INT64, ["N"])]))
    assert artifact.max_batch_size == 8
    assert artifact.outputs[0].shape == ("N",)


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.STRING, DType.BOOL, DType.UINT64, DType.FLOAT16])
def test_every_element_type_goes_the_whole_way(relu: Write, make: Callable[..., ONNXArtifact], dtype: DType) -> None:
    """B21, B22: the element type is the file's, and proof, probe and samples work with it."""
    artifact = make(relu(("N", 3), dtype=getattr(TensorProto, dtype.name)))
    assert (artifact.inputs[0].dtype, artifact.outputs[0].dtype) == (dtype, dtype)
    assert artifact.max_batch_size == 8


def test_optional_inputs_are_noted_and_left_out(build: Write, make: Callable[..., ONNXArtifact]) -> None:
    """B27: an input with a stored value is not part of the contract, and a person is told."""
    ports = [("x", FLOAT, ["N", 4]), ("gain", FLOAT, [4])]
    artifact = make(build([helper.make_node("Mul", ["x", "gain"], ["y"])], ports, [("y", FLOAT, ["N", 4])], [GAIN]))
    assert artifact.input_names == ("x",)
    assert artifact.evidence is not None
    assert "input 'gain' has a stored value, which is always used" in artifact.evidence.notes[0]


def _zipmap(build: Write) -> Path:
    maps = onnx.ValueInfoProto(name="z")
    inner = maps.type.sequence_type.elem_type.map_type
    inner.key_type, inner.value_type.tensor_type.elem_type = INT64, FLOAT
    node = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    opsets = (("", 17), ("ai.onnx.ml", 1))
    return build([node], [("x", FLOAT, ["N", 2])], [maps], opsets=opsets, producer_name="skl2onnx")


def _empty(build: Write) -> Path:
    node = helper.make_node("Relu", ["past"], ["y"])
    return build([node], [("past", FLOAT, ["N", 0, 4])], [("y", FLOAT, ["N", 0, 4])])


def _float8(build: Write) -> Path:
    node = helper.make_node("Identity", ["x"], ["y"])
    ports = [[(name, TensorProto.FLOAT8E4M3FN, ["N"])] for name in "xy"]
    return build([node], *ports, opsets=(("", 19),), ir=9)


def _unranked(build: Write) -> Path:
    return build([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, None)], [("y", FLOAT, None)])


@pytest.mark.parametrize(
    ("write", "message", "hint"),
    [
        (_zipmap, "output 'z' of .* is a sequence, and Triton carries tensors only", "zipmap=False"),
        (_empty, "input 'past' of .* has the fixed size 0 on axis 1", "remove the empty tensor"),
        (_float8, "input 'x' of .* holds FLOAT8E4M3FN, for which Triton has no data type", "Cast"),
        (_unranked, "input 'x' does not declare how many axes it has", "with its shapes"),
    ],
)
def test_what_triton_cannot_serve_is_refused_with_the_reason(
    build: Write, make: Callable[..., ONNXArtifact], write: Write, message: str, hint: str
) -> None:
    """B25, B28 and their siblings: one line says which value it is and what to do."""
    with pytest.raises(SourceError, match=message) as caught:
        make(write(build))
    assert hint in caught.value.hint


def test_a_model_without_outputs_or_with_blank_names_is_refused(build: Write) -> None:
    """Nothing could be asked of it."""
    node = helper.make_node("Relu", ["x"], ["y"])
    for name, outputs, message in ((" ", [("y", FLOAT, [1])], "has a blank name"), ("x", [], "has no outputs")):
        path = build([node], [(name, FLOAT, [1])], outputs)
        with pytest.raises(SourceError, match=message):
            check_servable(path, read_interface(path, prefer=("declared",)))


def test_without_a_workspace_the_files_lie_in_the_cache(
    build: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Python way needs no folder: the artifact lives in the cache, and a failure leaves nothing there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    artifact = tune(_scale(build), tune=False, keep_samples="none")
    assert artifact.path.is_relative_to(tmp_path / "cache" / "aitune" / "artifacts")
    with pytest.raises(BatchingError):
        tune(_fixed(build), tune=False, max_batch_size=2)
    assert len(list((tmp_path / "cache" / "aitune" / "artifacts").iterdir())) == 1
