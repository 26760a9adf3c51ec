"""Sample metadata that is equal only for equal shapes."""

from __future__ import annotations

from typing import Self

from aitune.torch.module.batch_axes import NAN
from aitune.torch.module.sample_metadata import SampleMetadata

__all__ = ["ExactSampleMetadata"]


class ExactSampleMetadata(SampleMetadata):
    """Metadata of one call whose shapes count: calls that differ in any size are told apart.

    Always strict, never of a phase, and with no batch size.
    """

    @classmethod
    def from_inputs(cls, inputs: object, strict: bool = True, batch_size: float | None = None) -> Self:
        """The metadata of one call's arguments; ``strict`` and ``batch_size`` are taken for likeness and not used."""
        del strict, batch_size
        learned = SampleMetadata.from_inputs(inputs, strict=True, batch_size=NAN)
        return cls(learned.tensor_data, learned.other_data, strict=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactSampleMetadata) or type(other) is not type(self):
            return NotImplemented
        return self._shapes() == other._shapes() and super().__eq__(other)

    def __hash__(self) -> int:
        return hash((frozenset(self._shapes().items()), super().__hash__()))

    def _shapes(self) -> dict[object, tuple[object, ...]]:
        return {locator: tuple(spec.shape) for locator, spec in self.tensor_data}
