"""Batch inputs, which tell a model how its requests were laid end to end, and outputs that are cut the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .tensors import Array

__all__ = ["batch_input", "scatter"]

Shapes = Sequence[tuple[int, ...]]

_TYPES = {"TYPE_INT32": np.int32, "TYPE_FP32": np.float32}


def batch_input(entry: Mapping[str, Any], shapes: Shapes) -> Array:
    """The tensor that a ``batch_input`` entry of a config asks for.

    Args:
        entry: The entry.
        shapes: Shape of its source input in each request, batch axis included.
    """
    kind = entry.get("kind", "BATCH_ELEMENT_COUNT")
    return np.asarray(_KINDS[kind](shapes), dtype=_TYPES[entry["data_type"]])


def scatter(array: Array, dims: tuple[int, ...], shapes: Shapes, name: str) -> list[Array | str]:
    """The pieces of an output that belong to each request, cut as its source input was.

    Args:
        array: What the model made of all requests together; its elements are taken in order.
        dims: The output's full dims in the config; -1 is replaced by the source input's size on that axis.
        shapes: Shape of the source input in each request, batch axis included.
        name: The output's name.
    """
    flat, end = array.ravel(), 0
    pieces: list[Array | str] = []
    for shape in shapes:
        want = tuple(shape[axis] if size == -1 else size for axis, size in enumerate(dims))
        start, end = end, end + _count(want)
        if end > flat.size:
            pieces.append(
                f"failed to split the output tensor '{name}' in responses: expected at least {end} elements in "
                f"model output, got {flat.size}"
            )
        else:
            pieces.append(flat[start:end].reshape(want))
    return pieces


def _counts(shapes: Shapes) -> list[int]:
    return [_count(shape) for shape in shapes]


def _accumulated(shapes: Shapes) -> Array:
    return np.cumsum(_counts(shapes))


def _accumulated_from_zero(shapes: Shapes) -> Array:
    return np.concatenate([[0], _accumulated(shapes)])


def _as_shape(shapes: Shapes) -> Array:
    return np.zeros(max(_counts(shapes), default=0))


def _item_shapes(shapes: Shapes) -> Array:
    return np.array([shape[1:] for shape in shapes for _ in range(shape[0])])


def _item_shapes_flat(shapes: Shapes) -> Array:
    return np.array([size for shape in shapes for _ in range(shape[0]) for size in shape[1:]])


def _count(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


_KINDS: dict[str, Callable[[Shapes], Array | list[int]]] = {
    "BATCH_ELEMENT_COUNT": _counts,
    "BATCH_ACCUMULATED_ELEMENT_COUNT": _accumulated,
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO": _accumulated_from_zero,
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE": _as_shape,
    "BATCH_ITEM_SHAPE": _item_shapes,
    "BATCH_ITEM_SHAPE_FLATTEN": _item_shapes_flat,
}
