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
    def rank(self) -> tuple[float, bool]:
        """How likely it is the batch: outputs have as many rows, and rows in another order come out in that order."""
        return self.grown, self.keeps_rows


def find_batch(asking: Asking) -> Hypothesis | None:
    """The axes along which the module takes rows, if it does."""
    best: Hypothesis | None = None
    for axes in _hypotheses(asking)[:_MAX_QUESTIONS]:
        tried = _ask(asking, axes)
        if tried is None or (axes[0][1] > 0 and not (tried.grown > 0 and tried.keeps_rows)):
            continue  # a size changes with any axis; what does not lie first must behave like rows to be worth a try
        if best is None or tried.rank > best.rank:
            best = tried
        if best is not None and best.rank == (1.0, True):
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
        rows = _rows(seen)
        return Hypothesis(axes=axes, grown=_share(rows), keeps_rows=_keeps_rows(asking, axes, rows))
    symbol = Symbol(name="batch", axes=axes, seen=sizes, low=1, high=max(sizes), typical=sizes[0])
    runs = []
    for size in [size for size in (2, 3, 5) if size not in sizes][:2]:
        given = resized(asking.samples[0], {"batch": size}, [symbol])
        answer = asking.run(given)
        if answer is None:
            return None
        runs.append((size, given, answer))
    shapes = {tuple(tuple(tensor.shape) for tensor in answer) for _, _, answer in [seen[0], *runs]}
    rows = _rows([seen[0], *runs])
    if len(shapes) == 1:
        return None
    keeps = _keeps_rows(asking, axes, rows)
    return Hypothesis(axes=axes, runs=tuple(runs), grown=_share(rows), invented=True, keeps_rows=keeps)


def _rows(runs: Sequence[tuple[int, Tensors, Tensors]]) -> list[int | None]:
    """Per output the first axis that has exactly one row per row of the batch, in every run."""
    answers = [(size, answer) for size, _, answer in runs]
    return [
        next(
            (
                axis
                for axis in range(min(answer[index].ndim for _, answer in answers))
                if all(answer[index].shape[axis] == size for size, answer in answers)
            ),
            None,
        )
        for index in range(len(answers[0][1]))
    ]


def _share(rows: Sequence[int | None]) -> float:
    return sum(row is not None for row in rows) / len(rows) if rows else 0.0


def _keeps_rows(asking: Asking, axes: tuple[Place, ...], rows: Sequence[int | None]) -> bool:
    """Whether rows that go in backwards come out backwards, as steps of a sequence do not; where that can be asked."""
    sizes, inputs = asking.sizes(axes[0]), dict(axes)
    widest = sizes.index(max(sizes))
    given = [t.flip(inputs[index]) if index in inputs else t for index, t in enumerate(asking.samples[widest])]
    answer = asking.run(given)
    if answer is None:
        return True  # it takes rows in one order only, which says nothing about where they come out
    return all(
        close(turned, plain.flip(row))
        for turned, plain, row in zip(answer, asking.answers[widest], rows, strict=True)
        if row is not None
    )
