"""What valid values look like: the domains that made-up requests are drawn from.

>>> import numpy as np
>>> from aitune.records import DType, TensorSpec
>>> ids = TensorSpec("ids", DType.INT64, ("batch", "sequence"))
>>> observe_domains([ids], {"ids": (1, 3)}, [{"ids": np.array([[7, 101, 3]])}])[0].high
101.0
>>> observe_domains([ids], {"ids": (1, 3)})[0].high  # nobody knows, so integers stay 0 or 1
1.0
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from aitune.numerics.dtypes import Array, as_float
from aitune.records import DType, TensorSpec
from aitune.records.evidence import InputDomain

__all__ = ["observe_domains", "varied"]


def observe_domains(
    specs: Iterable[TensorSpec],
    typical_shapes: Mapping[str, Sequence[int]],
    samples: Sequence[Mapping[str, Array]] = (),
) -> tuple[InputDomain, ...]:
    """One domain per input: the range of finite values in the samples, or 0 to 1 without any.

    Args:
        specs: The inputs.
        typical_shapes: Full shape that users send, per input.
        samples: Recorded requests, arrays by input name; an input may be missing in some.
    """
    return tuple(_observe(spec, tuple(typical_shapes[spec.name]), samples) for spec in specs)


def _observe(spec: TensorSpec, typical: tuple[int, ...], samples: Sequence[Mapping[str, Array]]) -> InputDomain:
    if spec.dtype is DType.STRING:
        return InputDomain(name=spec.name, typical_shape=typical, low=0.0, high=0.0)
    seen = [as_float(sample[spec.name], spec.dtype).reshape(-1) for sample in samples if spec.name in sample]
    finite = [values[np.isfinite(values)] for values in seen]
    lows = [float(values.min()) for values in finite if values.size]
    highs = [float(values.max()) for values in finite if values.size]
    if spec.dtype is DType.BOOL or not lows:
        return InputDomain(name=spec.name, typical_shape=typical, low=0.0, high=1.0)
    return InputDomain(name=spec.name, typical_shape=typical, low=min(lows), high=max(highs))


def varied(domain: InputDomain, dtype: DType) -> InputDomain:
    """A domain with more than one value, for telling rows apart when every sample holds the same constant.

    A float may move by 1 to either side; an integer only towards 0, which is as valid as its neighbours for a class or
    a token, and 0 may become 1. A domain that has a range, and one of strings, stays as it is.
    """
    if dtype is DType.STRING or domain.low < domain.high:
        return domain
    value = domain.low
    if dtype.is_floating:
        low, high = value - max(1.0, abs(value) / 2), value + max(1.0, abs(value) / 2)
    else:
        low, high = (min(0.0, value), max(0.0, value)) if value else (0.0, 1.0)
    return dataclasses.replace(domain, low=low, high=high)
