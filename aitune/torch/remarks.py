"""What a person should know about a module that was observed: baked values, renamed outputs, where the batch is."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from aitune.records import TensorSpec
from aitune.torch.axes import Learned
from aitune.torch.forward import Forward
from aitune.torch.module.locator import Locator
from aitune.torch.names import output_names as names_of_outputs
from aitune.torch.program import ProgramModule
from aitune.torch.sampling import FlatSamples

__all__ = ["baked", "batch_elsewhere", "fixed_by_samples", "renames"]


def baked(forward: Forward, samples: FlatSamples) -> tuple[str, ...]:
    """A note on the values that become part of the graph."""
    bound = samples.template.put_together(samples.tensors[0])
    values = [(str(place), value) for place, value in samples.template.constants]
    values += forward.defaults_kept(bound)
    shown = ", ".join(f"{name}={value!r}" for name, value in values)
    return (f"built into the graph, being no tensors: {shown}",) if values else ()


def renames(places: Sequence[Locator], default: Sequence[str], final: Sequence[str]) -> tuple[str, ...]:
    """A note where an output could not keep the name that its place suggests."""
    natural = names_of_outputs(places)
    return tuple(
        f"output {plain!r} is called {name!r}, because an input has that name"
        for plain, name, chosen in zip(natural, default, final, strict=True)
        if plain != name and chosen == name
    )


def fixed_by_samples(module: nn.Module, places: Sequence[Locator], specs: Sequence[TensorSpec]) -> tuple[str, ...]:
    """A note on axes that an exported program leaves dynamic and that have one size in its samples."""
    if not isinstance(module, ProgramModule):
        return ()
    return tuple(
        f"axis {axis} of input {spec.name!r} is dynamic in the program and fixed here, having one size in the samples: "
        "give more of them, or --max-shape"
        for place, spec in zip(places, specs, strict=True)
        for axis in module.dynamic_axes.get(str(place.path), ())
        if isinstance(spec.shape[axis], int)
    )


def batch_elsewhere(inputs: Sequence[str], outputs: Sequence[str], learned: Learned) -> str:
    """Where the batch is in tensors that have it on another axis than 0; empty when there are none."""
    axes = [(f"input {inputs[index]!r}", axis) for one in learned.symbols if one.batch for index, axis in one.axes]
    for name, (_, spec) in zip(outputs, learned.outputs.tensor_data, strict=True):
        rows = [axis for axis, multiplier in spec.get_batch_axis_multipliers().items() if multiplier == 1]
        axes.append((f"output {name!r}", min(rows, default=0)))
    return " and ".join(f"axis {axis} of {what}" for what, axis in axes if axis)
