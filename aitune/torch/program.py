"""A ``torch.export`` program as a module that takes its arguments by the names they had."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

__all__ = ["ProgramModule", "samples_of"]


class ProgramModule(nn.Module):
    """The module of a program, with a ``forward`` that says what must go by position and what by keyword.

    PyTorch lets a program be called only as it was exported, and does not say so in the signature.

    Args:
        program: The program.

    Attributes:
        dynamic_axes: Axes that the program leaves dynamic, by parameter.
    """

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        super().__init__()
        self.program = program.module()
        self.dynamic_axes = _dynamic_axes(program)
        call = _call(self.program)
        call.__signature__ = _signature(program, self.program)
        self.forward = call


def _dynamic_axes(program: torch.export.ExportedProgram) -> dict[str, tuple[int, ...]]:
    """By name of the graph's own input, which for a tensor that is a parameter is that of the parameter."""
    found = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    return {
        name: tuple(axis for axis, size in enumerate(value.shape) if type(size) is not int)
        for name, value in found.items()
        if isinstance(value, torch.Tensor)
    }


def _call(module: nn.Module) -> Any:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return module(*args, **kwargs)

    return forward


def _signature(program: torch.export.ExportedProgram, module: nn.Module) -> inspect.Signature:
    spec = program.call_spec.in_spec
    names = list(inspect.signature(module.forward).parameters)
    positional = 0 if spec is None else spec.child(0).num_children
    return inspect.Signature(
        [
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_ONLY if at < positional else inspect.Parameter.KEYWORD_ONLY
            )
            for at, name in enumerate(names)
        ]
    )


def samples_of(program: torch.export.ExportedProgram, module: ProgramModule) -> tuple[dict[str, Any], ...]:
    """The inputs a program was exported with as its only sample; nothing when it has forgotten them."""
    if program.example_inputs is None:
        return ()
    args, kwargs = program.example_inputs
    names = inspect.signature(module.forward).parameters
    return ({**dict(zip(names, args, strict=False)), **kwargs},)
