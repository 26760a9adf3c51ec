"""The candidates that are open, by name: each opened when it is first needed, and all closed in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Self

from aitune.errors import SourceError
from aitune.numerics import Array
from aitune.tuning.candidate import Candidate, Launch, Makes, open_here
from aitune.tuning.measure import Clock, Turn, timed
from aitune.tuning.runner import Runner, SelfTimed, Timing

__all__ = ["Pool"]


class Pool:
    """Open candidates; leaving the ``with`` block closes them.

    Args:
        candidates: Names unique.
        launch: Opens one.
        clock: Times runs of runners that do not time themselves.
        making: Entered while the files of candidates are made.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        launch: Launch = open_here,
        *,
        clock: Clock,
        making: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._candidates = {candidate.name: candidate for candidate in candidates}
        self._launch = launch
        self._clock = clock
        self._making = making
        self._open: dict[str, Runner] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._open):
            self.close(name)

    def make(self, name: str) -> None:
        """Make the file of a candidate, where it has one of its own that is not there.

        Raises:
            SourceError: If it cannot be made.
        """
        candidate = self._candidates[name]
        if isinstance(candidate, Makes):
            with self._making():
                candidate.prepare()

    def runner(self, name: str) -> Runner:
        """The runner of a candidate, opened now if it was not.

        Raises:
            SourceError: If the runtime cannot load the model under its settings.
        """
        if name not in self._open:
            self._open[name] = self._launch(self._candidates[name])
        return self._open[name]

    def turn(self, name: str, request: Mapping[str, Array]) -> Turn:
        """Turns of one candidate on one request, its file made now; what opening it raises, the first turn raises."""
        with suppress(SourceError):
            self.make(name)

        def take(count: int) -> Timing:
            runner = self.runner(name)
            if isinstance(runner, SelfTimed):
                return runner.time_runs(request, count)
            return timed(lambda: runner.run(request), self._clock)(count)

        return take

    def close(self, name: str) -> None:
        """Close a candidate; it may be opened again."""
        runner = self._open.pop(name, None)
        if runner is not None:
            runner.close()
