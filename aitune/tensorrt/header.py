"""Is this file a TensorRT plan? Its first bytes tell, without TensorRT and without a GPU."""

from __future__ import annotations

from pathlib import Path

from aitune.errors import SourceError

__all__ = ["check_header"]

_PLAN = b"ftrt"
_RTX = b"vtrt"


def check_header(path: Path) -> None:
    """Refuse what is not a plan for Triton's TensorRT backend.

    Raises:
        SourceError: If the file cannot be read, is something else, or is a plan for TensorRT-RTX.
    """
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError as error:
        raise SourceError(f"plan {str(path)!r} cannot be read: {(error.strerror or '').lower()}") from error
    if start.startswith(_RTX):
        raise SourceError(
            f"{str(path)!r} is a plan for TensorRT-RTX, which Triton's TensorRT backend does not load",
            hint="build it with tensorrt instead",
        )
    if not start.startswith(_PLAN):
        raise SourceError(f"{str(path)!r} is not a TensorRT plan: {_guess(start)}", hint="build it again")


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
    return "it starts with other bytes"
