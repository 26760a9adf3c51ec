"""Random inputs that a module accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from aitune.numerics.domains import varied
from aitune.numerics.synthetic import synthetic_inputs
from aitune.records import TensorSpec
from aitune.records.evidence import InputDomain
from aitune.torch.arrays import to_tensor

__all__ = ["accepted_domains", "draw"]

Tensors = tuple[torch.Tensor, ...]
Shapes = Mapping[str, tuple[int, ...]]
Domains = tuple[InputDomain, ...]

_SEED = 7


def draw(
    inputs: Sequence[TensorSpec], domains: Sequence[InputDomain], shapes: Shapes, seed: int, device: torch.device
) -> Tensors:
    """Random inputs of the given shapes; a float that was the same everywhere in the samples is varied a little."""
    ranges = [
        varied(domain, spec.dtype) if spec.dtype.is_floating else domain
        for domain, spec in zip(domains, inputs, strict=True)
    ]
    arrays = synthetic_inputs(inputs, ranges, shapes, seed)
    return tuple(to_tensor(arrays[spec.name], spec.dtype, device) for spec in inputs)


def accepted_domains(
    inputs: Sequence[TensorSpec],
    domains: Domains,
    shapes: Sequence[Shapes],
    run: Callable[[Tensors], object | None],
    device: torch.device,
) -> tuple[Domains, tuple[str, ...]]:
    """The domains, narrowed until the module takes random values from them at every shape; and notes.

    Whole numbers that mean something together (lengths, offsets, indices) may be valid in the samples and refused at
    random. Such an input is narrowed to the smallest or the largest value it had.

    Args:
        inputs: The inputs.
        domains: Ranges that the samples had.
        shapes: Shapes to try.
        run: Runs the module; None when it refuses.
        device: Where the module is.
    """
    for attempt in _attempts(inputs, domains):
        if all(run(draw(inputs, attempt, one, _SEED, device)) is not None for one in shapes):
            narrowed = [new for new, old in zip(attempt, domains, strict=True) if new != old]
            return attempt, tuple(
                f"input {one.name!r} is always {one.low:g} in made-up requests: the module refuses random values"
                for one in narrowed
            )
    return domains, ("the module refuses random values within the range that the samples had",)


def _attempts(inputs: Sequence[TensorSpec], domains: Domains) -> Iterator[Domains]:
    """The domains as they are; one whole-number input narrowed; all of them."""
    yield domains
    whole = [
        index
        for index, (spec, domain) in enumerate(zip(inputs, domains, strict=True))
        if spec.dtype.is_integer and domain.low < domain.high
    ]
    for chosen in [*([index] for index in whole), *([whole] if len(whole) > 1 else [])]:
        for end in ("low", "high"):
            yield tuple(
                replace(domain, low=getattr(domain, end), high=getattr(domain, end)) if index in chosen else domain
                for index, domain in enumerate(domains)
            )
