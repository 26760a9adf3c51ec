"""Made-up tensors that are the same on every machine, from a seed and what is known about valid values.

The numbers come from splitmix64 applied to a counter, so they do not depend on numpy's generators. Row ``i`` of a
tensor depends on the seed, the tensor's name and the shape of a row, but not on how many rows there are: a batch of
five starts with the batch of three. Rows differ: integers and booleans, which could coincide by chance, carry a code of
the row in their first elements.

>>> from aitune.records import DType, TensorSpec
>>> from aitune.records.evidence import InputDomain
>>> spec = TensorSpec("ids", DType.INT64, ("batch", 4))
>>> domain = InputDomain(name="ids", typical_shape=(1, 4), low=0, high=9)
>>> three, five = synthetic(spec, (3, 4), domain, seed=1), synthetic(spec, (5, 4), domain, seed=1)
>>> bool((five[:3] == three).all()), len({tuple(row) for row in five.tolist()})
(True, 5)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from aitune.errors import UsageError
from aitune.numerics.dtypes import Array, as_float, from_float, numpy_dtype
from aitune.records import DType, TensorSpec
from aitune.records.evidence import InputDomain

__all__ = ["synthetic", "synthetic_inputs"]

_GAMMA = 0x9E3779B97F4A7C15
_CODES = 4096
"""Integers carry a code with at least so many values per row, as far as a row has room for it."""
_LONGEST_WORD = 8
_U64 = 1 << 64

Words = npt.NDArray[np.uint64]


def synthetic(spec: TensorSpec, shape: Sequence[int], domain: InputDomain, seed: int) -> Array:
    """A tensor of valid made-up values.

    Floats are uniform in ``[low, high]``, integers too, both ends included (cut to what the type can hold); booleans
    are 0 or 1 within the same range; strings are short lower-case words and ignore the range.

    Args:
        spec: Name and element type; its declared shape is not looked at.
        shape: Full shape to make; sizes may be 0.
        domain: Range of values.
        seed: Any integer; equal seeds give equal tensors.

    Raises:
        UsageError: If the range holds no value of the element type.
    """
    stream = _stream(seed, spec.name)
    count = math.prod(shape)
    if spec.dtype is DType.STRING:
        return _words(_draw(stream, count)).reshape(shape)
    if spec.dtype.is_floating:
        return _floats(_draw(stream, count), domain, spec.dtype).reshape(shape)
    rows = shape[0] if shape else 1
    return _integers(_draw(stream, count).reshape(rows, -1 if rows else 0), domain, spec, stream).reshape(shape)


def synthetic_inputs(
    specs: Iterable[TensorSpec], domains: Iterable[InputDomain], shapes: Mapping[str, Sequence[int]], seed: int
) -> dict[str, Array]:
    """One made-up request.

    Args:
        specs: The inputs.
        domains: One for each input, in any order.
        shapes: Full shape of each input.
        seed: Any integer; each input draws other numbers from it.

    Raises:
        UsageError: If an input has no domain or no shape.
    """
    by_name = {domain.name: domain for domain in domains}
    made = {}
    for spec in specs:
        if spec.name not in by_name or spec.name not in shapes:
            missing = "range of values" if spec.name not in by_name else "shape"
            raise UsageError(f"input {spec.name!r} has no {missing} to make a request from")
        made[spec.name] = synthetic(spec, shapes[spec.name], by_name[spec.name], seed)
    return made


def _stream(seed: int, name: str) -> int:
    """Where the counter of one tensor starts."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "little")


def _draw(start: int, count: int) -> Words:
    """The first ``count`` numbers of splitmix64 from ``start``, each uniform over 64 bits."""
    with np.errstate(over="ignore"):
        state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GAMMA) + np.uint64(start)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))


def _floats(drawn: Words, domain: InputDomain, dtype: DType) -> Array:
    share = (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53
    values = domain.low * (1.0 - share) + domain.high * share  # a difference of the ends could overflow
    rounded = from_float(np.clip(values, domain.low, domain.high), dtype)
    if not np.isfinite(as_float(rounded, dtype)).all():
        raise UsageError(
            f"values of input {domain.name!r} reach from {domain.low:g} to {domain.high:g}, too far for {dtype.value}"
        )
    return rounded


def _limits(domain: InputDomain, spec: TensorSpec) -> tuple[int, int]:
    """The whole numbers within the range that the type can hold."""
    if spec.dtype is DType.BOOL:
        least, most = 0, 1
    else:
        info = np.iinfo(numpy_dtype(spec.dtype))
        least, most = int(info.min), int(info.max)
    low, high = max(math.ceil(domain.low), least), min(math.floor(domain.high), most)
    if low > high:
        raise UsageError(
            f"values of input {spec.name!r} reach from {domain.low:g} to {domain.high:g}, "
            f"where {spec.dtype.value} has no value"
        )
    return low, high


def _integers(drawn: Words, domain: InputDomain, spec: TensorSpec, stream: int) -> Array:
    """Integers by row, the first elements of each row overlaid with the code of the row."""
    low, high = _limits(domain, spec)
    span = high - low + 1
    offsets = drawn if span == _U64 else drawn % np.uint64(span)
    if 1 < span < _CODES**2 and drawn.size:
        digits = _code(drawn.shape[0], drawn.shape[1], span, stream)
        offsets[:, : digits.shape[1]] = digits
    with np.errstate(over="ignore"):
        bits = offsets + np.uint64(low % _U64)
    held = np.bool_ if spec.dtype is DType.BOOL else numpy_dtype(spec.dtype)
    return bits.view(np.int64).astype(held) if low < 0 else bits.astype(held)


def _code(rows: int, row_size: int, span: int, stream: int) -> Words:
    """Digits in base ``span`` that tell rows apart: multiples of a step coprime with the number of codes."""
    width = 1
    while span**width < _CODES and width < row_size:
        width += 1
    codes = span**width
    step = next(step for step in range(int(codes * 0.618) or 1, 2 * codes + 2) if math.gcd(step, codes) == 1)
    cycle = np.arange(rows, dtype=np.uint64) % np.uint64(codes)  # so that the product stays within 64 bits
    values = (cycle * np.uint64(step) + np.uint64(stream % codes)) % np.uint64(codes)
    return np.stack([values // np.uint64(span**place) % np.uint64(span) for place in range(width)], axis=1)


def _words(drawn: Words) -> Array:
    """Lower-case words of 4 to 8 letters, one from each number."""
    found = np.empty(drawn.size, dtype=object)
    for index, number in enumerate(drawn.tolist()):
        length = 4 + number % (_LONGEST_WORD - 3)
        letters = number >> 8
        found[index] = bytes(97 + (letters // 26**place) % 26 for place in range(length))
    return found
