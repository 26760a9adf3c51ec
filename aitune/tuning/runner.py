"""What runs a model: one session of one runtime, handed in by a frontend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from aitune.numerics.dtypes import Array

__all__ = ["Runner", "SelfTimed", "Timing"]

_DISTURBED = 0.03
"""A turn whose threads waited for a processor longer than this share of it is disturbed."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Some runs, one after the other.

    Attributes:
        seconds: What each of them took.
        waited_s: How long their threads were ready and had no processor, in seconds, all together; 0 where nobody
            knows.
    """

    seconds: Sequence[float]
    waited_s: float = 0.0

    @property
    def total_s(self) -> float:
        """All runs together."""
        return float(sum(self.seconds))

    @property
    def waiting(self) -> float:
        """The share of the time that was waiting."""
        return self.waited_s / max(self.total_s, 1e-9)

    @property
    def disturbed(self) -> bool:
        """Whether something else had the processor for so long that the times are not those of the model."""
        return self.waiting > _DISTURBED


@runtime_checkable
class Runner(Protocol):
    """A loaded model.

    A runner is used by one caller at a time. Asked twice for the same input, it is expected to give the same answer; a
    model that does not is found out by :func:`aitune.tuning.prove_batching`.
    """

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Every output of the model, by name.

        Args:
            inputs: Every input by name, full shapes, held as :func:`aitune.numerics.numpy_dtype` says. The arrays
                belong to the caller and may be read-only.

        Returns:
            Arrays that the next call does not overwrite.

        Raises:
            SourceError: If the runtime refuses the request or fails on it; the message is the runtime's own first
                line. Anything else that is raised is a bug and passes through.
        """
        ...

    def close(self) -> None:
        """Free what the session holds; a second call does nothing."""
        ...


@runtime_checkable
class SelfTimed(Protocol):
    """A runner that lives elsewhere and tells the time there, so that the way to it is not measured with it."""

    def time_runs(self, inputs: Mapping[str, Array], count: int) -> Timing:
        """Run one request ``count`` times.

        Raises:
            SourceError: As ``run`` does, and if what runs the model has died.
        """
        ...
