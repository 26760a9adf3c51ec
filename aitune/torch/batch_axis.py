"""Finding the batch: the axes along which a module takes rows, by asking it for other sizes and another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aitune.torch.asking import Asking, Tensors
from aitune.torch.execution import close
from aitune.torch.symbols import Place, Symbol, resized

__all__ = ["Hypothesis", "find_batch"]

_MAX_QUESTIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
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


def find_batch(asking: Asking) -> Hypothesis | None:
    """The axes along which the module takes rows, if it does."""
    best: Hypothesis | None = None
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


def _ask(asking: Asking, axes: tuple[Place, ...]) -> Hypothesis | None:
    """What the module does at other sizes of these axes; None when it refuses them or its answers do not care."""
    sizes = asking.sizes(axes[0])
    seen = list(zip(sizes, asking.samples, asking.answers, strict=True))
    if len(set(sizes)) > 1:
        return Hypothesis(axes=axes, grown=_grown(seen, axes[0][1]), keeps_rows=_keeps_rows(asking, axes))
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
    return Hypothesis(axes=axes, runs=tuple(runs), grown=grown, invented=True, keeps_rows=_keeps_rows(asking, axes))


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
