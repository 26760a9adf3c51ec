"""Prefill or decode: which phase of text generation a call belongs to."""

from __future__ import annotations

import torch

from aitune.torch.module.containers import LIST, children, kind_of
from aitune.torch.module.leaves import walk

__all__ = ["CACHE_POSITION", "PHASES", "phase_of", "phase_of_inputs"]

CACHE_POSITION = "cache_position"
"""The forward parameter that tells the phase."""

PHASES = ("prefill", "decode")


def phase_of(cache_position: object) -> str | None:
    """``"prefill"`` where the first position is 0, ``"decode"`` elsewhere, None where there is no position to read.

    Reading it is one wait for the device.
    """
    if not isinstance(cache_position, torch.Tensor) or not _is_readable(cache_position):
        return None
    return PHASES[0] if cache_position.flatten()[0].item() == 0 else PHASES[1]


def _is_readable(tensor: torch.Tensor) -> bool:
    abstract = tensor.is_meta or hasattr(tensor, "fake_mode")
    return not abstract and not tensor.is_nested and tensor.layout is torch.strided and tensor.numel() > 0


def phase_of_inputs(inputs: object) -> str | None:
    """The phase that the last leaf below the parameter ``cache_position`` tells."""
    kind = kind_of(type(inputs))
    if kind < LIST:
        return None
    last: object = None
    for name, part in children(inputs, kind):
        if name == CACHE_POSITION:
            for _, value, _ in walk(part):
                last = value
    return phase_of(last)
