"""Samples for an ONNX file: from an ``.npz`` file, or arrays in memory, made to fit the file's inputs.

An ``.npz`` file holds one sample as one array per input, named like the input; or several samples as ``NAME#0``,
``NAME#1``, … It is read without pickle, so strings are numpy's fixed-width text.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aitune.errors import SourceError
from aitune.numerics.dtypes import Array, from_float, numpy_dtype
from aitune.records.dtypes import DType
from aitune.records.shapes import TensorSpec

__all__ = ["fit_samples", "read_npz"]

Sample = Mapping[str, Array]


def read_npz(path: Path, names: Sequence[str] | None = None) -> tuple[dict[str, Array], ...]:
    """The samples of an ``.npz`` file, in the order of their numbers.

    Args:
        path: The file.
        names: Names of the model's inputs; a key that is one of them is never taken apart at ``#``. None when they are
            not known yet; then every key is taken.

    Raises:
        SourceError: If the file is missing, not an ``.npz`` file, holds objects, or a sample lacks an input.
    """
    numbered: dict[int, dict[str, Array]] = {}
    for key, array in _arrays(path).items():
        match = None if key in (names or ()) else re.fullmatch(r"(.+)#(\d+)", key)
        name, number = (match.group(1), int(match.group(2))) if match else (key, 0)
        if names is not None and name not in names:
            raise SourceError(
                f"samples {str(path)!r} hold {key!r}, which is no input", hint=f"inputs are: {', '.join(names)}"
            )
        if name in numbered.setdefault(number, {}):
            raise SourceError(f"samples {str(path)!r} hold input {name!r} of sample {number} twice")
        numbered[number][name] = array
    if not numbered:
        wanted = ", ".join(names or ("input names are the keys",))
        raise SourceError(f"samples {str(path)!r} hold no arrays", hint=f"save one per input: {wanted}")
    return tuple(numbered[number] for number in sorted(numbered))


def fit_samples(samples: Sequence[Mapping[str, Any]], specs: Sequence[TensorSpec]) -> tuple[dict[str, Array], ...]:
    """Samples held as the contract holds tensors.

    Numbers are converted where nothing is lost but precision of a float; text becomes bytes; BFLOAT16 is taken as raw
    bits (two bytes an element) or rounded from other floats.

    Args:
        samples: Arrays, or what numpy makes arrays of, by input name.
        specs: The inputs.

    Raises:
        SourceError: If a sample lacks an input, has one too many, or values that the input cannot hold.
    """
    return tuple(_fit(index, sample, specs) for index, sample in enumerate(samples))


def _arrays(path: Path) -> dict[str, Array]:
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise SourceError(f"samples {str(path)!r} are one array without a name", hint="save them with np.savez")
        with archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        pickled = "pickle" in str(error)
        reason = "hold objects or are no .npz file, which only pickle could read" if pickled else f"are broken: {error}"
        raise SourceError(f"samples {str(path)!r} {reason}", hint="save plain arrays with np.savez") from error
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise SourceError(f"samples {str(path)!r} cannot be read: {reason}", hint="check the path") from error


def _fit(index: int, sample: Mapping[str, Any], specs: Sequence[TensorSpec]) -> dict[str, Array]:
    names = [spec.name for spec in specs]
    if not isinstance(sample, Mapping):
        raise SourceError(
            f"sample {index} is a {type(sample).__name__}, not arrays by input name",
            hint=f"make it a dict with the keys {', '.join(names)}",
        )
    missing = [name for name in names if name not in sample]
    unknown = [str(name) for name in sample if name not in names]
    if missing or unknown:
        fault = f"lacks input {missing[0]!r}" if missing else f"has {unknown[0]!r}, which is no input"
        raise SourceError(f"sample {index} {fault}", hint=f"inputs are: {', '.join(names)}")
    return {spec.name: _held(f"sample {index} of input {spec.name!r}", sample[spec.name], spec.dtype) for spec in specs}


def _held(what: str, given: Any, dtype: DType) -> Array:
    array = _array(what, given)
    if dtype is DType.STRING:
        return _strings(what, array)
    if dtype is DType.BFLOAT16 and array.dtype.kind == "f":
        return from_float(array, dtype)
    if dtype is DType.BFLOAT16 and array.dtype.kind in "Vu" and array.dtype.itemsize == 2:
        return np.ascontiguousarray(array).view(np.uint16).reshape(array.shape)
    target = numpy_dtype(dtype)
    numbers = array.dtype.kind in "biuf" and not (array.dtype.kind == "f" and not dtype.is_floating)
    if not numbers:
        raise SourceError(f"{what} is {array.dtype}, and the input takes {dtype.value}")
    with np.errstate(over="ignore"):
        held = array.astype(target)
    lost = not dtype.is_floating and bool((held != array).any())
    if lost or (dtype.is_floating and bool((np.isfinite(array) & ~np.isfinite(held)).any())):
        raise SourceError(f"{what} has values that {dtype.value} cannot hold")
    return held


def _array(what: str, given: Any) -> Array:
    """What numpy makes of a value; a tensor that wants gradients is taken for its values."""
    detach = getattr(given, "detach", None)
    try:
        return np.asarray(given if detach is None else detach())
    except (
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:  # ragged lists, tensors on a device or of a type of their own
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise SourceError(f"{what} is a {type(given).__name__} that numpy makes no array of: {reason}") from error


def _strings(what: str, array: Array) -> Array:
    if array.dtype.kind not in "SUO":
        raise SourceError(f"{what} is {array.dtype}, and the input takes strings")
    items = [item.encode() if isinstance(item, str) else item for item in array.ravel().tolist()]
    if not all(isinstance(item, bytes) for item in items):
        raise SourceError(f"{what} holds something that is neither text nor bytes")
    held = np.empty(len(items), dtype=object)
    held[:] = items
    return held.reshape(array.shape)
