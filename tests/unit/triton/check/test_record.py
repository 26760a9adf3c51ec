"""The record beside an artifact, and TensorRT plans that have one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from aitune.records import Artifact, DType, ONNXArtifact, TensorRTPlanArtifact, TunedTensorSpec
from aitune.records.artifact import Companion
from aitune.records.codec import Document, dumps_document
from aitune.records.evidence import Evidence, SampleFile

from .conftest import Repository

CONFIG = """backend: "onnxruntime"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
"""
PLAN = CONFIG.replace("onnxruntime", "tensorrt")
GPU = {"target": "gpu"}


def spec(name: str) -> TunedTensorSpec:
    """A batched tensor of four numbers a row, batches of 1 to 8."""
    return TunedTensorSpec(name, DType.FLOAT32, ("batch", 4), (1, 4), (8, 4), 0)


def write(repository: Repository, kind: type[Artifact], content: bytes, config: str | None, **other: Any) -> None:
    """Model file and record of version 1."""
    name = "model.plan" if kind is TensorRTPlanArtifact else "model.onnx"
    path = repository.file(f"m/1/{name}", content)
    given = {"path": path, "inputs": (spec("x"),), "outputs": (spec("y"),), **other}
    artifact = kind(fingerprint=hashlib.sha256(content).hexdigest(), **given)
    repository.file("m/1/aitune.json", dumps_document(Document(artifact=artifact, config=config)))
    repository.file("m/config.pbtxt", PLAN if kind is TensorRTPlanArtifact else CONFIG)


def told(repository: Repository, **options: Any) -> list[tuple[str, str]]:
    """Severity and rule."""
    return [(one.severity, one.rule) for one in repository.check(**options)]


def test_the_record_decides_without_anyone_reading_the_model(repository: Repository) -> None:
    """Hash and record agree, so names, types and shapes are known."""
    write(repository, ONNXArtifact, b"onnx", CONFIG + "# a comment does not count\n")
    assert told(repository, read_interface=None) == []
    repository.file("m/config.pbtxt", CONFIG.replace("[ 4 ]", "[ 5 ]", 1))
    assert told(repository, read_interface=None) == [("warning", "A4"), ("error", "R223")]


def test_exchanged_versions_are_an_error(repository: Repository) -> None:
    """A4: the contract in the config names other weights than those of the version; a server would serve them."""
    write(repository, ONNXArtifact, b"onnx", None)
    right = hashlib.sha256(b"onnx").hexdigest()
    for identity, expected in ((right, []), ("1" * 64, [("error", "A4")])):
        contract = (
            f'parameters {{ key: "aitune.record.1" value {{ string_value: \'{{"identity":"{identity}"}}\' }} }}\n'
        )
        repository.file("m/config.pbtxt", CONFIG + contract)
        assert told(repository, read_interface=None) == expected
    repository.file("m/config.pbtxt", CONFIG + 'parameters { key: "aitune.record.1" value { string_value: "{" } }\n')
    assert told(repository, read_interface=None) == []


def test_the_model_is_asked_before_the_record_refuses(repository: Repository) -> None:
    """The record does not know overridable initializers; the file does."""
    write(repository, ONNXArtifact, b"onnx", None)
    repository.file("m/config.pbtxt", CONFIG.replace("[ 4 ]", "[ 5 ]", 1))
    assert told(repository) == [("error", "R223")]


def test_a_tampered_model_is_an_error(repository: Repository) -> None:
    """A3: somebody proved other bytes."""
    write(repository, ONNXArtifact, b"onnx", CONFIG)
    repository.file("m/1/model.onnx", b"onnX")
    assert told(repository) == [("error", "A3")]


def test_a_missing_companion_is_an_error(repository: Repository) -> None:
    """A3 covers every file of the artifact."""
    write(repository, ONNXArtifact, b"onnx", CONFIG, companions=(Companion(name="w.bin", fingerprint="0" * 64),))
    assert told(repository) == [("error", "A3")]
    repository.file("m/1/w.bin", b"other")
    assert told(repository) == [("error", "A3")]


def contract(number: int = 1) -> str:
    """What a published config carries."""
    return f'parameters {{ key: "aitune.record.{number}" value {{ string_value: "{{}}" }} }}\n'


def test_a_lost_record_is_a_warning(repository: Repository) -> None:
    """A2: the config carries the contract of a version that has no record any more; the server does not care."""
    repository.model(CONFIG + contract())
    [finding] = repository.check()
    assert (finding.severity, finding.rule, finding.file) == ("warning", "A2", "m/1/aitune.json")
    assert "the repository has no record: 1/aitune.json is not there" in finding.message
    assert "publish" in finding.fix


def test_a_folder_in_place_of_the_record_is_a_warning(repository: Repository) -> None:
    """A2: so is a link out of the repository, which nobody follows."""
    repository.model(CONFIG + contract(), files={"1/model.onnx": b"onnx", "1/aitune.json/x": ""})
    [finding] = repository.check()
    assert "1/aitune.json is not a file of the repository" in finding.message


def test_a_repository_of_someone_else_needs_no_record(repository: Repository) -> None:
    """Neither without a contract, nor with that of another version."""
    for text in ("", contract(2), 'parameters { key: "aitune" value { string_value: "1" } }'):
        repository.model(CONFIG + text)
        assert told(repository) == []


def samples(content: bytes) -> Evidence:
    """Evidence with a sample file."""
    index = SampleFile(name="aitune_samples.bin", fingerprint=hashlib.sha256(content).hexdigest(), samples=())
    return Evidence(samples=index)


def test_lost_and_spoiled_samples_are_a_warning(repository: Repository, tmp_path: Path) -> None:
    """A3: the server serves, and nobody can prove its answers with them any more."""
    write(repository, ONNXArtifact, b"onnx", CONFIG, evidence=samples(b"right"))
    [finding] = repository.check(read_interface=None)
    assert (finding.severity, finding.rule, finding.file) == ("warning", "A3", "m/1/aitune_samples.bin")
    assert "cannot be read: there is no such file" in finding.message
    path = repository.file("m/1/aitune_samples.bin", b"right")
    assert told(repository, read_interface=None) == []
    path.write_bytes(b"wrong")
    [finding] = repository.check(read_interface=None)
    assert "is not the recorded one: recorded sha256" in finding.message
    path.unlink()
    (tmp_path / "outside").write_bytes(b"right")
    path.symlink_to(tmp_path / "outside")
    [finding] = repository.check(read_interface=None)
    assert "leads out of the repository" in finding.message


def test_a_record_that_cannot_be_read_is_a_warning(repository: Repository) -> None:
    """A2: the server does not care."""
    write(repository, ONNXArtifact, b"onnx", CONFIG)
    repository.file("m/1/aitune.json", "{")
    assert told(repository) == [("warning", "A2")]


def test_a_newest_version_that_nobody_proved_is_a_warning(repository: Repository) -> None:
    """A5: under latest it serves alone."""
    write(repository, ONNXArtifact, b"onnx", CONFIG)
    repository.file("m/2/model.onnx")
    assert told(repository) == [("warning", "A5")]
    repository.file("m/config.pbtxt", CONFIG + "version_policy { all { } }")
    assert ("warning", "A5") not in told(repository)


def test_a_plan_with_a_record_is_compared(repository: Repository) -> None:
    """Names, types, shapes and sizes of the profile."""
    write(repository, TensorRTPlanArtifact, b"ftrt", PLAN)
    assert told(repository, **GPU) == []
    assert ("error", "R250") in told(repository)


@pytest.mark.parametrize(
    ("rule", "old", "new", "strict"),
    [("R199", "size: 8", "size: 9", False), ("R193", '"x"', '"z"', False), ("R260", '"x"', '"z"', True),
     ("R263", "FP32", "FP64", False), ("R267", "[ 4 ]", "[ 4, 4 ]", False), ("R267", "[ 4 ]", "[ 5 ]", False),
     ("R269", "[ 4 ]", "[ 4 ] allow_ragged_batch: true", False), ("R261", '"x"', '"z"', True),
     ("R259", "output", 'input { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }\noutput', False),
     ("R262", "output", 'input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }\noutput', False)],
)  # fmt: skip
def test_a_plan_that_differs_is_refused(repository: Repository, rule: str, old: str, new: str, strict: bool) -> None:
    """Section 6.3, as far as the record tells."""
    write(repository, TensorRTPlanArtifact, b"ftrt", None)
    repository.file("m/config.pbtxt", PLAN.replace(old, new, 1))
    assert ("error", rule) in told(repository, strict=strict, **GPU)


def test_fixed_sizes_lie_within_the_profile(repository: Repository) -> None:
    """R268: without batching every dim counts."""
    wide = TunedTensorSpec("x", DType.FLOAT32, (None, 4), (2, 4), (8, 4))
    write(repository, TensorRTPlanArtifact, b"ftrt", None, inputs=(wide,))
    config = PLAN.replace("size: 8", "size: 0").replace("[ 4 ]", "[ 9, 4 ]", 1).replace("[ 4 ]", "[ -1, 4 ]")
    repository.file("m/config.pbtxt", config)
    assert told(repository, **GPU) == [("error", "R268")]
    repository.file("m/config.pbtxt", config.replace("9", "8"))
    assert told(repository, **GPU) == []
