"""Hypothesis strategies for tensors in memory."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from aitune.numerics import Array, numpy_dtype
from aitune.records import DType

dtypes = st.sampled_from(list(DType))
shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@st.composite
def arrays(draw: st.DrawFn, dtype: DType) -> Array:
    """A small tensor with any bits that its element type can have."""
    shape = draw(shapes)
    count = int(np.prod(shape, dtype=int))
    if dtype is DType.STRING:
        found = np.empty(count, dtype=object)
        found[:] = draw(st.lists(st.binary(max_size=9), min_size=count, max_size=count))
        return found.reshape(shape)
    held = numpy_dtype(dtype)
    if dtype is DType.BOOL:
        return np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), dtype=held).reshape(shape)
    bits = draw(st.binary(min_size=count * held.itemsize, max_size=count * held.itemsize))
    return np.frombuffer(bits, held).reshape(shape)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[Array, DType]:
    """A tensor and its element type."""
    dtype = draw(dtypes)
    return draw(arrays(dtype)), dtype
