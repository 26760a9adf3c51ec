"""Requests of any size: made up, or, where a model refuses what is made up, put together from recorded samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aitune.numerics import Array, synthetic_inputs
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
        fitting = [sample for sample in self.samples if self._fits(sample, shapes)]
        if fitting:
            sample = fitting[seed % len(fitting)]
            return {spec.name: np.ascontiguousarray(sample[spec.name]) for spec in self.inputs}
        return self._put_together(shapes, seed)

    def mixed(self, shapes: Shapes, seed: int) -> dict[str, Array]:
        """The same, every other row being a recorded one of that very shape, as far as there are any."""
        request = self.request(shapes, seed)
        if not self.made_up:
            return request
        if self.zero_row:
            return {name: _with_zero_row(array) for name, array in request.items()}
        same = [sample for sample in self.samples if self._fits(sample, shapes, from_axis=1)]
        for name, array in request.items():
            if same and array.ndim and len(array) > 1:
                recorded = np.concatenate([sample[name] for sample in same])[: (len(array) + 1) // 2]
                places = np.arange(len(recorded)) * 2
                request[name] = array.copy()
                request[name][places] = recorded
        return request

    def _fits(self, sample: Tensors, shapes: Shapes, from_axis: int = 0) -> bool:
        """Whether a sample has these shapes; from axis 1 on, also one number of rows in every input."""
        rows = {sample[spec.name].shape[:1] for spec in self.inputs}
        return (not from_axis or len(rows) == 1) and all(
            sample[spec.name].shape[from_axis:] == tuple(shapes[spec.name])[from_axis:] for spec in self.inputs
        )

    def _put_together(self, shapes: Shapes, seed: int) -> dict[str, Array]:
        """The rows of all samples one after the other, each cut or repeated to size; as many rows as wanted."""
        chosen = self.samples if self._alike() else self.samples[seed % len(self.samples) :][:1]
        request = {}
        for spec in self.inputs:
            shape = tuple(shapes[spec.name])
            if not shape:
                request[spec.name] = chosen[0][spec.name]
                continue
            rows = np.concatenate([_resized(sample[spec.name], (None, *shape[1:])) for sample in chosen])
            request[spec.name] = _resized(np.roll(rows, -seed, axis=0) if len(chosen) > 1 else rows, shape)
        return request

    def _alike(self) -> bool:
        """Whether every sample has one number of rows in all inputs, so that rows can be taken apart."""
        rows = [{sample[spec.name].shape[:1] for spec in self.inputs} for sample in self.samples]
        return all(len(shapes) == 1 and () not in shapes for shapes in rows)


def _with_zero_row(array: Array) -> Array:
    if not array.ndim or len(array) < 2:
        return array
    held = array.copy()
    held[1] = b"" if array.dtype == object else 0
    return held


def _resized(array: Array, shape: Sequence[int | None]) -> Array:
    """The array cut or repeated along every axis to a size; None leaves the axis as it is."""
    for axis, size in enumerate(shape):
        if size is not None and array.shape[axis] != size:
            array = np.take(array, np.arange(size) % array.shape[axis], axis=axis)
    return np.ascontiguousarray(array)
