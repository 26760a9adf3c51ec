"""Which shapes a model is tried and tuned at: smallest, typical and largest, equal symbols being equal sizes.

>>> from aitune.records import DType, TensorSpec
>>> ids = TensorSpec("ids", DType.INT64, ("batch", "sequence"))
>>> mask = TensorSpec("mask", DType.INT64, ("batch", "sequence"))
>>> ranges = resolve_ranges([ids, mask], min_shapes={"ids": (1, 8)}, max_shapes={"ids": (4, 512)})
>>> ranges.shapes("typical")
{'ids': (1, 64), 'mask': (1, 64)}
>>> ranges.shapes("largest", batch=2)
{'ids': (2, 512), 'mask': (2, 512)}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from aitune.errors import SourceError, UsageError
from aitune.numerics.dtypes import Array
from aitune.records import TensorSpec

__all__ = ["DEFAULT_MAX_BATCH_SIZE", "Ranges", "ShapeRange", "resolve_ranges"]

DEFAULT_MAX_BATCH_SIZE = 8
"""The first axis is tried up to this size when nobody says more."""

Shape = tuple[int, ...]
Shapes = Mapping[str, Sequence[int]]
Key = str | tuple[str, int]
"""What has one range: a symbol, or one unnamed axis of one input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRange:
    """Three shapes of one input, the first axis included.

    Attributes:
        name: The input.
        min_shape: Smallest size per axis.
        typical_shape: The shape users send, between the two.
        max_shape: Largest size per axis.

    Raises:
        UsageError: If the shapes are not in that order.
    """

    name: str
    min_shape: Shape
    typical_shape: Shape
    max_shape: Shape

    def __post_init__(self) -> None:
        ranks = {len(self.min_shape), len(self.typical_shape), len(self.max_shape)}
        triples = zip(self.min_shape, self.typical_shape, self.max_shape, strict=False)
        if len(ranks) != 1 or not all(1 <= low <= typical <= high for low, typical, high in triples):
            raise UsageError(
                f"shapes of input {self.name!r} need 1 <= min <= typical <= max on every axis, got "
                f"{self.min_shape}, {self.typical_shape} and {self.max_shape}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The shapes of all inputs.

    Attributes:
        inputs: One range per input, in the file's order.
        max_batch_size: Largest first axis that the user named; None when nobody did, and it may be found by measuring.
        guessed: Whether the range of the first axis is made up, so that it may be made smaller without asking.
    """

    inputs: tuple[ShapeRange, ...]
    max_batch_size: int | None = None
    guessed: bool = False

    def shapes(self, label: str, batch: int | None = None) -> dict[str, Shape]:
        """One shape per input.

        Args:
            label: ``"smallest"``, ``"typical"`` or ``"largest"``.
            batch: Size of the first axis of every input, instead of the range's own.
        """
        return {item.name: _rows(_labelled(item, label), batch) for item in self.inputs}

    def with_first_axis(self, names: Sequence[str], low: int, typical: int, high: int) -> Ranges:
        """The same, with another range for the first axis of the inputs ``names``."""
        changed = [
            replace(
                item,
                min_shape=(low, *item.min_shape[1:]),
                typical_shape=(typical, *item.typical_shape[1:]),
                max_shape=(high, *item.max_shape[1:]),
            )
            if item.name in names
            else item
            for item in self.inputs
        ]
        return replace(self, inputs=tuple(changed))


def _labelled(item: ShapeRange, label: str) -> Shape:
    return {"smallest": item.min_shape, "typical": item.typical_shape, "largest": item.max_shape}[label]


def _rows(shape: Shape, batch: int | None) -> Shape:
    return shape if batch is None else (batch, *shape[1:])


def resolve_ranges(
    inputs: Sequence[TensorSpec],
    *,
    min_shapes: Shapes | None = None,
    typical_shapes: Shapes | None = None,
    max_shapes: Shapes | None = None,
    samples: Sequence[Mapping[str, Array]] = (),
) -> Ranges:
    """Ranges of all inputs from what the user said and what the samples show.

    What is said for one input holds for every axis with the same symbol. An option goes before the samples; the
    typical shape is the option's, that of the middle one of the samples by size, or the geometric middle (a multiple
    of what both ends are multiples of), 1 on the first axis. A first axis that nobody says anything about is tried
    from 1 to 8.

    Args:
        inputs: The inputs as the file declares them.
        min_shapes: Full smallest shapes, by input; with a largest size given, 1 is the default.
        typical_shapes: Full typical shapes, by input.
        max_shapes: Full largest shapes, by input.
        samples: Recorded requests: arrays by input name.

    Raises:
        UsageError: If an option names no input, has the wrong rank, contradicts a fixed size or another option, or if
            an axis is left without a range; all those axes are listed.
        SourceError: If a sample lacks an input or does not fit the declared shapes.
    """
    options = {"min": min_shapes or {}, "typical": typical_shapes or {}, "max": max_shapes or {}}
    table = _Table(inputs)
    for word, shapes in options.items():
        table.add_options(word, shapes)
    for index, sample in enumerate(samples):
        table.add_sample(index, sample)
    return table.resolve()


@dataclass(slots=True)
class _Axis:
    """What is known about the sizes of one symbol or unnamed axis."""

    first_only: bool = True
    said: dict[str, tuple[int, str]] = field(default_factory=dict)
    seen: list[int] = field(default_factory=list)

    def range(self, middle: int) -> tuple[int, int, int] | None:
        """Smallest, typical and largest size; None when too little is known."""
        sizes = {word: size for word, (size, _) in self.said.items()}
        guess = (1, DEFAULT_MAX_BATCH_SIZE) if self.first_only else (None, None)
        seen = (min(self.seen), max(self.seen)) if self.seen else guess
        high = sizes.get("max", seen[1])
        low = sizes.get("min", 1 if seen[0] is None and high is not None else seen[0])
        if low is None or high is None:
            return None
        if "max" not in sizes:
            high = max(high, sizes.get("typical", low), low)
        if "min" not in sizes:
            low = min(low, sizes.get("typical", high), high)
        typical = sizes.get("typical", min(max(self._middle(low, high, middle), low), high))
        return low, typical, high

    def _middle(self, low: int, high: int, middle: int) -> int:
        if self.seen:
            return self.seen[middle]
        if self.first_only:
            return 1
        step = math.gcd(low, high)
        return max(1, round(math.sqrt(low * high) / step)) * step


class _Table:
    """All axes of all inputs, filled from options and samples."""

    def __init__(self, inputs: Sequence[TensorSpec]) -> None:
        self._inputs = {spec.name: spec for spec in inputs}
        self._axes: dict[Key, _Axis] = {}
        self._volumes: list[int] = []
        for spec in inputs:
            for axis, dim in enumerate(spec.shape):
                if not isinstance(dim, int):
                    found = self._axes.setdefault(_key(spec, axis), _Axis())
                    found.first_only = found.first_only and axis == 0

    def add_options(self, word: str, shapes: Shapes) -> None:
        for name, shape in shapes.items():
            spec = self._inputs.get(name)
            if spec is None:
                known = ", ".join(map(repr, self._inputs))
                raise UsageError(f"{word} shape is given for {name!r}, which is no input; inputs are {known}")
            _check_fits(spec, shape, f"{word} shape of input {name!r}", UsageError)
            for axis, size in enumerate(shape):
                if not isinstance(spec.shape[axis], int):
                    self._say(spec, axis, word, size)

    def _say(self, spec: TensorSpec, axis: int, word: str, size: int) -> None:
        key = _key(spec, axis)
        other, name = self._axes[key].said.setdefault(word, (size, spec.name))
        if other != size:
            raise UsageError(
                f"{word} shapes of {name!r} and {spec.name!r} give {key!r} two sizes, {other} and {size}",
                hint="axes with the same symbol have the same size",
            )

    def add_sample(self, index: int, sample: Mapping[str, Array]) -> None:
        sizes: dict[Key, int] = {}
        for name, spec in self._inputs.items():
            if name not in sample:
                raise SourceError(f"sample {index} lacks input {name!r}, it has {', '.join(map(repr, sample))}")
            shape = sample[name].shape
            _check_fits(spec, shape, f"sample {index} of input {name!r}", SourceError)
            for axis, size in enumerate(shape):
                if not isinstance(spec.shape[axis], int) and sizes.setdefault(_key(spec, axis), size) != size:
                    other = sizes[_key(spec, axis)]
                    raise SourceError(
                        f"sample {index} gives {spec.shape[axis]!r} two sizes, {other} and {size} (input {name!r})"
                    )
        for key, size in sizes.items():
            self._axes[key].seen.append(size)
        self._volumes.append(sum(sample[name].size for name in self._inputs))

    def resolve(self) -> Ranges:
        order = sorted(range(len(self._volumes)), key=self._volumes.__getitem__)
        middle = order[len(order) // 2] if order else 0
        found = {key: axis.range(middle) for key, axis in self._axes.items()}
        self._demand_all(found)
        ranges = tuple(self._range(spec, found) for spec in self._inputs.values())
        firsts = [self._axes[_key(spec, 0)] for spec in self._inputs.values() if _dynamic_first(spec)]
        bounds = [axis.said["max"][0] for axis in firsts if "max" in axis.said]
        guessed = bool(firsts) and not any(axis.said or axis.seen for axis in firsts)
        return Ranges(inputs=ranges, max_batch_size=min(bounds) if bounds else None, guessed=guessed)

    def _demand_all(self, found: Mapping[Key, tuple[int, int, int] | None]) -> None:
        """Refuse axes without a range, all at once."""
        missing = [
            f"axis {axis} of {spec.name!r}" + (f" ({dim!r})" if dim else "")
            for spec in self._inputs.values()
            for axis, dim in enumerate(spec.shape)
            if not isinstance(dim, int) and found[_key(spec, axis)] is None
        ]
        if not missing:
            return
        name = next(spec.name for spec in self._inputs.values() if f"of {spec.name!r}" in missing[0])
        example = ",".join("N" if not isinstance(dim, int) else str(dim) for dim in self._inputs[name].shape)
        raise UsageError(
            f"these dynamic axes have no range: {', '.join(missing)}",
            hint=f"give --min-shape {name}={example} and --max-shape {name}={example} with numbers for N, or --samples",
        )

    def _range(self, spec: TensorSpec, found: Mapping[Key, tuple[int, int, int] | None]) -> ShapeRange:
        sizes = [
            (dim, dim, dim) if isinstance(dim, int) else found[_key(spec, axis)] or (1, 1, 1)
            for axis, dim in enumerate(spec.shape)
        ]
        low, typical, high = (tuple(size[index] for size in sizes) for index in range(3))
        return ShapeRange(name=spec.name, min_shape=low, typical_shape=typical, max_shape=high)


def _key(spec: TensorSpec, axis: int) -> Key:
    dim = spec.shape[axis]
    return dim if isinstance(dim, str) else (spec.name, axis)


def _dynamic_first(spec: TensorSpec) -> bool:
    return bool(spec.shape) and not isinstance(spec.shape[0], int)


def _check_fits(spec: TensorSpec, shape: Sequence[int], what: str, error: type[UsageError]) -> None:
    """Refuse a shape of another rank, with a size below 1, or with another size where the file has a fixed one."""
    declared = "(" + ", ".join("?" if dim is None else str(dim) for dim in spec.shape) + ")"
    if len(shape) != len(spec.shape):
        raise error(f"{what} is {tuple(shape)}, and the file declares {len(spec.shape)} axes: {declared}")
    for axis, (size, dim) in enumerate(zip(shape, spec.shape, strict=True)):
        if size < 1 or (isinstance(dim, int) and dim != size):
            raise error(f"{what} is {tuple(shape)}, which does not fit {declared} on axis {axis}")
