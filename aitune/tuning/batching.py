"""Proof of batching: may a server put rows of different requests into one run?

Names prove nothing, so the model is run. It batches when at several batch sizes, with rows that all differ,

* every output has exactly as many rows as the batch on axis 0, and its other axes stay what they are for one row;
* two equal runs give equal answers;
* row ``i`` of the answer to the batch is the answer to row ``i`` alone, within the tolerance of its element type;
* the rows of a permuted batch are the permuted rows;

at the typical shape, and again at the smallest and the largest size of every other dynamic axis. The sizes are 1, small
primes that no other axis has (so that a sequence of five cannot pass for a batch of five), and the largest batch. All
sizes up to eight and the powers of two, which a server forms most often and for which kernels are chosen, are run once
more cheaply: one run each, whose rows are compared with rows that were run alone anyway.

At the typical shape floats of either sign and a row of zeros are tried, too: what selects or mixes rows by their values
may show only there. A model that refuses such values is not blamed for it.

Nothing about a model raises here: the worst outcome is a verdict of ``"unbatched"`` with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aitune.numerics import Array, Tolerance, varied
from aitune.records import DType, TensorSpec
from aitune.records.evidence import Batching, InputDomain, Trial
from aitune.tuning.progress import SILENT, Progress
from aitune.tuning.rows import Rows
from aitune.tuning.runner import Runner
from aitune.tuning.scene import Scene, Shapes, Subject, count_runs
from aitune.tuning.shapes import Ranges

__all__ = ["batch_sizes", "prove_batching", "sizes_between", "stops_batching"]

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23)
_SMALL = 8
"""Up to this batch, every size is run."""
_SEED = 7
_SIGNED = "with values of either sign and a row of zeros"


@dataclass(frozen=True, slots=True)
class _Act:
    """What is tried at one shape: see :class:`aitune.tuning.scene.Scene`."""

    label: str
    shapes: Shapes
    sizes: tuple[int, ...]
    between: tuple[int, ...] = ()

    def scene(self, subject: Subject) -> Scene:
        """The runs of it."""
        return Scene(subject, self.label, self.shapes, self.sizes, self.between)


def prove_batching(
    runner: Runner,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    domains: Sequence[InputDomain],
    ranges: Ranges,
    *,
    max_batch_size: int,
    tolerances: Mapping[str, Tolerance] | None = None,
    samples: Sequence[Mapping[str, Array]] = (),
    made_up: bool = True,
    seed: int = _SEED,
    progress: Progress = SILENT,
) -> Batching:
    """The verdict on batching along axis 0.

    Args:
        runner: The model; not closed.
        inputs: Inputs as the file declares them.
        outputs: Outputs as the file declares them.
        domains: Ranges of valid values, one per input. Where every one holds a single value, they are widened a
            little, because equal rows prove nothing.
        ranges: Shapes; their first axes are replaced by the batch sizes.
        max_batch_size: Largest batch that will be allowed, at least 1; 1, 2 and 3 rows are tried in any case.
        tolerances: Wider tolerances by output, e.g. where a float32 output is computed in float16.
        samples: Recorded requests: their rows are tried among the made-up ones, at the shapes they have.
        made_up: Whether made-up rows may be used; else all are those of the samples, cut or repeated to size.
        seed: Seed of the made-up rows.
        progress: Told of every run.

    Returns:
        ``"batched"`` or ``"unbatched"`` with one sentence and every check that was made.
    """
    reason = stops_batching(inputs, outputs)
    if reason:
        return Batching(verdict="unbatched", reason=reason)
    subject = Subject(
        runner=runner,
        rows=Rows(
            inputs=tuple(inputs),
            domains=_telling(inputs, domains),
            samples=tuple(samples),
            made_up=made_up,
        ),
        outputs=tuple(outputs),
        tolerances=tolerances or {},
        seed=seed,
        progress=progress,
    )
    plan = _plan(ranges, max_batch_size)
    signed = _signed(subject)
    tried = [*plan, *([_signed_act(plan)] if signed is not None else ())]
    runs = sum(count_runs(act.label, act.sizes, act.between) for act in tried)
    progress.start(f"proving batches up to {max_batch_size}", runs)
    try:
        return _conduct(subject, signed, plan)
    finally:
        progress.done()


def _plan(ranges: Ranges, max_batch_size: int) -> list[_Act]:
    """Which sizes are tried at which shapes: all at the typical one, fewer where another axis has its second size."""
    plan: list[_Act] = []
    for label in ("typical", "smallest", "largest"):
        shapes = ranges.shapes(label, batch=1)
        if shapes not in [act.shapes for act in plan]:
            sizes = batch_sizes(max_batch_size, [size for shape in shapes.values() for size in shape[1:]])
            between = sizes_between(max_batch_size, sizes)
            if label != "typical":
                sizes, between = _fewer(sizes), tuple(size for size in between if size == 4)
            plan.append(_Act(label, shapes, sizes, between))
    return plan


def _signed(subject: Subject) -> Subject | None:
    """The same on trial with floats of either sign and a row of zeros; None where no input takes made-up floats."""
    floats = {spec.name for spec in subject.rows.inputs if spec.dtype.is_floating}
    if not floats or not subject.rows.made_up:
        return None
    domains = tuple(_mirrored(each) if each.name in floats else each for each in subject.rows.domains)
    rows = dataclasses.replace(subject.rows, domains=domains, samples=(), zero_row=True)
    return dataclasses.replace(subject, rows=rows)


def _mirrored(domain: InputDomain) -> InputDomain:
    most = max(abs(domain.low), abs(domain.high))
    return dataclasses.replace(domain, low=-most, high=most)


def _signed_act(plan: Sequence[_Act]) -> _Act:
    """Small sizes: this is about values, and costs a large model little."""
    return _Act(plan[0].label, plan[0].shapes, plan[0].sizes[:3])


def _conduct(subject: Subject, signed: Subject | None, plan: Sequence[_Act]) -> Batching:
    """All checks at all shapes; the first failure ends it."""
    trials: list[Trial] = []
    worst = (0.0, "")
    for act in plan:
        scene = act.scene(subject)
        reason = scene.conduct()
        trials += scene.trials()
        if reason:
            return Batching(verdict="unbatched", reason=reason, evidence=tuple(trials))
        worst = max(worst, scene.worst())
    if signed is not None:
        scene = _signed_act(plan).scene(signed)
        reason = scene.conduct()
        told = scene.trials()
        if not reason or told[0].check not in ("run", "finite"):
            trials += [dataclasses.replace(each, check=f"signed {each.check}") for each in told]
            if reason:
                return Batching(verdict="unbatched", reason=f"{reason} ({_SIGNED})", evidence=tuple(trials))
    return Batching(verdict="batched", reason=_summary(trials, worst, len(plan)), evidence=tuple(trials))


def _fewer(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The first, the second and the largest: enough where the typical shape was tried in full."""
    return tuple(sorted({sizes[0], sizes[1], sizes[-1]}))


def _summary(trials: Sequence[Trial], worst: tuple[float, str], shapes: int) -> str:
    sizes = sorted({size for trial in trials for size in trial.batch_sizes})
    difference = f"largest difference {worst[0]:.2g} in {worst[1]!r}" if worst[0] else "no difference at all"
    across = f" at {shapes} shapes" if shapes > 1 else ""
    return f"every row of a batch of {_listed(sizes)} is answered as if it were alone{across} ({difference})"


def _listed(sizes: Sequence[int]) -> str:
    """Ascending sizes in words, three or more in a row as the first and the last.

    >>> _listed([1, 2, 3, 4, 5, 8]), _listed([1, 2, 4]), _listed([1, 2, 3])
    ('1 to 5 and 8', '1, 2 and 4', '1 to 3')
    """
    runs: list[list[int]] = []
    for size in sizes:
        if runs and runs[-1][-1] == size - 1:
            runs[-1].append(size)
        else:
            runs.append([size])
    words = [
        word for run in runs for word in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(size) for size in run])
    ]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def stops_batching(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str:
    """Why the declared shapes alone rule out a batch on axis 0, naming the tensors; ``""`` when they do not."""
    if not inputs or not outputs:
        return f"the model has no {'inputs' if not inputs else 'outputs'}"
    sides = (("input", inputs), ("output", outputs))
    found = [text for side, specs in sides for spec in specs if (text := _declared(side, spec, inputs))]
    listed = " and ".join(found[:3])
    return listed + (f" and {len(found) - 3} more such tensors" if len(found) > 3 else "")


def _declared(side: str, spec: TensorSpec, inputs: Sequence[TensorSpec]) -> str:
    if not spec.shape:
        return f"{side} {spec.name!r} is a scalar"
    first, *rest = spec.shape
    free = [axis for axis, dim in enumerate(rest, 1) if not isinstance(dim, int)]
    if isinstance(first, int):
        aside = f" (its dynamic axis is {free[0]}, and a server batches on axis 0)" if len(free) == 1 else ""
        return f"{side} {spec.name!r} has a fixed first axis of {first}{aside}"
    for other in inputs if side == "input" and first is not None else ():
        if first in other.shape[1:]:
            axis = other.shape.index(first, 1)
            return f"input {spec.name!r} has its first axis {first!r} again on axis {axis} of {other.name!r}"
    return ""


def batch_sizes(max_batch_size: int, taken: Sequence[int] = ()) -> tuple[int, ...]:
    """Batch sizes to try, ascending: 1, small primes and the largest; at least three.

    Args:
        max_batch_size: Largest batch that will be allowed.
        taken: Sizes of other axes, which a batch must not be mistaken for; avoided where there is a choice.

    >>> batch_sizes(8), batch_sizes(1), batch_sizes(64, taken=(3, 768))
    ((1, 2, 3, 5, 8), (1, 2, 3), (1, 2, 5, 7, 23, 64))
    """
    top = max(max_batch_size, 3)
    free = [prime for prime in _PRIMES if prime <= top and prime not in taken]
    spare = [prime for prime in _PRIMES if prime <= top and prime in taken]
    chosen = {1, max_batch_size, *free[:3]}
    if top >= 32:
        chosen.add(free[-1])  # something between the small and the largest
    for prime in spare:
        if len(chosen) >= 3:
            break
        chosen.add(prime)
    return tuple(sorted(chosen))


def sizes_between(max_batch_size: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Further sizes below the largest, ascending: all up to eight, and the powers of two.

    Args:
        max_batch_size: Largest batch that will be allowed.
        sizes: Sizes that are tried already.

    >>> sizes_between(8, (1, 2, 3, 5, 8)), sizes_between(64, (1, 2, 3, 5, 23, 64)), sizes_between(2, (1, 2, 3))
    ((4, 6, 7), (4, 6, 7, 8, 16, 32), ())
    """
    powers = {1 << exponent for exponent in range(max_batch_size.bit_length())}
    wanted = {*range(1, _SMALL + 1), *powers} - set(sizes)
    return tuple(sorted(size for size in wanted if size < max_batch_size))


def _telling(inputs: Sequence[TensorSpec], domains: Sequence[InputDomain]) -> tuple[InputDomain, ...]:
    """Domains that give rows which differ."""
    dtypes = {spec.name: spec.dtype for spec in inputs}
    mine = tuple(domain for domain in domains if domain.name in dtypes)
    differs = any(domain.low < domain.high or dtypes[domain.name] is DType.STRING for domain in mine)
    return mine if differs else tuple(varied(domain, dtypes[domain.name]) for domain in mine)
