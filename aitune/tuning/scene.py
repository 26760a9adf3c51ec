"""One scene of a batching proof: a model, one shape of a row, several batch sizes, and the questions asked there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aitune.errors import AituneError
from aitune.numerics import Agreement, Array, Tolerance, as_float, compare, require_dtype
from aitune.records import DType, TensorSpec
from aitune.records.evidence import Trial
from aitune.tuning.progress import Progress
from aitune.tuning.rows import Rows
from aitune.tuning.runner import Runner

__all__ = ["Scene", "Shapes", "Subject", "count_runs"]

_ROWS_ALONE = {"typical": 32}
_ROWS_ALONE_ELSEWHERE = 8
"""How many rows of a batch are also run alone; in a larger batch they are spread from the first to the last."""
_CHECKS = {
    "rows": "as many rows as the batch",
    "repeat": "two equal runs",
    "independence": "rows of the batch against rows alone",
    "permutation": "permuted batch against permuted rows",
}

Shapes = Mapping[str, tuple[int, ...]]
Tensors = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is on trial: see :func:`aitune.tuning.prove_batching` for the fields."""

    runner: Runner
    rows: Rows
    outputs: tuple[TensorSpec, ...]
    tolerances: Mapping[str, Tolerance]
    seed: int
    progress: Progress

    def requests(self, shapes: Shapes, rows: int) -> dict[str, Array]:
        """So many rows, made up and recorded."""
        return self.rows.mixed({name: (rows, *shape[1:]) for name, shape in shapes.items()}, self.seed)

    def compare(self, actual: Array, expected: Array, spec: TensorSpec) -> Agreement:
        """Whether two pieces of one output agree."""
        return compare(actual, expected, spec.dtype, tolerance=self.tolerances.get(spec.name))


class _Stopped(Exception):
    """Ends a scene: what was asked, of which tensor, at which batch size, and why that stops batching."""

    def __init__(self, check: str, tensor: str, size: int, reason: str) -> None:
        super().__init__(reason)
        self.trial = Trial(
            check=check, batch_sizes=(size,), tensor=tensor, passed=False, detail=" ".join(reason.split())
        )


def count_runs(label: str, sizes: Sequence[int], between: Sequence[int] = ()) -> int:
    """How many runs a scene takes when nothing stops it.

    Every size twice and permuted, the rows alone, and the sizes between once.
    """
    alone = {row for size in sizes if size > 1 for row in _chosen(label, size)}
    return 2 * len(sizes) + sum(size > 1 for size in sizes) + len(alone) + len(between)


def _chosen(label: str, size: int) -> list[int]:
    """Rows of a batch to run alone: all, or some spread from the first to the last."""
    most = min(size, _ROWS_ALONE.get(label, _ROWS_ALONE_ELSEWHERE))
    return sorted({round(index * (size - 1) / (most - 1)) for index in range(most)})


class Scene:
    """The runs at one shape of a row.

    Args:
        subject: What is on trial.
        label: Which shape: ``"typical"``, ``"smallest"`` or ``"largest"``.
        shapes: Shape of one row of each input, first axis 1.
        sizes: Batch sizes, ascending from 1.
        between: Further sizes below the largest, each run once: its rows against those that were run alone anyway.
    """

    def __init__(
        self, subject: Subject, label: str, shapes: Shapes, sizes: Sequence[int], between: Sequence[int] = ()
    ) -> None:
        self._subject = subject
        self._label = label
        self._shapes = shapes
        self._sizes = tuple(sizes)
        self._between = tuple(between)
        self._rows = subject.requests(shapes, self._sizes[-1])
        self._alone: dict[int, Tensors] = {}
        self._found: dict[tuple[str, str], Agreement] = {}
        self._stopped: Trial | None = None

    def conduct(self) -> str:
        """Run everything; why the model does not batch, ``""`` when it does."""
        probe = self._sizes[-2]  # neither 1 nor the largest: the size that says most in a message
        order = [probe, *(size for size in self._sizes if size != probe)]
        try:
            for size in order:
                self._try(size)
            for size in self._between:
                self._try_once(size)
        except _Stopped as stopped:
            self._stopped = stopped.trial
            return stopped.trial.detail
        return ""

    def trials(self) -> list[Trial]:
        """What passed, by check and output, and what did not."""
        if self._stopped is not None:
            return [self._stopped]
        at = f"at the {self._label} shape"
        every = tuple(sorted({*self._sizes, *self._between}))
        rows = Trial(check="rows", batch_sizes=every, passed=True, detail=f"{at}: {_CHECKS['rows']}")
        sizes = {"repeat": self._sizes, "independence": every[1:], "permutation": self._sizes[1:]}
        return [rows] + [
            Trial(
                check=check,
                batch_sizes=sizes[check],
                tensor=tensor,
                passed=True,
                detail=f"{at}, {_CHECKS[check]}: {found.detail}",
            )
            for (check, tensor), found in self._found.items()
        ]

    def worst(self) -> tuple[float, str]:
        """The largest difference between batch and row alone, and its output; 0 and ``""`` when there was none."""
        found = [(item.max_abs, name) for (check, name), item in self._found.items() if check == "independence"]
        return max(found, default=(0.0, ""))

    def _try(self, size: int) -> None:
        """All questions at one batch size; answers are dropped again, for they can be large."""
        batch = {name: array[:size] for name, array in self._rows.items()}
        answer = self._run(batch, size)
        self._demand_rows(answer, size)
        self._demand_finite(answer, size)
        again = self._run(batch, size)
        for spec in self._subject.outputs:
            found = self._subject.compare(again[spec.name], answer[spec.name], spec)
            self._note("repeat", spec, size, found, f"two equal runs of batch {size} differ in output {spec.name!r}")
        del again
        if size > 1:
            self._demand_independent(answer, size, _chosen(self._label, size))
            self._demand_permutable(batch, answer, size)

    def _try_once(self, size: int) -> None:
        """The question that says most, for one run: whether the rows are what they are alone."""
        answer = self._run({name: array[:size] for name, array in self._rows.items()}, size)
        self._demand_rows(answer, size)
        self._demand_independent(answer, size, sorted(row for row in self._alone if row < size))

    def _run(self, batch: Tensors, size: int) -> Tensors:
        self._subject.progress.advance()
        try:
            answer = self._subject.runner.run(batch)
            for spec in self._subject.outputs:
                require_dtype(answer[spec.name], spec.dtype, f"output {spec.name!r}")
        except AituneError as error:
            at = "" if self._label == "typical" else f" at the {self._label} shape"
            raise _Stopped("run", "", size, f"batch {size} does not run{at}: {error}") from error
        return answer

    def _demand_rows(self, answer: Tensors, size: int) -> None:
        """Exact growth on axis 0, and nowhere else."""
        for spec in self._subject.outputs:
            shape = answer[spec.name].shape
            if not shape:
                raise _Stopped("rows", spec.name, size, f"output {spec.name!r} is a scalar")
            if shape[0] != size:
                raise _Stopped("rows", spec.name, size, f"output {spec.name!r} has {shape[0]} rows for batch {size}")
        alone = answer if size == 1 else self._row_alone(0)
        for spec in self._subject.outputs:
            one, many = alone[spec.name].shape, answer[spec.name].shape
            if one[1:] != many[1:]:
                reason = f"output {spec.name!r} has shape {many} for batch {size} but {one} for a row alone"
                raise _Stopped("rows", spec.name, size, reason)

    def _demand_finite(self, answer: Tensors, size: int) -> None:
        """Something must be there to compare."""
        for spec in self._subject.outputs:
            array = answer[spec.name]
            if spec.dtype.is_floating and array.size and not np.isfinite(as_float(array, spec.dtype)).any():
                reason = (
                    f"output {spec.name!r} is NaN or infinite everywhere for batch {size}, so no row can be checked"
                )
                raise _Stopped("finite", spec.name, size, reason)

    def _demand_independent(self, answer: Tensors, size: int, chosen: Sequence[int]) -> None:
        """Row i of the batch is row i alone, for the chosen rows."""
        for spec in self._subject.outputs:
            alone = [self._row_alone(row)[spec.name] for row in chosen]
            odd = next((row for row, one in zip(chosen, alone, strict=True) if one.shape != alone[0].shape), None)
            if odd is not None:
                shapes = f"{self._row_alone(odd)[spec.name].shape} for row {odd} alone, {alone[0].shape} for row 0"
                raise _Stopped("rows", spec.name, size, f"output {spec.name!r} has shape {shapes}")
            found = self._subject.compare(answer[spec.name][chosen], np.concatenate(alone), spec)
            if not found.agrees and found.where:
                row, place = chosen[found.where[0]], found.where[1:]
                pair = [
                    _word(array[(index, *place)], spec.dtype)
                    for array, index in ((answer[spec.name], row), (self._row_alone(row)[spec.name], 0))
                ]
                reason = f"{self._blame(spec, size, row)}: {pair[0]} there and {pair[1]} alone"
                exact = "" if spec.dtype.is_floating else f" ({spec.dtype.value} must be equal)"
                raise _Stopped("independence", spec.name, size, reason + exact)
            self._keep("independence", spec, found)

    def _blame(self, spec: TensorSpec, size: int, row: int) -> str:
        """What a row depends on, found by a batch of copies of it."""
        copies = {name: np.repeat(array[row : row + 1], size, axis=0) for name, array in self._rows.items()}
        same = self._run(copies, size)[spec.name]
        alike = same.shape[0] == size and self._subject.compare(same, np.repeat(same[:1], size, axis=0), spec).agrees
        on = "the other rows" if alike else "its position"
        return f"row {row} of output {spec.name!r} depends on {on} in a batch of {size}"

    def _demand_permutable(self, batch: Tensors, answer: Tensors, size: int) -> None:
        """A permuted batch gives the permuted rows."""
        order = _permutation(size)
        permuted = self._run({name: array[order] for name, array in batch.items()}, size)
        for spec in self._subject.outputs:
            found = self._subject.compare(permuted[spec.name], answer[spec.name][order], spec)
            reason = f"output {spec.name!r} does not follow the rows of a permuted batch of {size}"
            self._note("permutation", spec, size, found, reason)

    def _note(self, check: str, spec: TensorSpec, size: int, found: Agreement, reason: str) -> None:
        """Keep the largest difference, or stop."""
        if not found.agrees:
            raise _Stopped(check, spec.name, size, f"{reason}: {found.detail}")
        self._keep(check, spec, found)

    def _keep(self, check: str, spec: TensorSpec, found: Agreement) -> None:
        key = (check, spec.name)
        if key not in self._found or found.max_abs > self._found[key].max_abs:
            self._found[key] = found

    def _row_alone(self, row: int) -> Tensors:
        """The answer to one row, run once."""
        if row not in self._alone:
            answer = self._run({name: array[row : row + 1] for name, array in self._rows.items()}, 1)
            for spec in self._subject.outputs:
                shape = answer[spec.name].shape
                if not shape or shape[0] != 1:
                    found = f"has {shape[0]} rows for batch 1" if shape else "is a scalar"
                    raise _Stopped("rows", spec.name, 1, f"output {spec.name!r} {found}")
            self._alone[row] = answer
        return self._alone[row]


def _word(value: object, dtype: DType) -> str:
    """One element of a tensor in a sentence."""
    if dtype.is_floating:
        return f"{as_float(np.asarray(value), dtype).item():.6g}"
    return str(value)


def _permutation(size: int) -> list[int]:
    """Backwards and turned by one: for three rows or more neither the order nor the reverse of it."""
    return [(size - 2 - index) % size for index in range(size)]
