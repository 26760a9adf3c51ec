"""Are zeros a valid request? A warm-up may then be made of zeros, which a server can make itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from aitune.errors import AituneError
from aitune.numerics import Array, as_float
from aitune.records import DType, TensorSpec
from aitune.records.evidence import InputDomain
from aitune.tuning.runner import Runner

__all__ = ["prove_zeros"]

Tensors = Mapping[str, Array]


def prove_zeros(
    runner: Runner, outputs: Sequence[TensorSpec], domains: Sequence[InputDomain], requests: Sequence[Tensors]
) -> tuple[InputDomain, ...]:
    """The domains with ``zeros_valid`` set for inputs that were all zeros in runs with finite outputs of full size.

    All inputs are tried together first; if that fails, one is added after the other, so that those which are marked
    are valid *together*, the rest holding valid values.

    Args:
        runner: The model; not closed.
        outputs: Outputs, for element types.
        domains: What is to be marked.
        requests: Valid requests of every size that counts, e.g. batch 1 and the largest.
    """
    names = [domain.name for domain in domains]
    valid = set(names) if _works(runner, outputs, requests, set(names)) else set()
    if not valid and len(names) > 1:
        for name in names:
            if _works(runner, outputs, requests, valid | {name}):
                valid.add(name)
    return tuple(dataclasses.replace(domain, zeros_valid=domain.name in valid) for domain in domains)


def _works(runner: Runner, outputs: Sequence[TensorSpec], requests: Sequence[Tensors], zeroed: set[str]) -> bool:
    for request in requests:
        sent = {name: _zeros(array) if name in zeroed else array for name, array in request.items()}
        try:
            usual, answer = runner.run(request), runner.run(sent)
        except AituneError:
            return False  # the runtime's refusal is the answer
        if not all(_finite(answer[spec.name], spec.dtype) for spec in outputs):
            return False
        if any(answer[spec.name].shape != usual[spec.name].shape for spec in outputs):
            return False  # e.g. rows chosen by their values: a server cannot split that answer
    return True


def _zeros(array: Array) -> Array:
    """Zeros as a server makes them: an empty string for STRING."""
    return np.full(array.shape, b"", dtype=object) if array.dtype == object else np.zeros_like(array)


def _finite(array: Array, dtype: DType) -> bool:
    return not dtype.is_floating or bool(np.isfinite(as_float(array, dtype)).all())
