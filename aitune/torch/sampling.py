"""A user's samples as a list of flat tensors of one structure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from aitune.errors import SourceError
from aitune.torch.execution import call
from aitune.torch.forward import Forward
from aitune.torch.structure import Template, take_apart

__all__ = ["MAX_SAMPLES", "FlatSamples", "collect", "flatten"]

MAX_SAMPLES = 64
"""So many samples are looked at; what is learned from more of them is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatSamples:
    """Samples of one structure.

    Attributes:
        template: Everything about them that is no tensor.
        tensors: Per sample its tensors, in the order of the template.
        notes: What a person should know.
    """

    template: Template
    tensors: tuple[tuple[torch.Tensor, ...], ...]
    notes: tuple[str, ...] = ()


def collect(samples: Any) -> list[Any]:
    """The samples one by one.

    A dict, a tensor or a tuple with tensors is one sample; anything else that can be iterated holds many. No more than
    :data:`MAX_SAMPLES` are taken, so an endless generator is welcome.

    Raises:
        SourceError: If there are none, or iterating raises.
    """
    if isinstance(samples, Mapping | torch.Tensor) or (
        isinstance(samples, tuple) and any(isinstance(part, torch.Tensor) for part in samples)
    ):
        return [samples]
    if not isinstance(samples, Iterable) or isinstance(samples, str | bytes):
        raise SourceError(
            f"samples must be a dict keyed by parameter of forward, or several of them, found {type(samples).__name__}"
        )
    found: list[Any] = call(lambda: list(itertools.islice(samples, MAX_SAMPLES)), what="taking the samples")
    if not found:
        raise SourceError("there are no samples", hint="give at least one dict keyed by parameter of forward")
    return found


def flatten(forward: Forward, samples: list[Any], device: torch.device) -> FlatSamples:
    """The tensors of the samples, checked to have one structure, on the module's device.

    Raises:
        SourceError: If a sample does not fit ``forward`` or is built differently from the first.
    """
    first: Template | None = None
    flat: list[tuple[torch.Tensor, ...]] = []
    moved: set[str] = set()
    for index, sample in enumerate(samples):
        what = f"sample {index}" if len(samples) > 1 else "the sample"
        template, tensors = take_apart(forward.bind(sample, what))
        if first is None:
            first = template
            if not tensors:
                raise SourceError(f"{what} holds no tensor", hint="give tensors for the parameters that are inputs")
        _check_structure(first, template, what)
        _check_kinds(template, flat[0] if flat else tensors, tensors, what)
        moved |= {str(tensor.device) for tensor in tensors if tensor.device != device}
        flat.append(tuple(tensor.detach().to(device) for tensor in tensors))
    notes = (f"samples were moved from {', '.join(sorted(moved))} to {device}, where the module is",) if moved else ()
    assert first is not None  # collect() refuses an empty list
    return FlatSamples(template=first, tensors=tuple(flat), notes=notes)


def _check_structure(first: Template, other: Template, what: str) -> None:
    if first.locators != other.locators:
        places, others = list(map(str, first.locators)), list(map(str, other.locators))
        missing = [place for place in places if place not in others]
        extra = [place for place in others if place not in places]
        found = f"lacks {missing[0]}" if missing else f"has {extra[0]} besides" if extra else "has another order"
        raise SourceError(f"{what} is built differently from sample 0: it {found}", hint="give every sample alike")
    ours, theirs = ({str(place): value for place, value in one.constants} for one in (first, other))
    for place in {**ours, **theirs}:
        if place not in ours or place not in theirs or not _equal(ours[place], theirs[place]):
            one, two = (repr(found[place]) if place in found else "absent" for found in (ours, theirs))
            raise SourceError(
                f"{place} is {one} in sample 0 and {two} in {what}",
                hint="a value that is no tensor becomes part of the graph: give the same one everywhere, or a tensor",
            )


def _equal(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


def _check_kinds(
    template: Template, first: tuple[torch.Tensor, ...], tensors: tuple[torch.Tensor, ...], what: str
) -> None:
    for place, expected, found in zip(template.locators, first, tensors, strict=True):
        if expected.ndim != found.ndim:
            raise SourceError(f"{place} has {expected.ndim} axes in sample 0 and {found.ndim} in {what}")
        if expected.dtype != found.dtype:
            raise SourceError(f"{place} is {expected.dtype} in sample 0 and {found.dtype} in {what}")
        if 0 in found.shape:
            raise SourceError(
                f"{place} is empty in {what}: shape {tuple(found.shape)}", hint="give sizes of at least 1"
            )
