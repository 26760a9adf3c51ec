"""What could be served: the same model under settings that may be faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from aitune.tuning.runner import Runner

__all__ = ["Candidate", "Launch", "Makes", "open_here"]


class Candidate(Protocol):
    """One way to run the model.

    Candidates are handed in simplest first: among equally fast ones the earlier is chosen. The first is the baseline,
    whose answers all others must give.

    Attributes:
        name: Short and unique, e.g. ``"default"`` or ``"threads-2"``.
        settings: What Triton must carry in ``parameters`` to run it the same way; may be empty.
        precision: What it computes in: ``"fp32"`` for the model's own numbers, whatever they are.
        model_file: The model file that it runs where that is one of its own; None for the one that all share. It is
            made no later than by :meth:`open`.
    """

    @property
    def name(self) -> str:
        """Short and unique."""
        ...

    @property
    def settings(self) -> Mapping[str, str]:
        """Triton ``parameters``."""
        ...

    @property
    def precision(self) -> str:
        """What it computes in."""
        ...

    @property
    def model_file(self) -> Path | None:
        """Its own model file."""
        ...

    def open(self) -> Runner:
        """A new runner, which the caller closes.

        Several candidates are open at once while they are measured in turns, so a runner should not keep processors
        busy between runs.

        Raises:
            SourceError: If the runtime cannot load the model under these settings.
        """
        ...


@runtime_checkable
class Makes(Protocol):
    """A candidate whose model file is made before it is opened, in more time than opening it takes."""

    def prepare(self) -> None:
        """Make the file, unless it is there or there is none of its own.

        Raises:
            SourceError: If it cannot be made.
        """
        ...


Launch = Callable[[Candidate], Runner]
"""Opens a candidate for measuring, e.g. in a process of its own, which may crash without harm."""


def open_here(candidate: Candidate) -> Runner:
    """Open a candidate in this process."""
    return candidate.open()
