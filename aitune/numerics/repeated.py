"""Requests of any size put together from recorded ones, for a model that refuses values that are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aitune.numerics.dtypes import Array
from aitune.records import TensorSpec

__all__ = ["repeated"]

Tensors = Mapping[str, Array]
Shapes = Mapping[str, Sequence[int]]


def repeated(inputs: Sequence[TensorSpec], samples: Sequence[Tensors], shapes: Shapes, seed: int) -> dict[str, Array]:
    """A request whose values are those of samples: one that has the shapes, else their rows, cut or repeated to size.

    Args:
        inputs: The inputs, in order.
        samples: Recorded requests, at least one.
        shapes: Full shape of every input.
        seed: Equal seeds give equal requests; others may begin with another sample.

    >>> from aitune.records import DType
    >>> x = TensorSpec("x", DType.INT64, ("batch", 2))
    >>> repeated([x], [{"x": np.array([[1, 2]])}, {"x": np.array([[3, 4]])}], {"x": (3, 2)}, seed=0)["x"].tolist()
    [[1, 2], [3, 4], [1, 2]]
    """
    fitting = [
        sample for sample in samples if all(sample[spec.name].shape == tuple(shapes[spec.name]) for spec in inputs)
    ]
    if fitting:
        sample = fitting[seed % len(fitting)]
        return {spec.name: np.ascontiguousarray(sample[spec.name]) for spec in inputs}
    chosen = samples if _alike(inputs, samples) else samples[seed % len(samples) :][:1]
    request = {}
    for spec in inputs:
        shape = tuple(shapes[spec.name])
        if not shape:
            request[spec.name] = chosen[0][spec.name]
            continue
        rows = np.concatenate([_resized(sample[spec.name], (None, *shape[1:])) for sample in chosen])
        request[spec.name] = _resized(np.roll(rows, -seed, axis=0) if len(chosen) > 1 else rows, shape)
    return request


def _alike(inputs: Sequence[TensorSpec], samples: Sequence[Tensors]) -> bool:
    """Whether every sample has one number of rows in all inputs, so that rows can be taken apart."""
    rows = [{sample[spec.name].shape[:1] for spec in inputs} for sample in samples]
    return all(len(shapes) == 1 and () not in shapes for shapes in rows)


def _resized(array: Array, shape: Sequence[int | None]) -> Array:
    """The array cut or repeated along every axis to a size; None leaves the axis as it is."""
    for axis, size in enumerate(shape):
        if size is not None and array.shape[axis] != size:
            array = np.take(array, np.arange(size) % array.shape[axis], axis=axis)
    return np.ascontiguousarray(array)
