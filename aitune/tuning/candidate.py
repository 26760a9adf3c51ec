"""What could be served: the same model under settings that may be faster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from aitune.tuning.runner import Runner

__all__ = ["Candidate"]


class Candidate(Protocol):
    """One way to run the model.

    Candidates are handed in simplest first: among equally fast ones the earlier is chosen. The first is the baseline,
    whose answers all others must give.

    Attributes:
        name: Short and unique, e.g. ``"default"`` or ``"threads-2"``.
        settings: What Triton must carry in ``parameters`` to run it the same way; may be empty.
    """

    @property
    def name(self) -> str:
        """Short and unique."""
        ...

    @property
    def settings(self) -> Mapping[str, str]:
        """Triton ``parameters``."""
        ...

    def open(self) -> Runner:
        """A new runner, which the caller closes.

        Several candidates are open at once while they are measured in turns, so a runner should not keep processors
        busy between runs.

        Raises:
            SourceError: If the runtime cannot load the model under these settings.
        """
        ...
