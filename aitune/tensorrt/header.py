"""Is this file a TensorRT plan? Its first bytes tell, without TensorRT and without a GPU."""

from __future__ import annotations

from pathlib import Path

from aitune.errors import SourceError
from aitune.records.plans import PlanHeader, read_plan_header

__all__ = ["check_header", "read_header"]


def read_header(path: Path) -> PlanHeader:
    """The header of a plan, of TensorRT or TensorRT-RTX.

    Raises:
        SourceError: If the file cannot be read or is something else.
    """
    try:
        found = read_plan_header(path)
    except OSError as error:
        raise SourceError(f"plan {str(path)!r} cannot be read: {(error.strerror or '').lower()}") from error
    if not found.builder:
        raise SourceError(f"{str(path)!r} is not a TensorRT plan: {_guess(found.start)}", hint="build it again")
    return found


def check_header(path: Path) -> PlanHeader:
    """The header of a plan for Triton's TensorRT backend.

    Raises:
        SourceError: If the file cannot be read, is something else, or is a plan for TensorRT-RTX.
    """
    found = read_header(path)
    if found.builder == "tensorrt_rtx":
        raise SourceError(
            f"{str(path)!r} is a plan for TensorRT-RTX, which Triton's TensorRT backend does not load",
            hint="build it with tensorrt instead",
        )
    return found


def _guess(start: bytes) -> str:
    """What the file is instead."""
    if not start:
        return "it is empty"
    if start.startswith(b"version https://git-lfs"):
        return "it is a git-lfs pointer, fetch the file with: git lfs pull"
    if start.lstrip().lower().startswith((b"<!doctype", b"<html")):
        return "it is an HTML page"
    if start.startswith(b"PK"):
        return "it is a zip archive"
    if start.startswith(b"ptrt"):
        return "it was written by TensorRT 7 or older, whose plans no known Triton release loads"
    if start.startswith(b"\x08") and b"\x12" in start[2:4]:
        return "it looks like an ONNX model"
    return "it starts with other bytes"
