"""What running a module on its samples shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from aitune.errors import SourceError, UsageError
from aitune.numerics.domains import observe_domains
from aitune.records import TensorSpec
from aitune.records.evidence import InputDomain
from aitune.torch.arrays import dtype_of, to_array
from aitune.torch.asking import Asking, Range
from aitune.torch.axes import Learned, learn
from aitune.torch.domains import accepted_domains
from aitune.torch.execution import device_of, settled
from aitune.torch.first_runs import answer_of, answer_or_none, first_runs
from aitune.torch.flat import FlatModule
from aitune.torch.forward import Forward
from aitune.torch.module.sample_metadata import SampleMetadata
from aitune.torch.moving import check_moved, find_moves, moved_places
from aitune.torch.names import input_names as names_of_inputs
from aitune.torch.names import output_names as names_of_outputs
from aitune.torch.names import renamed
from aitune.torch.program import ProgramModule
from aitune.torch.remarks import baked, batch_elsewhere, fixed_by_samples, renames
from aitune.torch.sampling import FlatSamples, collect, flatten
from aitune.torch.symbols import Symbol

__all__ = ["Observation", "observe"]

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A module, its samples, and what was learned from running it on them.

    Attributes:
        flat: The module as a function of flat tensors.
        device: Where it is.
        inputs: Name, element type and shape of each input; a string in a shape is the name of a symbol.
        outputs: The same for each output; None in a shape is an axis whose size was seen to vary.
        symbols: The dynamic sizes of the inputs.
        domains: Which values are valid, per input.
        samples: Flat inputs, per sample.
        trace: A size for every symbol, to show an exporter.
        metadata: What SampleMetadata learned about inputs and outputs.
        notes: What a person should know: what is baked in, renamed, left out.
        batch_elsewhere: Which tensors have their batch on another axis than 0, where no server sees it; for messages.
    """

    flat: FlatModule
    device: torch.device
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    symbols: tuple[Symbol, ...]
    domains: tuple[InputDomain, ...]
    samples: tuple[tuple[torch.Tensor, ...], ...]
    trace: Mapping[str, int]
    metadata: tuple[SampleMetadata, SampleMetadata]
    notes: tuple[str, ...]
    batch_elsewhere: str = ""

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The shape of every input when its symbols have these sizes."""
        return shapes_at(self.inputs, sizes)

    def fits(self, sample: Sequence[torch.Tensor]) -> bool:
        """Whether flat tensors have every size that is fixed."""
        return all(
            isinstance(dim, str) or dim == size
            for spec, tensor in zip(self.inputs, sample, strict=True)
            for dim, size in zip(spec.shape, tensor.shape, strict=True)
        )


def observe(
    module: nn.Module,
    samples: Any,
    *,
    input_names: Sequence[str] | Mapping[str, str] | None = None,
    output_names: Sequence[str] | Mapping[str, str] | None = None,
    min_shapes: Shapes | None = None,
    opt_shapes: Shapes | None = None,
    max_shapes: Shapes | None = None,
    max_batch_size: int | None = None,
    move_batch_axis: bool = False,
) -> Observation:
    """Run a module on its samples and learn its inputs, outputs and dynamic axes.

    The module runs in eval mode under inference mode, on its own device; training flags, buffers and random states are
    restored. An axis that varies across the samples is dynamic. If they show one batch size only, the module is asked
    about others.

    Args:
        module: The module; a ``torch.export`` program is welcome.
        samples: A dict keyed by parameter of ``forward``, possibly nested; or an iterable of them. A tensor or a tuple
            with tensors is taken by position.
        input_names: New names for the inputs, all in order or a mapping from the default ones.
        output_names: The same for outputs.
        min_shapes: Smallest full shape by input name, instead of what the samples show.
        opt_shapes: Typical full shape by input name.
        max_shapes: Largest full shape by input name; an axis that no sample varied becomes dynamic by it.
        max_batch_size: Largest batch to serve.
        move_batch_axis: Whether a batch on another axis than the first is moved there, in every input and output.
            Shapes that are given are those of the module all the same.

    Raises:
        SourceError: If the samples do not fit, the module raises, or its answers are of no use.
        UsageError: If a name or a shape that was asked for makes no sense.
        BatchingError: If the batch axis is to be moved, and there is none in every tensor.
    """
    module = as_module(module)
    device = device_of(module)
    forward = Forward.of(module)
    flat_samples = flatten(forward, collect(samples), device)
    names = renamed(names_of_inputs(flat_samples.template.locators), input_names, "input")
    for name, tensor in zip(names, flat_samples.tensors[0], strict=True):
        dtype_of(tensor, f"input {name!r}")
    ranges = _ranges(names, flat_samples, min_shapes, opt_shapes, max_shapes)
    with settled(module):
        flat, answers, notes = first_runs(module, forward, flat_samples, names)
        asking = Asking(
            names=names,
            template=flat_samples.template,
            samples=flat_samples.tensors,
            answers=answers,
            run=lambda tensors: answer_or_none(flat, tensors, answers[0]),
            ranges=ranges,
            max_batch_size=max_batch_size,
        )
        asking, learned, moved = _learn(asking, flat, move=move_batch_axis)
        flat_samples = replace(flat_samples, tensors=asking.samples)
        specs = _input_specs(names, flat_samples, learned)
        domains, narrowed = accepted_domains(
            specs,
            _domains(specs, flat_samples, learned),
            [_shapes(specs, learned, "low"), _shapes(specs, learned, "typical")],
            lambda tensors: answer_or_none(flat, tensors, answers[0]),
            device,
        )
    default_outputs = names_of_outputs(flat.results, names)
    outputs = renamed(default_outputs, output_names, "output")
    if clash := sorted(set(names) & set(outputs)):
        raise UsageError(f"{clash[0]!r} is the name of an input and of an output", hint="choose another output name")
    elsewhere = batch_elsewhere(names, outputs, learned)
    return Observation(
        flat=flat,
        device=device,
        inputs=specs,
        outputs=_output_specs(outputs, asking.answers[0], learned),
        symbols=learned.symbols,
        domains=domains,
        samples=flat_samples.tensors,
        trace=learned.trace,
        metadata=(learned.inputs, learned.outputs),
        notes=(
            *flat_samples.notes,
            *baked(forward, flat_samples),
            *notes,
            *learned.notes,
            *moved,
            *([f"the batch lies on {elsewhere}: --move-batch-axis moves it to axis 0"] if elsewhere else []),
            *narrowed,
            *fixed_by_samples(module, flat_samples.template.locators, specs),
            *renames(flat.results, default_outputs, outputs),
        ),
        batch_elsewhere=elsewhere,
    )


def as_module(module: Any) -> nn.Module:
    """The module to run.

    Raises:
        SourceError: If it is no module and no ``torch.export`` program.
    """
    if isinstance(module, torch.export.ExportedProgram):
        return ProgramModule(module)
    if isinstance(module, torch.jit.ScriptModule):
        raise SourceError(
            f"a model must be a Python torch.nn.Module, found a scripted {module.original_name}",
            hint="hand over the module before torch.jit.script or torch.jit.trace",
        )
    if not isinstance(module, nn.Module):
        raise SourceError(f"a model must be a torch.nn.Module, found {type(module).__name__}")
    return module


def _learn(asking: Asking, flat: FlatModule, *, move: bool) -> tuple[Asking, Learned, tuple[str, ...]]:
    """What the module shows, its batch moved to axis 0 where that is wanted; and notes on that."""
    learned = learn(asking)
    if not move:
        return asking, learned, ()
    moves = find_moves(learned.symbols, asking.samples[0], asking.run)
    if not moves:
        return asking, learned, ("the batch lies on axis 0 of every tensor: nothing is moved",)
    flat.moves = moves
    samples = tuple(map(moves.served, asking.samples))
    answers = tuple(answer_of(flat, tensors, "forward") for tensors in samples)
    check_moved(moves, asking.answers, answers)
    asking = replace(asking, samples=samples, answers=answers, ranges=moved_places(moves, asking.ranges))
    return asking, learn(asking), moves.notes(asking.names, names_of_outputs(flat.results, asking.names))


def _ranges(
    names: Sequence[str],
    samples: FlatSamples,
    min_shapes: Shapes | None,
    opt_shapes: Shapes | None,
    max_shapes: Shapes | None,
) -> dict[tuple[int, int], Range]:
    """What the user wants, by (input, axis).

    Raises:
        UsageError: If an input is unknown, a shape has another rank, or the sizes are out of order.
    """
    wanted: dict[tuple[int, int], dict[str, int]] = {}
    for part, shapes in (("low", min_shapes), ("typical", opt_shapes), ("high", max_shapes)):
        for name, shape in (shapes or {}).items():
            if name not in names:
                raise UsageError(f"there is no input {name!r} to give a shape to", hint=f"inputs: {', '.join(names)}")
            index = names.index(name)
            rank = samples.tensors[0][index].ndim
            if len(shape) != rank or any(size < 1 for size in shape):
                raise UsageError(f"the shape of input {name!r} needs {rank} sizes >= 1, got {tuple(shape)}")
            for axis, size in enumerate(shape):
                wanted.setdefault((index, axis), {})[part] = size
    for (index, axis), sizes in wanted.items():
        ordered = [sizes[part] for part in ("low", "typical", "high") if part in sizes]
        if ordered != sorted(ordered):
            raise UsageError(
                f"sizes of axis {axis} of input {names[index]!r} must not shrink from min to opt to max, got {ordered}"
            )
    return {place: Range(**sizes) for place, sizes in wanted.items()}


def _input_specs(names: Sequence[str], samples: FlatSamples, learned: Learned) -> tuple[TensorSpec, ...]:
    places = {place: symbol.name for symbol in learned.symbols for place in symbol.axes}
    return tuple(
        TensorSpec(
            name,
            dtype_of(tensor, f"input {name!r}"),
            tuple(places.get((index, axis), size) for axis, size in enumerate(tensor.shape)),
        )
        for index, (name, tensor) in enumerate(zip(names, samples.tensors[0], strict=True))
    )


def _output_specs(names: Sequence[str], answer: Sequence[torch.Tensor], learned: Learned) -> tuple[TensorSpec, ...]:
    """Outputs as they were seen; the exported file has the last word."""
    specs = dict(learned.outputs.tensor_data)
    dynamic = [spec.shape for spec in specs.values()]
    return tuple(
        TensorSpec(
            name,
            dtype_of(tensor, f"output {name!r}"),
            tuple(None if isinstance(dim, str) or dim < 1 else dim for dim in dims),
        )
        for name, tensor, dims in zip(names, answer, dynamic, strict=True)
    )


def _shapes(specs: Sequence[TensorSpec], learned: Learned, which: str) -> dict[str, tuple[int, ...]]:
    """The shape of every input where each symbol has its ``"low"``, ``"typical"`` or ``"high"`` size."""
    return shapes_at(specs, {symbol.name: getattr(symbol, which) for symbol in learned.symbols})


def shapes_at(specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shape of every input where its symbols have the given sizes."""
    return {
        spec.name: tuple(sizes[dim] if isinstance(dim, str) else int(dim or 1) for dim in spec.shape) for spec in specs
    }


def _domains(specs: Sequence[TensorSpec], samples: FlatSamples, learned: Learned) -> tuple[InputDomain, ...]:
    shapes = _shapes(specs, learned, "typical")
    arrays = [
        {spec.name: to_array(tensor) for spec, tensor in zip(specs, tensors, strict=True)}
        for tensors in samples.tensors
    ]
    return observe_domains(specs, shapes, arrays)
