"""What a module does on its own samples: what it returns, what it changes, and whether it does so twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from aitune.errors import SourceError
from aitune.torch.arrays import dtype_of
from aitune.torch.execution import call, close, same
from aitune.torch.flat import FlatModule
from aitune.torch.forward import Forward
from aitune.torch.module.locator import Locator
from aitune.torch.names import output_names as names_of_outputs
from aitune.torch.opaque import is_cache, left_out
from aitune.torch.sampling import FlatSamples

__all__ = ["answer_of", "answer_or_none", "first_runs"]


def first_runs(
    module: nn.Module, forward: Forward, samples: FlatSamples, names: Sequence[str]
) -> tuple[FlatModule, tuple[tuple[torch.Tensor, ...], ...], tuple[str, ...]]:
    """The answers to all samples, and what the module does beside answering."""
    probe = FlatModule(module, forward, samples.template)
    what = f"forward of {forward.owner}"
    before = samples.tensors[0]
    given = tuple(tensor.clone() for tensor in before)
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    result = call(probe.original, *given, what=f"{what} on sample 0")
    changed = [index for index, tensor in enumerate(given) if not same(tensor, before[index])]
    state = [name for name, buffer in module.named_buffers() if not same(buffer, buffers[name])]
    results, hidden = _results(result, what)
    flat = FlatModule(module, forward, samples.template, results, changed)
    answers = tuple(
        answer_of(flat, tensors, f"{what} on sample {index}") for index, tensors in enumerate(samples.tensors)
    )
    for name, tensor in zip(names_of_outputs(results), answers[0], strict=True):
        dtype_of(tensor, f"output {name!r}")
    _check_alike(names_of_outputs(results), answers, what)
    _check_steady(flat, before, what, state)
    notes = [f"forward changes input {names[index]!r} in place: the caller does not see that" for index in changed]
    notes += [f"forward changes buffer {name!r}: the exported model keeps no state between runs" for name in state]
    return flat, answers, (*notes, *hidden, *_not_numbers(flat.results, answers, what))


def _check_alike(names: Sequence[str], answers: Sequence[Sequence[torch.Tensor]], what: str) -> None:
    """Refuse answers that have another number of axes, or another element type, than the first."""
    for number, answer in enumerate(answers):
        for name, first, tensor in zip(names, answers[0], answer, strict=True):
            if (first.ndim, first.dtype) != (tensor.ndim, tensor.dtype):
                raise SourceError(
                    f"{what} gives {name!r} as {_kind(first)} for sample 0 and as {_kind(tensor)} for sample {number}",
                    hint="name the axis where forward squeezes, e.g. squeeze(-1) instead of squeeze()",
                )


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} with {tensor.ndim} axes"


def answer_or_none(
    flat: FlatModule, tensors: Sequence[torch.Tensor], like: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...] | None:
    """The answer to flat tensors; None when the module refuses them, or answers with other axes or element types."""
    try:
        answer = answer_of(flat, tensors, "forward")
    except SourceError:
        return None
    kinds = [(tensor.ndim, tensor.dtype) for tensor in answer]
    return answer if kinds == [(tensor.ndim, tensor.dtype) for tensor in like] else None


def answer_of(flat: FlatModule, tensors: Sequence[torch.Tensor], what: str) -> tuple[torch.Tensor, ...]:
    """The answer to flat tensors.

    Raises:
        SourceError: If the module refuses them, or returns another structure than it did first.
    """
    answer: tuple[torch.Tensor, ...] = call(flat, *tensors, what=what)
    if not all(isinstance(tensor, torch.Tensor) for tensor in answer):
        raise SourceError(f"{what} returned another structure than for sample 0")
    return answer


def _results(result: Any, what: str) -> tuple[tuple[Locator, ...], tuple[str, ...]]:
    """Where the tensors are in what a module returned, and a note on everything else in it."""
    leaves = list(Locator.find_leaves(result, is_output=True))
    tensors = tuple(place for place, leaf in leaves if isinstance(leaf, torch.Tensor))
    if not tensors:
        raise SourceError(
            f"{what} returned no tensor, found {'None' if result is None else type(result).__name__}",
            hint="return a tensor, or a dict, tuple or dataclass of tensors",
        )
    hidden = list(left_out(result))
    places = {place for place, _ in hidden}
    others = [
        (place, leaf)
        for place, leaf in leaves
        if not isinstance(leaf, torch.Tensor) and leaf is not None and place not in places
    ]
    notes = [f"{place} is a {type(part).__name__}: its tensors are left out{_advice(part)}" for place, part in hidden]
    notes += [f"{place} is a {type(leaf).__name__}, not a tensor: it is left out" for place, leaf in others]
    return tensors, tuple(notes)


def _advice(part: object) -> str:
    return ", every call begins anew (use_cache=False saves the work)" if is_cache(part) else ""


def _check_steady(flat: FlatModule, tensors: Sequence[torch.Tensor], what: str, state: Sequence[str]) -> None:
    """Refuse a module whose answers to one sample differ from run to run."""
    one, other = (answer_of(flat, tensors, what) for _ in range(2))
    for name, first, second in zip(names_of_outputs(flat.results), one, other, strict=True):
        if not close(first, second):
            reason = f"it changes its buffer {state[0]!r}" if state else "it draws random numbers in eval mode"
            raise SourceError(
                f"{what} gives another {name!r} for the same sample in a second run: {reason}",
                hint="switch dropout and sampling off, e.g. F.dropout(..., training=self.training)",
            )


def _not_numbers(places: Sequence[Locator], answers: Sequence[Sequence[torch.Tensor]], what: str) -> tuple[str, ...]:
    """A note on outputs with NaN among their values.

    Raises:
        SourceError: If an output is nothing but NaN.
    """
    notes = []
    for index, name in enumerate(names_of_outputs(places)):
        nan = [tensor[index].isnan() for tensor in answers if tensor[index].is_floating_point()]
        if nan and all(bool(part.all()) for part in nan):
            raise SourceError(f"{what} returns nothing but NaN in {name!r} for every sample")
        if any(bool(part.any()) for part in nan):
            notes.append(f"output {name!r} has NaN among its values for the samples")
    return tuple(notes)
