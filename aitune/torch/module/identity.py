"""What makes two metadata the same: places and ranks of the tensors, places and values of everything else."""

from __future__ import annotations

from collections.abc import Sequence

from aitune.torch.module.leaf_values import leaf_key
from aitune.torch.module.locator import Locator
from aitune.torch.module.tensors import Tensors

__all__ = ["Identity"]


class Identity:
    """A snapshot to compare and hash; learning changes none of what is in it.

    Args:
        tensors: Places and specs of the tensors.
        other_data: Places and values of the rest.
    """

    __slots__ = ("_hash", "others", "paths", "ranks")

    def __init__(self, tensors: Tensors, other_data: Sequence[tuple[Locator, object]]) -> None:
        self.paths = tensors.paths
        self.ranks = [len(spec.shape) for spec in tensors.specs]
        self.others = [(locator.access_path, leaf_key(value)) for locator, value in other_data]

    def same_tensors(self, other: Identity) -> bool:
        """Whether the tensors sit at the same places, in the same order, with the same ranks."""
        return self.paths == other.paths and self.ranks == other.ranks

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return NotImplemented
        if self.same_tensors(other) and self.others == other.others:
            return True
        if len(self.paths) != len(other.paths) or len(self.others) != len(other.others):
            return False
        tensors = dict(zip(self.paths, self.ranks, strict=True)) == dict(zip(other.paths, other.ranks, strict=True))
        return tensors and dict(self.others) == dict(other.others)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            tensors = frozenset(zip(self.paths, self.ranks, strict=True))
            self._hash: int = hash((tensors, frozenset(self.others)))
            return self._hash
