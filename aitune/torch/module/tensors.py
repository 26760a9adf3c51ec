"""The tensors of a sample: places and specs side by side, put together in pairs only when somebody looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, TypeAlias

from aitune.torch.module.containers import ATOMS, AccessPath
from aitune.torch.module.leaves import walk
from aitune.torch.module.locator import Locator
from aitune.torch.module.tensor_spec import TensorSpec, spec_maker
from aitune.torch.module.unwalked import warn_of_hidden_tensors

__all__ = ["OtherData", "TensorData", "Tensors", "read_call"]

TensorData: TypeAlias = tuple[tuple[Locator, TensorSpec], ...]
OtherData: TypeAlias = tuple[tuple[Locator, object], ...]

_ATOMS = frozenset(ATOMS)


class Tensors:
    """Places and specs of the tensors of one sample, in walking order.

    Args:
        paths: The places.
        specs: What is known of each tensor; these objects learn.
        is_output: Whether a module returned the tensors.
    """

    __slots__ = ("_pairs", "is_output", "paths", "specs")

    def __init__(self, paths: list[AccessPath], specs: list[TensorSpec], is_output: bool) -> None:
        self.paths = paths
        self.specs = specs
        self.is_output = is_output
        self._pairs: TensorData | None = None

    @classmethod
    def of(cls, pairs: TensorData) -> Self:
        """The tensors of pairs that were made before, which are kept as they are."""
        tensors = cls([place.access_path for place, _ in pairs], [spec for _, spec in pairs], is_output=False)
        tensors._pairs = pairs
        return tensors

    @property
    def pairs(self) -> TensorData:
        """Place and spec of each tensor, always the same tuple."""
        if self._pairs is None:
            is_output = self.is_output
            self._pairs = tuple([(Locator(path, is_output), spec) for path, spec in zip(self.paths, self.specs)])  # noqa: B905
        return self._pairs

    def and_more(self, new: Mapping[Locator, TensorSpec]) -> Tensors:
        """These tensors with others behind them, of which the specs are copied."""
        return Tensors.of((*self.pairs, *((place, spec.copy()) for place, spec in new.items())))


def read_call(data: object, strict: bool, batch_size: float, is_output: bool) -> tuple[Tensors, OtherData]:
    """The tensors and, where strict, the other leaves of what a module is called with or returns."""
    spec_of = spec_maker(batch_size)
    paths: list[AccessPath] = []
    specs: list[TensorSpec] = []
    others: list[tuple[Locator, object]] = []
    for path, value, is_tensor in walk(data):
        if is_tensor:
            paths.append(path)
            specs.append(spec_of(value))  # type: ignore[arg-type]  # the walk says it is a tensor
            continue
        if strict:
            others.append((Locator(path, is_output), value))
        if type(value) not in _ATOMS:
            warn_of_hidden_tensors(value)
    return Tensors(paths, specs, is_output), tuple(others)
