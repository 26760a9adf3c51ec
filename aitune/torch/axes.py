"""Finding the dynamic axes of a module: what its samples show, and what it says when it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low

from aitune.errors import UsageError
from aitune.torch.asking import Asking, Range, Tensors
from aitune.torch.batch_axis import Hypothesis, find_batch
from aitune.torch.module.sample_metadata import SampleMetadata
from aitune.torch.names import symbol_name
from aitune.torch.symbols import Place, Symbol, resized, sizes_apart, tied

__all__ = ["Learned", "learn"]

DEFAULT_MAX_BATCH = 8
"""Largest batch to serve when nobody says: a batch axis is tried at 1..8."""


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


def learn(asking: Asking) -> Learned:
    """The dynamic axes of a module."""
    batch = find_batch(asking)
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


def _runs(asking: Asking, batch: Hypothesis | None) -> list[tuple[int | None, Tensors, Tensors]]:
    """Every run so far with its batch size, made-up ones last."""
    sizes = asking.sizes(batch.axes[0]) if batch else (None,) * len(asking.samples)
    seen = list(zip(sizes, asking.samples, asking.answers, strict=True))
    return [*seen, *(batch.runs if batch else ())]


def _symbols(asking: Asking, batch: Hypothesis | None, inputs: SampleMetadata) -> tuple[Symbol, ...]:
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


def _batch_symbol(asking: Asking, batch: Hypothesis) -> Symbol:
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
