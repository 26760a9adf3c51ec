"""Finding the dynamic axes of a module: what its samples show, and what it says when it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low

import torch

from aitune.errors import UsageError
from aitune.torch.execution import close
from aitune.torch.module.sample_metadata import SampleMetadata
from aitune.torch.names import symbol_name
from aitune.torch.structure import Template
from aitune.torch.symbols import Place, Symbol, resized, sizes_apart, tied

__all__ = ["Asking", "Learned", "Range", "learn"]

Tensors = tuple[torch.Tensor, ...]
Run = Callable[[Sequence[torch.Tensor]], Tensors | None]
"""Runs the module on flat tensors; None when it refuses them."""

DEFAULT_MAX_BATCH = 8
"""Largest batch to serve when nobody says: a batch axis is tried at 1..8."""

_MAX_QUESTIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Sizes a user wants for one axis, instead of those the samples had; None where nothing was said."""

    low: int | None = None
    typical: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What is known before the learning: the samples, the answers to them, and a way to ask for more.

    Attributes:
        names: Names of the inputs.
        template: How inputs are nested.
        samples: Flat inputs, per sample.
        answers: Flat outputs, per sample.
        run: Runs the module.
        ranges: What the user wants, by (input, axis).
        max_batch_size: Largest batch the user wants; None when nothing was said.
    """

    names: tuple[str, ...]
    template: Template
    samples: tuple[Tensors, ...]
    answers: tuple[Tensors, ...]
    run: Run
    ranges: Mapping[Place, Range] = field(default_factory=dict)
    max_batch_size: int | None = None

    def sizes(self, place: Place) -> tuple[int, ...]:
        """The size of one axis in every sample."""
        return tuple(sample[place[0]].shape[place[1]] for sample in self.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What came out.

    Attributes:
        symbols: The dynamic sizes.
        inputs: Metadata over all samples, and over those that were made up to ask the module.
        outputs: The same for what came back.
        trace: Sizes to show an exporter: apart from each other, at least 2 where that can be.
        notes: What a person should know.
    """

    symbols: tuple[Symbol, ...]
    inputs: SampleMetadata
    outputs: SampleMetadata
    trace: dict[str, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hypothesis:
    """Axes that may be the batch, and the runs that say so: (batch size, inputs, outputs)."""

    axes: tuple[Place, ...]
    runs: tuple[tuple[int, Tensors, Tensors], ...] = ()
    grown: float = 0.0
    invented: bool = False
    keeps_rows: bool = True

    @property
    def rank(self) -> tuple[bool, float]:
        """How likely it is the batch: rows in another order come out in that order, and outputs have as many."""
        return self.keeps_rows and self.grown > 0, self.grown


def learn(asking: Asking) -> Learned:
    """The dynamic axes of a module."""
    batch = _batch(asking)
    runs = _runs(asking, batch)
    inputs = _merge(
        SampleMetadata.from_inputs(asking.template.put_together(given), batch_size=size) for size, given, _ in runs
    )
    outputs = _merge(SampleMetadata.from_outputs(answer, batch_size=size) for size, _, answer in runs)
    symbols, shown, notes = _settle(asking, _symbols(asking, batch, inputs))
    trace, answer = shown
    smallest = {one.name: one.low for one in symbols}
    answers = ((trace, answer), (smallest, asking.run(resized(asking.samples[0], smallest, symbols))))
    for sizes, found in answers:
        if found is not None:
            outputs.update_shapes_seen(SampleMetadata.from_outputs(found, batch_size=sizes.get("batch")))
    return Learned(symbols=symbols, inputs=inputs, outputs=outputs, trace=trace, notes=notes)


def _merge(found: Iterable[SampleMetadata]) -> SampleMetadata:
    first, *others = found
    for other in others:
        first.update_shapes_seen(other)
    return first


def _runs(asking: Asking, batch: _Hypothesis | None) -> list[tuple[int | None, Tensors, Tensors]]:
    """Every run so far with its batch size, made-up ones last."""
    sizes = asking.sizes(batch.axes[0]) if batch else (None,) * len(asking.samples)
    seen = list(zip(sizes, asking.samples, asking.answers, strict=True))
    return [*seen, *(batch.runs if batch else ())]


def _batch(asking: Asking) -> _Hypothesis | None:
    """The axes along which the module takes rows, if it does."""
    best: _Hypothesis | None = None
    for axes in _hypotheses(asking)[:_MAX_QUESTIONS]:
        tried = _ask(asking, axes)
        if tried is not None and (best is None or tried.rank > best.rank):
            best = tried
        if best is not None and best.rank == (True, 1.0):
            break
    return best


def _hypotheses(asking: Asking) -> list[tuple[Place, ...]]:
    """Axes that had equal sizes in every sample, then each alone; all on axis 0 before any on axis 1."""
    result: list[tuple[Place, ...]] = []
    for axis in (0, 1):
        groups: dict[tuple[int, ...], list[Place]] = {}
        for index, tensor in enumerate(asking.samples[0]):
            if tensor.ndim > axis:
                groups.setdefault(asking.sizes((index, axis)), []).append((index, axis))
        ranked = sorted(groups.items(), key=lambda item: (len(set(item[0])) == 1, -len(item[1])))
        together = [tuple(places) for _, places in ranked]
        result += [*together, *((place,) for places in together if len(places) > 1 for place in places)]
    return result


def _ask(asking: Asking, axes: tuple[Place, ...]) -> _Hypothesis | None:
    """What the module does at other sizes of these axes; None when it refuses them or its answers do not care."""
    sizes = asking.sizes(axes[0])
    seen = list(zip(sizes, asking.samples, asking.answers, strict=True))
    if len(set(sizes)) > 1:
        return _Hypothesis(axes=axes, grown=_grown(seen, axes[0][1]), keeps_rows=_keeps_rows(asking, axes))
    symbol = Symbol(name="batch", axes=axes, seen=sizes, low=1, high=max(sizes), typical=sizes[0])
    runs = []
    for size in [size for size in (2, 3, 5) if size not in sizes][:2]:
        given = resized(asking.samples[0], {"batch": size}, [symbol])
        answer = asking.run(given)
        if answer is None:
            return None
        runs.append((size, given, answer))
    shapes = {tuple(tuple(tensor.shape) for tensor in answer) for _, _, answer in [seen[0], *runs]}
    if len(shapes) == 1:
        return None
    grown = _grown([seen[0], *runs], axes[0][1])
    return _Hypothesis(axes=axes, runs=tuple(runs), grown=grown, invented=True, keeps_rows=_keeps_rows(asking, axes))


def _keeps_rows(asking: Asking, axes: tuple[Place, ...]) -> bool:
    """Whether rows that go in backwards come out backwards, as steps of a sequence do not; where that can be asked."""
    sizes, axis = asking.sizes(axes[0]), axes[0][1]
    widest = sizes.index(max(sizes))
    inputs = {index for index, _ in axes}
    given = [t.flip(axis) if i in inputs else t for i, t in enumerate(asking.samples[widest])]
    answer = asking.run(given)
    if answer is None:
        return True  # it takes rows in one order only, which says nothing about where they come out
    return all(
        close(turned, plain.flip(axis))
        for turned, plain in zip(answer, asking.answers[widest], strict=True)
        if plain.ndim > axis and plain.shape[axis] == sizes[widest]
    )


def _grown(runs: Sequence[tuple[int, Tensors, Tensors]], axis: int) -> float:
    """The share of the outputs that have exactly one row per row of the batch, on the same axis."""
    outputs = range(len(runs[0][2]))
    if not outputs:
        return 0.0
    good = [
        all(answer[index].ndim > axis and answer[index].shape[axis] == size for size, _, answer in runs)
        for index in outputs
    ]
    return sum(good) / len(good)


def _symbols(asking: Asking, batch: _Hypothesis | None, inputs: SampleMetadata) -> tuple[Symbol, ...]:
    """The dynamic sizes: the batch first, then axes that varied or shall vary, equal ones together."""
    taken: set[Place] = set()
    result: list[Symbol] = []
    if batch is not None:
        symbol = _batch_symbol(asking, batch)
        taken.update(batch.axes)
        result += [symbol] if symbol.low < symbol.high else []
    groups: list[list[Place]] = []
    for index, (_, spec) in enumerate(inputs.tensor_data):
        for axis, entry in enumerate(spec.shape):
            place = (index, axis)
            if place not in taken and (isinstance(entry, str) or _moves(asking, place)):
                _put(groups, place, asking)
    for places in groups:
        symbol = _symbol(asking, places, [one.name for one in result])
        result += [symbol] if symbol.low < symbol.high else []
    return tuple(result)


def _moves(asking: Asking, place: Place) -> bool:
    """Whether the user wants sizes that the samples did not have."""
    wish, sizes = asking.ranges.get(place, Range()), asking.sizes(place)
    return any(size is not None and size not in sizes for size in (wish.low, wish.high))


def _put(groups: list[list[Place]], place: Place, asking: Asking) -> None:
    """Into the group of axes of other inputs that always had the same size and are wanted in the same range."""
    sizes = asking.sizes(place)
    for group in groups:
        alike = asking.sizes(group[0]) == sizes and place[0] not in {index for index, _ in group}
        if alike and (len(set(sizes)) > 1 or asking.ranges.get(group[0]) == asking.ranges.get(place)):
            group.append(place)
            return
    groups.append([place])


def _batch_symbol(asking: Asking, batch: _Hypothesis) -> Symbol:
    sizes = asking.sizes(batch.axes[0])
    wish = _wish(asking, batch.axes)
    probe = Symbol(name="batch", axes=batch.axes, seen=sizes, low=1, high=max(sizes), typical=1)
    one = 1 in sizes or asking.run(resized(asking.samples[0], {"batch": 1}, [probe])) is not None
    high = wish.high or asking.max_batch_size or max(*sizes, DEFAULT_MAX_BATCH)
    low = wish.low or (1 if one else min(sizes))
    typical = wish.typical or min(max(median_low(sizes), low), high)
    return Symbol(
        name="batch",
        axes=batch.axes,
        seen=sizes,
        low=low,
        high=max(low, high),
        typical=typical,
        batch=True,
        invented=batch.invented,
    )


def _symbol(asking: Asking, places: Sequence[Place], taken: Sequence[str]) -> Symbol:
    index, axis = places[0]
    tensor, sizes, wish = asking.samples[0][index], asking.sizes(places[0]), _wish(asking, places)
    name = wanted = symbol_name(asking.names[index], axis, tensor.ndim, floating=tensor.is_floating_point())
    number = 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    low = max(1, min(sizes)) if wish.low is None else wish.low
    high = max(sizes) if wish.high is None else wish.high
    typical = min(max(median_low(sizes), low), high) if wish.typical is None else wish.typical
    return Symbol(
        name=name,
        axes=tuple(places),
        seen=sizes,
        low=low,
        high=max(low, high),
        typical=typical,
        invented=len(set(sizes)) == 1,
    )


def _wish(asking: Asking, places: Sequence[Place]) -> Range:
    """What the user wants for axes that must agree.

    Raises:
        UsageError: If two different sizes are wanted.
    """
    merged: dict[str, int | None] = {}
    for part in ("low", "typical", "high"):
        wanted = {place: getattr(asking.ranges[place], part) for place in places if place in asking.ranges}
        sizes = {size for size in wanted.values() if size is not None}
        if len(sizes) > 1:
            names = ", ".join(f"axis {axis} of {asking.names[index]!r}" for index, axis in wanted)
            raise UsageError(
                f"{names} always have one size in the samples, but {min(sizes)} and {max(sizes)} were asked for",
                hint="ask for the same size on each of them",
            )
        merged[part] = next(iter(sizes), None)
    return Range(**merged)


Shown = tuple[dict[str, int], Tensors | None]
"""Sizes to show an exporter, and what the module answers at them."""


def _settle(asking: Asking, symbols: tuple[Symbol, ...]) -> tuple[tuple[Symbol, ...], Shown, tuple[str, ...]]:
    """The symbols that the module accepts at sizes apart from each other, and those sizes.

    Axes that had equal sizes in every sample are first taken to be independent within one tensor (height and width of
    square images); when the module refuses that, they are one size.
    """
    widest = max(range(len(asking.samples)), key=lambda index: sum(t.numel() for t in asking.samples[index]))
    sample = asking.samples[widest]
    moving = {place for one in symbols for place in one.axes}
    fixed = [
        size
        for index, tensor in enumerate(sample)
        for axis, size in enumerate(tensor.shape)
        if (index, axis) not in moving
    ]
    for attempt in dict.fromkeys((symbols, tied(symbols))):
        trace = sizes_apart(attempt, fixed)
        answer = asking.run(resized(sample, trace, attempt))
        if answer is not None:
            names = ", ".join(one.name for one in symbols if one.name not in {kept.name for kept in attempt})
            return (
                attempt,
                (trace, answer),
                (f"{names}: the module refuses another size than that of the axis it came with",) if names else (),
            )
    own = {one.name: sample[one.axes[0][0]].shape[one.axes[0][1]] for one in symbols}
    batched = {**own, **{one.name: 2 for one in symbols if one.batch and own[one.name] < 2}}
    answer = asking.run(resized(sample, batched, symbols))
    return symbols, (own, None) if answer is None else (batched, answer), ()
