"""What decides how fast a model runs besides what is tuned: the model, the machine, the versions, the samples."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from aitune import __version__
from aitune.numerics import Array
from aitune.numerics.processor import processor
from aitune.records.fingerprints import fingerprint_file
from aitune.records.interface import Interface

__all__ = ["digests", "machine_facts", "model_facts"]


def model_facts(file: Path, interface: Interface) -> dict[str, object]:
    """A model and its companions by fingerprint."""
    files = {name: fingerprint_file(file.parent / name) for name in interface.companions}
    return {"model": {**files, "": fingerprint_file(file)}}


def machine_facts() -> dict[str, object]:
    """This machine and the versions of what is common to all runtimes; never a host or a user."""
    return {
        "aitune": __version__,
        "cpu": processor(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "machine": [platform.system(), platform.release(), platform.machine()],
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def digests(samples: Sequence[Mapping[str, Array]]) -> list[object]:
    """Names, shapes and contents of samples, in a few bytes each."""
    return [[(name, sample[name].shape, _digest(sample[name])) for name in sorted(sample)] for sample in samples]


def _digest(array: Array) -> str:
    plain = repr(array.tolist()).encode() if array.dtype == object else np.ascontiguousarray(array).tobytes()
    return hashlib.sha256(plain).hexdigest()
