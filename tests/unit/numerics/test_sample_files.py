"""The sample file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from aitune.errors import ArtifactIntegrityError, UsageError
from aitune.numerics import Request, read_sample, read_samples, write_samples
from aitune.numerics.samples import MAX_SAMPLE_BYTES, SAMPLE_FILE_NAME
from aitune.records import Artifact, DType, ONNXArtifact, TunedTensorSpec
from aitune.records.evidence import Evidence, SampleFile

X = TunedTensorSpec("x", DType.FLOAT32, ("batch", None), (1, 1), (9, 300_000))
TEXT = TunedTensorSpec("text", DType.STRING, ("batch",), (1,), (9,))
Y = TunedTensorSpec("y", DType.BFLOAT16, ("batch",), (1,), (9,))


def request(label: str, rows: int, width: int = 2, origin: str = "synthetic") -> Request:
    """A request whose values tell rows and width."""
    return Request(
        label=label,
        origin=origin,
        inputs={
            "x": np.full((rows, width), rows, np.float32),
            "text": np.array([b"row"] * rows, dtype=object),
        },
        outputs={"y": np.arange(rows, dtype=np.uint16)},
    )


def write(folder: Path, *requests: Request, cap_bytes: int = MAX_SAMPLE_BYTES) -> SampleFile | None:
    """The index of a new file."""
    return write_samples(folder, SAMPLE_FILE_NAME, requests, inputs=(X, TEXT), outputs=(Y,), cap_bytes=cap_bytes)


def artifact(folder: Path, index: SampleFile | None) -> Artifact:
    """The record that goes with a sample file."""
    return ONNXArtifact(
        path=folder / "model.onnx",
        fingerprint="0" * 64,
        inputs=(X, TEXT),
        outputs=(Y,),
        evidence=Evidence(samples=index),
    )


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """Every tensor of every sample, with its label and origin; the smallest come first."""
    index = write(tmp_path, request("largest", 9), request("smallest", 1), request("typical", 3, origin="recorded"))
    found = read_samples(tmp_path / SAMPLE_FILE_NAME, artifact(tmp_path, index))
    assert [(item.label, item.origin) for item in found] == [
        ("smallest", "synthetic"), ("typical", "recorded"), ("largest", "synthetic"),
    ]  # fmt: skip
    assert found[2].inputs["x"].tolist() == [[9, 9]] * 9
    assert found[1].inputs["text"].tolist() == [b"row"] * 3
    assert found[2].outputs["y"].tolist() == list(range(9))


def test_one_sample_can_be_read_alone(tmp_path: Path) -> None:
    """The same tensors as among all."""
    index = write(tmp_path, request("smallest", 1), request("largest", 9))
    assert index is not None
    inputs, outputs = read_sample(tmp_path / SAMPLE_FILE_NAME, index.samples[1], artifact(tmp_path, index))
    assert inputs["x"].shape == (9, 2)
    assert outputs["y"].shape == (9,)


def test_a_request_that_does_not_fit_is_left_out_whole(tmp_path: Path) -> None:
    """The file stays under its cap, and smaller ones after a large one are still kept."""
    index = write(tmp_path, request("smallest", 1), request("typical", 2, 300_000), request("largest", 3))
    assert index is not None
    assert [item.label for item in index.samples] == ["smallest", "largest"]
    assert (tmp_path / SAMPLE_FILE_NAME).stat().st_size < MAX_SAMPLE_BYTES


def test_no_file_is_written_when_nothing_fits(tmp_path: Path) -> None:
    """None says that there are no samples, and the folder stays empty."""
    assert write(tmp_path, request("smallest", 1), cap_bytes=10) is None
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    """Where a folder stands in the way, no half-written file stays."""
    (tmp_path / SAMPLE_FILE_NAME / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write(tmp_path, request("smallest", 1))
    assert [item.name for item in tmp_path.iterdir()] == [SAMPLE_FILE_NAME]


def test_a_request_without_a_tensor_is_refused(tmp_path: Path) -> None:
    """The message names what is missing and what is there."""
    broken = dataclasses.replace(request("smallest", 1), outputs={"z": np.zeros(1)})
    with pytest.raises(UsageError, match="a sample lacks the tensor 'y', it has 'z'"):
        write(tmp_path, broken)


def test_a_changed_file_is_not_read(tmp_path: Path) -> None:
    """One other byte, and the SHA-256 says so; a missing file has its reason."""
    index = write(tmp_path, request("smallest", 1))
    record = artifact(tmp_path, index)
    path = tmp_path / SAMPLE_FILE_NAME
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(ArtifactIntegrityError, match="is not the recorded one"):
        read_samples(path, record)
    path.unlink()
    with pytest.raises(ArtifactIntegrityError, match="cannot be read: no such file"):
        read_samples(path, record)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "z"}, "names no tensor of the contract"),
        ({"offset": 10**6}, r"names bytes 1000000\.\.\d+ of \d+"),
        ({"offset": -1}, r"names bytes -1\.\."),
        ({"shape": (7, 7)}, "8 bytes are not a float32 tensor of shape"),
    ],
)
def test_an_index_that_does_not_fit_its_file_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    """A record is data: places outside the file and unknown tensors are errors, not surprises."""
    index = write(tmp_path, request("smallest", 1))
    assert index is not None
    sample = index.samples[0]
    moved = dataclasses.replace(sample.inputs[0], **change)  # type: ignore[arg-type]
    with pytest.raises(ArtifactIntegrityError, match=message):
        read_sample(
            tmp_path / SAMPLE_FILE_NAME,
            dataclasses.replace(sample, inputs=(moved,)),
            artifact(tmp_path, index),
        )


def test_a_record_without_samples_has_none(tmp_path: Path) -> None:
    """Reading all gives nothing; asking for one is a mistake."""
    index = write(tmp_path, request("smallest", 1))
    assert index is not None
    bare = artifact(tmp_path, None)
    assert read_samples(tmp_path / SAMPLE_FILE_NAME, bare) == ()
    with pytest.raises(UsageError, match=r"the record of 'model\.onnx' keeps no samples"):
        read_sample(tmp_path / SAMPLE_FILE_NAME, index.samples[0], bare)
