"""Dynamic axes: which ones there are, which must agree, and between which sizes they move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

__all__ = ["Symbol", "resized", "sizes_apart", "tied", "verified_sizes"]

Place = tuple[int, int]
"""One axis of one input: index of the input, number of the axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """One dynamic size and every input axis that has it.

    Attributes:
        name: Unique among the symbols of one module, e.g. ``"batch"``.
        axes: (input, axis) pairs.
        seen: Sizes that the samples had, one per sample.
        low: Smallest size to serve.
        high: Largest size to serve.
        typical: A size that users send.
        batch: Whether rows lie along it.
        invented: Whether all samples had one size and the module was asked about others.
    """

    name: str
    axes: tuple[Place, ...]
    seen: tuple[int, ...]
    low: int
    high: int
    typical: int
    batch: bool = False
    invented: bool = False

    @property
    def step(self) -> int:
        """What every size may have to be a multiple of, going by those seen; 1 for a batch."""
        return 1 if self.batch else math.gcd(*self.seen, self.low, self.high)


def resized(
    tensors: Sequence[torch.Tensor], sizes: Mapping[str, int], symbols: Sequence[Symbol]
) -> tuple[torch.Tensor, ...]:
    """The same tensors at other sizes: rows are taken in turn, again from the first when they run out."""
    result = list(tensors)
    for symbol in symbols:
        for index, axis in symbol.axes:
            old, new = result[index].shape[axis], sizes[symbol.name]
            if old != new:
                rows = torch.arange(new, device=result[index].device) % old
                result[index] = result[index].index_select(axis, rows)
    return tuple(result)


def sizes_apart(symbols: Sequence[Symbol], fixed: Sequence[int] = ()) -> dict[str, int]:
    """A size of at least 2 for every symbol, no two equal where that can be: what an exporter is shown.

    An exporter takes equal sizes for one size, and 0 and 1 for constants.

    Args:
        symbols: The symbols.
        fixed: Sizes that are constant somewhere; avoided where that can be.
    """
    chosen: dict[str, int] = {}
    for symbol in sorted(symbols, key=lambda one: (one.batch, len(set(one.seen)))):
        candidates = _candidates(symbol)
        free = [size for size in candidates if size not in chosen.values()]
        avoided = {*fixed, *symbol.seen} if symbol.batch else set(fixed)  # forward may have the samples' batch built in
        best = [size for size in free if size not in avoided]
        chosen[symbol.name] = (best or free or candidates)[0]
    return {symbol.name: chosen[symbol.name] for symbol in symbols}


def _candidates(symbol: Symbol) -> list[int]:
    """Sizes to show an exporter, best first: the bounds and the seen ones from the largest down, then others.

    What is derived from a large size is less likely to be 1, which an exporter would take for a constant.
    """
    known = sorted({*symbol.seen, symbol.low, symbol.high}, reverse=True)
    steps = range(symbol.low, symbol.high + 1, symbol.step)
    wanted = [2, 3, 5, 4, *known] if symbol.batch else [*known, *steps[:8]]
    valid = [
        size for size in dict.fromkeys(wanted) if size >= 2 and (symbol.batch or symbol.low <= size <= symbol.high)
    ]
    return valid or [max(2, symbol.high)]


def tied(symbols: Sequence[Symbol]) -> tuple[Symbol, ...]:
    """The symbols with those merged that had equal sizes in every sample."""
    groups: dict[tuple[int, ...], list[Symbol]] = {}
    for symbol in symbols:
        groups.setdefault(symbol.seen, []).append(symbol)
    return tuple(_merged(group) for group in groups.values())


def _merged(group: Sequence[Symbol]) -> Symbol:
    first = next((symbol for symbol in group if symbol.batch), group[0])
    return replace(
        first,
        axes=tuple(axis for symbol in group for axis in symbol.axes),
        low=max(symbol.low for symbol in group),
        high=min(symbol.high for symbol in group),
    )


def verified_sizes(symbols: Sequence[Symbol]) -> tuple[dict[str, int], ...]:
    """The sizes at which an export is compared with its module.

    All symbols at their smallest, middle and largest, and each alone at its smallest and largest while the others have
    their typical size.
    """
    typical = {symbol.name: symbol.typical for symbol in symbols}
    plans = [
        {symbol.name: symbol.low for symbol in symbols},
        {symbol.name: _middle(symbol) for symbol in symbols},
        {symbol.name: symbol.high for symbol in symbols},
    ]
    for symbol in symbols if len(symbols) > 1 else ():
        plans += [{**typical, symbol.name: symbol.low}, {**typical, symbol.name: symbol.high}]
    return tuple(plan for index, plan in enumerate(plans) if plan not in plans[:index])


def _middle(symbol: Symbol) -> int:
    """A size between the bounds: a multiple of the step where there is one, else half way."""
    half = (symbol.low + symbol.high) // 2
    stepped = half // symbol.step * symbol.step
    return stepped if symbol.low < stepped else half
