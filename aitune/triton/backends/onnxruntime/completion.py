"""What a config leaves out, completed from the model as the C++ backend completes it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .failures import LoadError
from .signature import Signature, Tensor

__all__ = ["can_batch", "complete", "default_max_batch_size", "is_wanted"]

_FALLBACK = 4  # what Triton's core hands every backend when nothing was said
_OPTION = re.compile(r"(?:(?P<backend>[^,]*),)?default-max-batch-size=(?P<size>-?\d+)$")


def is_wanted(config: Mapping[str, Any]) -> bool:
    """Whether anything is to be completed: no inputs at all, or no outputs at all."""
    inputs = len(config.get("input") or ()) + len(config.get("batch_input") or ())
    return not inputs or not config.get("output")


def can_batch(signature: Signature) -> bool:
    """Whether every input and output has a dynamic first axis."""
    tensors = (*signature.inputs.values(), *signature.outputs.values())
    return all(tensor.shape[:1] == (-1,) for tensor in tensors)


def complete(config: dict[str, Any], signature: Signature, *, default_size: int) -> None:
    """Fill in what is missing, in place.

    Args:
        config: The config as Triton's core left it.
        signature: The model's tensors.
        default_size: ``max_batch_size`` for a model that can batch and whose config does not say.

    Raises:
        LoadError: If the config wants batches and the model cannot form them.
    """
    if can_batch(signature):
        if not config.get("max_batch_size"):
            config["max_batch_size"] = max(default_size, 0)
        schedulers = ("dynamic_batching", "sequence_batching")
        if config["max_batch_size"] > 1 and not any(key in config for key in schedulers):
            config["dynamic_batching"] = {}
    elif config.get("max_batch_size"):
        raise LoadError(
            f"autofill failed for model '{config['name']}': model does not support batching while non-zero "
            "max_batch_size is specified"
        )
    batching = config.get("max_batch_size", 0) > 0
    if not config.get("input") and not config.get("batch_input"):
        config["input"] = [_entry(name, tensor, batching=batching) for name, tensor in signature.inputs.items()]
    if not config.get("output"):
        config["output"] = [_entry(name, tensor, batching=batching) for name, tensor in signature.outputs.items()]


def default_max_batch_size() -> int:
    """The server's ``default-max-batch-size`` for this backend, from the command line of our parent.

    Triton hands backend options to C++ backends only.
    """
    try:
        command = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
    except OSError:
        return _FALLBACK
    return size_in_command(command.decode("utf-8", errors="replace").split("\0"))


def size_in_command(arguments: list[str]) -> int:
    """The size that a server's arguments ask for; an option for this backend wins over one for all.

    >>> size_in_command(["--backend-config=onnxruntime,default-max-batch-size=16"])
    16
    """
    values = (argument.removeprefix("--backend-config=") for argument in arguments)
    found = [match for value in values if (match := _OPTION.match(value))]
    sizes = {match["backend"] or "": int(match["size"]) for match in found}
    return sizes.get("onnxruntime", sizes.get("", _FALLBACK))


def _entry(name: str, tensor: Tensor, *, batching: bool) -> dict[str, Any]:
    dims = list(tensor.shape[1:] if batching else tensor.shape)
    entry: dict[str, Any] = {"name": name, "data_type": tensor.data_type or "TYPE_INVALID", "dims": dims or [1]}
    if not dims and batching:
        entry["reshape"] = {"shape": []}
    return entry
