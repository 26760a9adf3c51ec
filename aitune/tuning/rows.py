"""Requests of any size: made up, or, where a model refuses what is made up, put together from recorded samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aitune.numerics import Array, synthetic_inputs
from aitune.numerics.repeated import repeated
from aitune.records import TensorSpec
from aitune.records.evidence import InputDomain

__all__ = ["Rows"]

Tensors = Mapping[str, Array]
Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Where the values of requests come from.

    Attributes:
        inputs: Inputs as the file declares them.
        domains: Ranges of valid values, one per input.
        samples: Recorded requests.
        made_up: Whether values are made up; else they are those of the samples, cut or repeated to size.
        zero_row: Whether the second row of a mixed request is zeros, or empty strings.
    """

    inputs: tuple[TensorSpec, ...]
    domains: tuple[InputDomain, ...]
    samples: tuple[Tensors, ...] = ()
    made_up: bool = True
    zero_row: bool = False

    def request(self, shapes: Shapes, seed: int) -> dict[str, Array]:
        """A request of these full shapes; the same for the same seed."""
        if self.made_up or not self.samples:
            return synthetic_inputs(self.inputs, self.domains, shapes, seed)
        return repeated(self.inputs, self.samples, shapes, seed)

    def mixed(self, shapes: Shapes, seed: int) -> dict[str, Array]:
        """The same, every other row being a recorded one of that very shape, as far as there are any."""
        request = self.request(shapes, seed)
        if not self.made_up:
            return request
        if self.zero_row:
            return {name: _with_zero_row(array) for name, array in request.items()}
        same = [sample for sample in self.samples if self._fits(sample, shapes)]
        for name, array in request.items():
            if same and array.ndim and len(array) > 1:
                recorded = np.concatenate([sample[name] for sample in same])[: (len(array) + 1) // 2]
                places = np.arange(len(recorded)) * 2
                request[name] = array.copy()
                request[name][places] = recorded
        return request

    def _fits(self, sample: Tensors, shapes: Shapes) -> bool:
        """Whether a sample has one number of rows in every input, and rows of these shapes."""
        rows = {sample[spec.name].shape[:1] for spec in self.inputs}
        return len(rows) == 1 and all(
            sample[spec.name].shape[1:] == tuple(shapes[spec.name])[1:] for spec in self.inputs
        )


def _with_zero_row(array: Array) -> Array:
    if not array.ndim or len(array) < 2:
        return array
    held = array.copy()
    held[1] = b"" if array.dtype == object else 0
    return held
