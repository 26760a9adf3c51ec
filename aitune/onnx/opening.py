"""Opening an ONNX file: either a mapped file and its outline, or one line that says what the file is instead."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path

from aitune.errors import SourceError
from aitune.onnx.outline import Outline, read_outline
from aitune.onnx.wire import WireError

__all__ = ["opened"]

_LIMIT_BYTES = (1 << 31) - 1
_HEAD_BYTES = 4096
_PICKLES = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
_TORCH_HINT = "give the module as path/file.py:function or package.module:function, or export it to ONNX"


@contextmanager
def opened(path: Path) -> Iterator[tuple[mmap, Outline]]:
    """The bytes of an ONNX file, mapped, and its outline.

    Args:
        path: The model file.

    Raises:
        SourceError: If it is missing, unreadable, a folder, empty, something else than ONNX, cut short, or larger than
            protobuf allows; the message says which.
    """
    _check_file(path)
    with _mapped(path) as buffer:
        _check_head(path, buffer[:_HEAD_BYTES])
        yield buffer, _outline(path, buffer)


def _mapped(path: Path) -> mmap:
    try:
        with path.open("rb") as file:
            return mmap(file.fileno(), 0, access=ACCESS_READ)
    except OSError as error:
        raise _unreadable(path, error) from error


def _check_file(path: Path) -> None:
    """Refuse what is not a file with bytes in it."""
    try:
        found = path.stat()
    except FileNotFoundError as error:
        kind = "is a link to a file that does not exist" if path.is_symlink() else "does not exist"
        raise SourceError(f"model {str(path)!r} {kind}", hint="check the path of the .onnx file") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    if stat.S_ISDIR(found.st_mode):
        inside = sorted(item.name for item in path.glob("*.onnx"))[:3]
        hint = f"it holds {', '.join(inside)}; name one of them" if inside else "name the .onnx file itself"
        raise SourceError(f"model {str(path)!r} is a folder", hint=hint)
    if not stat.S_ISREG(found.st_mode):
        raise SourceError(f"model {str(path)!r} is not a regular file", hint="name the .onnx file itself")
    if found.st_size == 0:
        raise SourceError(f"model {str(path)!r} is empty", hint="export or download it again")
    if found.st_size > _LIMIT_BYTES:
        raise SourceError(
            f"model {str(path)!r} has {found.st_size} bytes, and no ONNX file can be larger than 2 GB",
            hint="save the weights as external data: onnx.save(..., save_as_external_data=True)",
        )


def _unreadable(path: Path, error: OSError) -> SourceError:
    reason = (error.strerror or type(error).__name__).lower()
    return SourceError(f"model {str(path)!r} cannot be read: {reason}", hint="check the path and its permissions")


def _outline(path: Path, buffer: mmap) -> Outline:
    """The outline; a file that is no message, or only the first part of one, is named as such."""
    try:
        outline = read_outline(buffer)
    except WireError as error:
        if error.missing and _starts_like_onnx(buffer):
            raise SourceError(
                f"model {str(path)!r} is cut short: {error} ({len(buffer)} bytes are there)",
                hint="copy or download it again",
            ) from error
        raise _not_onnx(path, "its bytes are not a protobuf message") from error
    if outline.graph is None:
        raise _not_onnx(path, "it holds no graph")
    if not outline.opset_imports:
        raise SourceError(
            f"model {str(path)!r} names no opset, so it is cut short or not a complete model",
            hint="copy, download or export it again",
        )
    return outline


def _starts_like_onnx(buffer: mmap) -> bool:
    """Whether the first field is one that writers put first: IR version, producer or graph."""
    start = buffer[:2]
    return start[0] in (0x12, 0x3A) or (start[0] == 0x08 and start[1:] < b"\x80")


def _not_onnx(path: Path, why: str) -> SourceError:
    return SourceError(f"{str(path)!r} is not an ONNX model: {why}", hint="export or download it again")


def _check_head(path: Path, head: bytes) -> None:
    """Refuse the files that people give by mistake, each with what to do about it."""
    for what, hint in _strangers(head):
        raise SourceError(f"{str(path)!r} is not an ONNX model: it is {what}", hint=hint)


def _strangers(head: bytes) -> Iterator[tuple[str, str]]:
    """What the file is instead, judged by its first bytes, and the advice; nothing when it may be ONNX."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith(b"version https://git-lfs"):
        yield "a git-LFS pointer, the model itself was not downloaded", "run: git lfs pull"
    elif start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        yield "a web page", "download the file itself, not the page that shows it"
    elif head.startswith(b"PK\x03\x04"):
        torch = b"data.pkl" in head or b"archive/" in head or b"/version" in head
        yield ("a PyTorch checkpoint", _TORCH_HINT) if torch else ("a zip archive", "unpack it and name the .onnx file")
    elif head.startswith(_PICKLES):
        yield "a Python pickle", _TORCH_HINT
    elif head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        yield "a compressed file", "unpack it and name the .onnx file"
    elif head.startswith((b"ftrt", b"ptrt")):
        yield "a TensorRT plan", "name it model.plan"
    elif head.startswith(b"\x89HDF"):
        yield "an HDF5 file", "export the model to ONNX"
    elif head[4:8] == b"ORTM":
        yield "a model in ONNX Runtime's own format", "give the .onnx file it was made from"
    elif head[4:8] == b"TFL3":
        yield "a TensorFlow Lite model", "convert it to ONNX"
    elif head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 30:
        yield "a safetensors file, which holds weights without a model", _TORCH_HINT
    elif start.startswith((b"ir_version", b"producer_name", b"graph {")):
        yield "an ONNX model in text form", "convert it: onnx.save(onnx.load(path, format='textproto'), 'model.onnx')"
    elif _is_text(head):
        yield "a text file", "name the .onnx file"


def _is_text(head: bytes) -> bool:
    """Whether the first bytes are readable text; a cut through a last character is forgiven."""
    try:
        decoded = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4 or len(head) < _HEAD_BYTES:
            return False
        decoded = head[: error.start].decode("utf-8")
    return all(character.isprintable() or character in "\t\r\n" for character in decoded)
