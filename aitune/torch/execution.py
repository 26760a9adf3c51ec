"""Running a user's module without leaving a trace: eval mode, inference mode, and everything restored."""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from aitune.errors import AituneError, SourceError

__all__ = ["call", "close", "device_of", "one_line", "same", "settled"]

_TORCH_FOLDER = Path(torch.__file__).resolve().parent


def device_of(module: nn.Module) -> torch.device:
    """The one device that a module's parameters and buffers are on; the CPU when it has none.

    Raises:
        SourceError: If they are on several devices, on none (meta), or not initialised yet.
    """
    found: dict[torch.device, str] = {}
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if torch.nn.parameter.is_lazy(tensor):
            raise SourceError(
                f"parameter {name!r} of {type(module).__name__} is not initialised yet",
                hint="run the module once before handing it over",
            )
        found.setdefault(tensor.device, name)
    if len(found) > 1:
        places = ", ".join(f"{name!r} on {device}" for device, name in found.items())
        raise SourceError(
            f"the parameters of {type(module).__name__} are on several devices: {places}",
            hint="move the module to one device with module.to(...)",
        )
    device = next(iter(found), torch.device("cpu"))
    if device.type == "meta":
        raise SourceError(
            f"the parameters of {type(module).__name__} are on the meta device: they have no values",
            hint="load the weights first",
        )
    return device


@contextmanager
def settled(module: nn.Module) -> Iterator[None]:
    """Eval mode inside; training flags, buffers and random states as they were afterwards."""
    flags = [(part, part.training) for part in module.modules()]
    buffers = {name: (buffer, buffer.clone()) for name, buffer in module.named_buffers()}
    python_state, numpy_state = random.getstate(), np.random.get_state()
    devices = [device_of(module)] if device_of(module).type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        for part, _ in flags:
            part.training = False
        try:
            yield
        finally:
            for part, training in flags:
                part.training = training
            _restore_buffers(buffers)
            random.setstate(python_state)
            np.random.set_state(numpy_state)


def _restore_buffers(buffers: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.no_grad():
        for buffer, before in buffers.values():
            if not same(buffer, before):
                buffer.copy_(before)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal bit for bit as far as values go; NaN equals NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.is_floating_point() or one.is_complex():
        return bool(torch.allclose(one, other, rtol=0.0, atol=0.0, equal_nan=True))
    return bool(torch.equal(one, other))


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal but for rounding; NaN equals NaN."""
    if one.shape != other.shape:
        return False
    if one.is_floating_point() or one.is_complex():
        return bool(torch.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True))
    return bool(torch.equal(one, other))


def call(function: Any, *args: Any, what: str, **kwargs: Any) -> Any:
    """What a user's function returns, under inference mode.

    Raises:
        SourceError: If it raises, with the type and message of the error and where in the user's files it was raised.
    """
    try:
        with torch.inference_mode():
            return function(*args, **kwargs)
    except AituneError:
        raise
    except Exception as error:
        raise SourceError(f"{what} raised {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Type, first line of the message and innermost line of the user's own code: ``ValueError: no (model.py:12)``."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
    place = _user_line(error)
    return f"{text} ({place})" if place else text


def _user_line(error: BaseException) -> str:
    """``file.py:12`` of the innermost frame outside of torch and of this package; empty when there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        ours = path.parent == Path(__file__).parent
        if path.exists() and not ours and not path.resolve().is_relative_to(_TORCH_FOLDER):
            return f"{path.name}:{frame.lineno}"
    return ""
