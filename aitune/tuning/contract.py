"""The tensor contract: bounds that were seen by running, and symbols that mean what they say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aitune.errors import AituneError, SourceError, UsageError
from aitune.numerics import Array, require_dtype
from aitune.records import TensorSpec, TunedTensorSpec
from aitune.records.shapes import Dim
from aitune.tuning.rows import Rows
from aitune.tuning.runner import Runner
from aitune.tuning.shapes import Ranges

__all__ = ["Contract", "Observation", "make_contract", "observe", "run_checked"]

_SEEDS = (11, 12)
"""Two requests of one shape: where their answers differ in shape, the data decides."""

Tensors = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observation:
    """One request that was run.

    Attributes:
        label: ``"smallest"``, ``"typical"`` or ``"largest"``.
        inputs: What was sent.
        outputs: What came back.
        shapes: Shapes of the outputs for another request of the same shape.
    """

    label: str
    inputs: Tensors
    outputs: Tensors
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """Inputs and outputs with bounds, and what a person should know about them."""

    inputs: tuple[TunedTensorSpec, ...]
    outputs: tuple[TunedTensorSpec, ...]
    notes: tuple[str, ...]


def run_checked(runner: Runner, inputs: Tensors, outputs: Sequence[TensorSpec], what: str) -> dict[str, Array]:
    """The answer, if it is what the file declares.

    Raises:
        SourceError: If the request does not run (``what`` says which it is), or an output has another element type,
            rank or fixed size than declared.
    """
    shapes = ", ".join(f"{name}: {'x'.join(map(str, array.shape)) or 'scalar'}" for name, array in inputs.items())
    try:
        answer = runner.run(inputs)
    except AituneError as error:
        raise SourceError(
            f"the model does not run {what} ({shapes}): {error}",
            hint="give shapes and values that it accepts: --min-shape, --max-shape, or --samples",
        ) from error
    for spec in outputs:
        if spec.name not in answer:
            raise SourceError(f"the model did not give output {spec.name!r} {what}")
        _check_declared(spec, answer[spec.name], what)
    return answer


def _check_declared(spec: TensorSpec, array: Array, what: str) -> None:
    try:
        require_dtype(array, spec.dtype, f"output {spec.name!r}")
    except UsageError as error:
        raise SourceError(f"the model does not answer as the file declares {what}: {error}") from error
    shape = array.shape
    fits = len(shape) == len(spec.shape)
    if not fits or any(isinstance(dim, int) and dim != size for dim, size in zip(spec.shape, shape, strict=True)):
        raise SourceError(
            f"output {spec.name!r} has shape {shape} {what}, but the file declares {spec.shape}",
            hint="export the model again with the axes that vary declared dynamic",
        )


def observe(
    runner: Runner,
    outputs: Sequence[TensorSpec],
    rows: Rows,
    ranges: Ranges,
) -> tuple[Observation, ...]:
    """Run the smallest, the typical and the largest shape, each once if they are equal.

    Raises:
        SourceError: If one does not run, or the answers contradict the file.
    """
    done: list[Mapping[str, tuple[int, ...]]] = []
    found = []
    for label in ("typical", "smallest", "largest"):
        shapes = ranges.shapes(label)
        if shapes in done:
            continue
        done.append(shapes)
        sent, other = (rows.request(shapes, seed) for seed in _SEEDS)
        what = f"at its {label} shape"
        again = {name: array.shape for name, array in run_checked(runner, other, outputs, what).items()}
        answer = run_checked(runner, sent, outputs, what)
        found.append(Observation(label=label, inputs=sent, outputs=answer, shapes=again))
    return tuple(found)


def make_contract(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    observations: Sequence[Observation],
    *,
    batch_axis: int | None,
) -> Contract:
    """The contract that the observations bear out.

    Bounds of inputs are the shapes that were run. Bounds of outputs are the sizes that were seen; where the data
    decides a size, the lower bound is 1, for fewer may come than were seen. A symbol is kept where it had the same size
    as everywhere else in every run; elsewhere the axis goes without a name.

    Args:
        inputs: Inputs as the file declares them.
        outputs: Outputs as the file declares them.
        observations: At least one.
        batch_axis: The proved batch axis, the same for every tensor, or None.
    """
    symbols = _Symbols()
    tuned = [
        symbols.tune(spec, [_Seen((item.inputs[spec.name].shape,)) for item in observations], batch_axis)
        for spec in inputs
    ]
    answered = [
        symbols.tune(
            spec,
            [_Seen((item.outputs[spec.name].shape, item.shapes[spec.name])) for item in observations],
            batch_axis,
        )
        for spec in outputs
    ]
    return Contract(inputs=tuple(tuned), outputs=tuple(answered), notes=tuple(symbols.notes))


@dataclass(frozen=True, slots=True)
class _Seen:
    """Shapes of one tensor in one observation."""

    shapes: tuple[tuple[int, ...], ...]

    def sizes(self, axis: int) -> tuple[int, ...]:
        return tuple(shape[axis] for shape in self.shapes)


@dataclass(slots=True)
class _Symbols:
    """What every symbol was in every observation, the first tensor that uses it deciding."""

    known: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def tune(self, spec: TensorSpec, seen: Sequence[_Seen], batch_axis: int | None) -> TunedTensorSpec:
        dims: list[Dim] = []
        low, high = [], []
        for axis, dim in enumerate(spec.shape):
            sizes = [item.sizes(axis) for item in seen]
            by_data = any(len(set(pair)) > 1 for pair in sizes)
            flat = [size for pair in sizes for size in pair]
            low.append(1 if by_data else max(1, min(flat)))
            high.append(max(1, *flat))
            dims.append(self._dim(dim, tuple(None if by_data else pair[0] for pair in sizes)))
            self._remark(spec, axis, by_data, flat)
        return TunedTensorSpec(spec.name, spec.dtype, tuple(dims), tuple(low), tuple(high), batch_axis)

    def _dim(self, dim: Dim, sizes: tuple[int | None, ...]) -> Dim:
        """The symbol, if it keeps its promise; a size the data decides promises nothing."""
        if not isinstance(dim, str):
            return dim
        if None in sizes:
            return None
        return dim if self.known.setdefault(dim, sizes) == sizes else None

    def _remark(self, spec: TensorSpec, axis: int, by_data: bool, flat: Sequence[int]) -> None:
        least, most = min(flat), max(flat)
        if by_data:
            self.notes.append(
                f"axis {axis} of output {spec.name!r} depends on the data: {least} to {most} were seen, "
                "which is no promise"
            )
        elif math.prod((least, most)) == 0:
            self.notes.append(f"axis {axis} of output {spec.name!r} was empty in a run")
