"""A plan's first bytes, and what a file that is no plan is instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitune.errors import SourceError
from aitune.tensorrt import check_header
from aitune.tensorrt.header import read_header

PLAN = b"ftrt" + bytes(20) + bytes((10, 5, 0, 18)) + bytes(40)


def written(folder: Path, data: bytes) -> Path:
    """A file that claims to be a plan."""
    path = folder / "model.plan"
    path.write_bytes(data)
    return path


def test_a_plan_names_the_library_that_wrote_it(tmp_path: Path) -> None:
    """No TensorRT and no GPU is needed for that."""
    found = check_header(written(tmp_path, PLAN))
    assert (found.builder, found.version) == ("tensorrt", "10.5.0.18")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is empty"),
        (b"version https://git-lfs.github.com/spec/v1", "git-lfs pointer"),
        (b"<!DOCTYPE html>", "HTML page"),
        (b"PK\x03\x04", "zip archive"),
        (b"ptrt\0\0", "TensorRT 7 or older"),
        (b"\x08\x08\x12\x07pytorch", "looks like an ONNX model"),
        (b"something", "starts with other bytes"),
    ],
)
def test_what_is_no_plan_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    """B38: one line that says what was found."""
    with pytest.raises(SourceError, match=f"is not a TensorRT plan: .*{message}"):
        read_header(written(tmp_path, data))


def test_a_plan_of_tensorrt_rtx_is_not_for_triton(tmp_path: Path) -> None:
    """It is read, but not accepted for publication as a file of its own."""
    path = written(tmp_path, PLAN.replace(b"ftrt", b"vtrt"))
    assert read_header(path).builder == "tensorrt_rtx"
    with pytest.raises(SourceError, match="TensorRT-RTX"):
        check_header(path)


def test_a_plan_that_is_not_there_is_one_line() -> None:
    """The system's own words."""
    with pytest.raises(SourceError, match="cannot be read: no such file"):
        check_header(Path("missing.plan"))
