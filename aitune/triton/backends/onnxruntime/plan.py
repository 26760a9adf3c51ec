"""Which requests of a batch run together, what goes into a run, and what comes out of it for each request."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from .checks import dims_of
from .ragged import batch_input, scatter
from .signature import Signature
from .tensors import Array, as_scalar, joined, split, texts

__all__ = ["Plan"]

Arrays = dict[str, Array]


class Plan:
    """How the requests of one model are run.

    Args:
        config: The complete config.
        signature: The model's tensors.

    Attributes:
        batching: Whether requests are joined along a first axis.
        outputs: Names of the config's outputs, each once, in order.
    """

    def __init__(self, config: Mapping[str, Any], signature: Signature) -> None:
        self.batching = config.get("max_batch_size", 0) > 0
        inputs, outputs = config.get("input") or (), config.get("output") or ()
        tensors = {**signature.initializers, **signature.inputs}
        self.outputs = tuple(dict.fromkeys(entry["name"] for entry in outputs))
        self._dims = {entry["name"]: dims_of(entry) for entry in outputs}
        self._scalars = tuple(name for name, tensor in tensors.items() if not tensor.shape)
        self._texts = tuple(name for name, tensor in tensors.items() if tensor.data_type == "TYPE_STRING")
        self._ragged = frozenset(entry["name"] for entry in inputs if entry.get("allow_ragged_batch"))
        self._batch_inputs = tuple(config.get("batch_input") or ())
        self._sources = {
            name: entry["source_input"][0]
            for entry in config.get("batch_output") or ()
            for name in entry.get("target_name", ())
        }
        self._plain = not (self._scalars or self._texts or self._ragged or self._batch_inputs or self._sources)

    def groups(self, requests: Sequence[Arrays]) -> list[list[int]]:
        """Positions of the requests that can be joined, group by group; order is kept within a group."""
        if not self.batching:
            return [[position] for position in range(len(requests))]
        found: dict[Hashable, list[int]] = {}
        for position, arrays in enumerate(requests):
            found.setdefault(self._key(arrays), []).append(position)
        return list(found.values())

    def feeds(self, requests: Sequence[Arrays]) -> Arrays:
        """What the session is fed for a group of requests.

        Raises:
            ValueError: If a tensor cannot be given to the model.
        """
        first = requests[0]
        if len(requests) == 1 and self._plain:
            return first
        feeds = {name: self._joined(name, [arrays[name] for arrays in requests]) for name in first}
        for entry in self._batch_inputs:
            made = batch_input(entry, _shapes(requests, entry["source_input"][0]))
            feeds.update((name, made) for name in entry.get("target_name", ()))
        for name in self._scalars:
            if name in feeds:
                feeds[name] = as_scalar(feeds[name], name)
        for name in self._texts:
            if name in feeds:
                feeds[name] = texts(feeds[name])
        return feeds

    def parts(self, name: str, array: Array, requests: Sequence[Arrays]) -> Sequence[Array | str]:
        """For each request its part of an output; text in place of an array is the reason why there is none.

        Args:
            name: The output.
            array: What the model made of all requests together.
            requests: Those requests.
        """
        if name in self._sources:
            dims = (-1, *self._dims[name]) if self.batching else self._dims[name]
            return scatter(array, dims, _shapes(requests, self._sources[name]), name)
        if self.batching:
            return split(array, name, [_rows(arrays) for arrays in requests], self._dims.get(name, (1,)))
        return [array if array.ndim else array.reshape(self._dims.get(name, ()))]

    def _key(self, arrays: Arrays) -> Hashable:
        if self._plain:
            if len(arrays) == 1:
                return next(iter(arrays.values())).shape[1:]
            return frozenset((name, array.shape[1:]) for name, array in arrays.items())
        parts: list[Hashable] = []
        for name, array in arrays.items():
            if name in self._scalars:
                parts.append((name, array.tobytes()))
            elif name not in self._ragged:
                parts.append((name, array.shape[1:]))
        return frozenset(parts)

    def _joined(self, name: str, arrays: list[Array]) -> Array:
        if name in self._ragged:
            return joined([array.ravel() for array in arrays])
        return joined(arrays)


def _rows(arrays: Arrays) -> int:
    """How many rows of the batch a request holds: every input of a batching model says the same."""
    for array in arrays.values():
        return int(array.shape[0]) if array.ndim else 1
    return 1


def _shapes(requests: Sequence[Arrays], name: str) -> list[tuple[int, ...]]:
    return [arrays[name].shape for arrays in requests]
