"""External data: the files beside a model that hold its weights, and whether they are all there."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path, PurePosixPath

from aitune.errors import SourceError
from aitune.onnx.element_types import element_nbytes, element_word
from aitune.onnx.opening import opened
from aitune.onnx.outline import Outline, Tensor

__all__ = ["check_external", "check_weights", "companion_names", "companions", "external_range"]


def companions(path: Path) -> tuple[str, ...]:
    """Relative names of the files the model keeps weights in, in the order it names them.

    Every place is looked at: initializers, sparse ones, attributes, subgraphs, functions and training graphs.

    Args:
        path: The model file.

    Raises:
        SourceError: If the file cannot be read as ONNX, or a location is absolute, empty or climbs with ``..``.
    """
    with opened(path) as (_, outline):
        return companion_names(path, outline)


def companion_names(path: Path, outline: Outline) -> tuple[str, ...]:
    """The same for a file that is already open."""
    found = (location(path, tensor) for tensor in outline.tensors if tensor.external)
    return tuple(dict.fromkeys(found))


def location(path: Path, tensor: Tensor) -> str:
    """The normalised relative name of the file that holds a tensor.

    Raises:
        SourceError: If the location is empty, absolute, climbs with ``..``, or names the model itself.
    """
    given = _entry(tensor, "location")
    pure = PurePosixPath(given)
    fault = ""
    if not pure.parts:
        fault = "is empty"
    elif "\x00" in given:
        fault = "has a zero byte"
    elif pure.is_absolute():
        fault = "is absolute"
    elif ".." in pure.parts:
        fault = "leaves the model's folder"
    elif pure.as_posix() == path.name:
        fault = "is the model file itself"
    if fault:
        raise SourceError(
            f"the location {given!r} of external {_what(tensor)} in {str(path)!r} {fault}",
            hint="save the model again with the data file beside it and a relative name",
        )
    return pure.as_posix()


def check_external(path: Path, outline: Outline) -> None:
    """Make sure that every external file is there and long enough.

    Args:
        path: The model file.
        outline: What it says.

    Raises:
        SourceError: If a file is missing, unreadable, no regular file, reached through a link that leaves the model's
            folder, or shorter than a tensor in it; or a location, offset or length is not a sound one.
    """
    sizes: dict[str, int] = {}
    for tensor in outline.tensors:
        if tensor.external:
            name = location(path, tensor)
            if name not in sizes:
                sizes[name] = _file_size(path, name, tensor)
            _check_range(path, name, tensor, sizes[name])


def check_weights(path: Path, outline: Outline) -> None:
    """Make sure that initializers stored in the file itself have the bytes their shape needs.

    Raises:
        SourceError: If one has more or fewer.
    """
    for tensor in outline.tensors:
        if tensor.raw_nbytes is None or tensor.external:
            continue
        needed = element_nbytes(tensor.number, math.prod(tensor.dims))
        if needed is not None and needed != tensor.raw_nbytes:
            raise SourceError(
                f"{_what(tensor)} in {str(path)!r} has {tensor.raw_nbytes} bytes, and {_shape(tensor)} needs {needed}",
                hint="export the model again",
            )


def external_range(path: Path, tensor: Tensor) -> tuple[int, int]:
    """First byte and number of bytes of an external tensor; -1 for a number that only the file's end can tell.

    Raises:
        SourceError: If offset or length is not a number >= 0, or contradicts the tensor's shape.
    """
    offset = _number(path, tensor, "offset", 0)
    length = _number(path, tensor, "length", -1)
    needed = element_nbytes(tensor.number, math.prod(tensor.dims))
    if length >= 0 and needed is not None and length != needed:
        raise SourceError(
            f"external {_what(tensor)} in {str(path)!r} has length {length}, and {_shape(tensor)} needs {needed}",
            hint="export the model again",
        )
    return offset, length if needed is None else needed


def _entry(tensor: Tensor, key: str) -> str:
    """The last value under a key, as protobuf has it for maps."""
    return dict(tensor.external).get(key, "")


def _what(tensor: Tensor) -> str:
    return f"initializer {tensor.name!r}" if tensor.top else f"tensor {tensor.name!r}"


def _shape(tensor: Tensor) -> str:
    return f"{element_word(tensor.number)} {list(tensor.dims)}"


def _number(path: Path, tensor: Tensor, key: str, default: int) -> int:
    given = _entry(tensor, key)
    if not given:
        return default
    if not (given.isascii() and given.isdigit()):
        raise SourceError(
            f"the {key} {given!r} of external {_what(tensor)} in {str(path)!r} is not a number >= 0",
            hint="save the model again",
        )
    return int(given)


def _file_size(path: Path, name: str, tensor: Tensor) -> int:
    """Size of an external file that may be used.

    A link may lead out of the folder only where the model is itself a link to a file beside the data: that is what
    ONNX Runtime allows, and how download caches store files.
    """
    file = path.parent / name
    try:
        found = file.stat()
        real = file.resolve(strict=True)
        readable = os.access(file, os.R_OK)
    except OSError as error:
        reason = (
            "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}".lower()
        )
        raise SourceError(
            f"external data {name!r} of {str(path)!r} {reason} ({_what(tensor)} is in it)",
            hint=f"put {name!r} beside the model under exactly this name",
        ) from error
    folders = (path.parent.resolve(), path.resolve().parent)
    if not any(real.is_relative_to(folder) for folder in folders):
        raise SourceError(
            f"external data {name!r} of {str(path)!r} is a link that leaves the model's folder",
            hint="copy the file itself beside the model, e.g. with cp -L",
        )
    if not stat.S_ISREG(found.st_mode) or not readable:
        reason = "cannot be read: permission denied" if stat.S_ISREG(found.st_mode) else "is not a regular file"
        raise SourceError(f"external data {name!r} of {str(path)!r} {reason}", hint="put the data file in its place")
    return found.st_size


def _check_range(path: Path, name: str, tensor: Tensor, size: int) -> None:
    offset, nbytes = external_range(path, tensor)
    end = offset + max(nbytes, 0)
    if end > size:
        raise SourceError(
            f"external data {name!r} of {str(path)!r} is cut short: it has {size} bytes, "
            f"and {_what(tensor)} ends at byte {end}",
            hint="copy or download it again",
        )
