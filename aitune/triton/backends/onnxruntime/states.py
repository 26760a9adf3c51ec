"""Sequence states: outputs of one request that are inputs of the next one of the same sequence.

A Python backend cannot hand a state back to Triton's core, so it is kept here. That works because the sequence batcher
sends a whole sequence to one instance. At the start of a sequence the core supplies the initial state itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .tensors import Array

__all__ = ["States"]

_START, _END = 1, 2


class States:
    """The states of all sequences that are under way in this instance.

    Args:
        entries: The config's ``sequence_batching.state``.
    """

    def __init__(self, entries: list[Mapping[str, Any]]) -> None:
        self._outputs = {entry["input_name"]: entry["output_name"] for entry in entries}
        self._kept: dict[Any, dict[str, Array]] = {}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs that are states, each once."""
        return tuple(dict.fromkeys(self._outputs.values()))

    def resume(self, request: Any, arrays: dict[str, Array]) -> None:
        """Put what the sequence left behind in place of the inputs that Triton sent, in place."""
        if request.flags() & _START:
            self._kept.pop(request.correlation_id(), None)
        arrays.update(self._kept.get(request.correlation_id(), {}))

    def keep(self, request: Any, made: Mapping[str, Any]) -> None:
        """Remember what a request left behind, until the sequence ends."""
        if request.flags() & _END:
            self._kept.pop(request.correlation_id(), None)
            return
        # Copies: the rows are views of a whole batch, which they would keep alive.
        self._kept[request.correlation_id()] = {name: made[output].copy() for name, output in self._outputs.items()}
