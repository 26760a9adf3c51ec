"""Which candidates may win: those that give the source's answers, each asked in the time there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from aitune.errors import AituneError
from aitune.numerics import Array
from aitune.records.evidence import Accuracy
from aitune.tuning.accuracy import Judge, Verdict
from aitune.tuning.candidate import Candidate
from aitune.tuning.ledger import Ledger, Requests
from aitune.tuning.pool import Pool

__all__ = ["Admission", "Ask"]

Tensors = Mapping[str, Array]
Ask = Callable[[Tensors], Tensors]

_MOST_ROWS = 8
"""Answers are compared for so many rows at most: what is right for eight is right for sixty-four."""
_TIME_SHARE = 0.35
"""No further candidate is asked when less than this share of the budget is left."""


@dataclass(slots=True)
class Admission:
    """Asks candidates what the source was asked.

    Attributes:
        pool: Where they are open.
        requests: Makes valid requests.
        ledger: Budget and steps.
        judge: Compares answers.
        reference: The source model itself; None where the first candidate stands for it.
        samples: Recorded requests that are asked too.
        rejected: Why a candidate may not win, by name.
        accuracy: Every output of every candidate in numbers.
    """

    pool: Pool
    requests: Requests
    ledger: Ledger
    judge: Judge
    reference: Ask | None = None
    samples: Sequence[Tensors] = ()
    rejected: dict[str, str] = field(default_factory=dict)
    accuracy: list[Accuracy] = field(default_factory=list)
    _asked: list[tuple[Tensors, Tensors]] = field(default_factory=list)

    def begin_again(self) -> None:
        """Forget who may not win, and why."""
        self.rejected.clear()
        self.accuracy.clear()

    def admit(self, candidates: Sequence[Candidate], rows: int | None) -> None:
        """Ask all of them; the first is what is served when no other may win, so it is never rejected here.

        Args:
            candidates: Simplest first.
            rows: Rows of a request; None for a model that does not batch.
        """
        rows = None if rows is None else min(rows, _MOST_ROWS)
        self.ledger.progress.start(f"comparing the answers of {len(candidates)} candidates", len(candidates))
        try:
            self._admit_first(candidates[0], rows)
            for candidate in candidates[1:]:
                self._admit(candidate, candidates[0].name, rows)
                self.ledger.progress.advance()
        finally:
            self.ledger.progress.done()

    def _admit_first(self, first: Candidate, rows: int | None) -> None:
        """Compare the baseline with the source; where they differ by rounding alone, the baseline is the measure."""
        if self.reference is None:
            return
        found = self._verdict(first, self.reference, rows)
        self.accuracy += found.accuracy
        if found.problem:
            self.reference = None
            self._asked.clear()
            self.ledger.progress.note(f"{first.name}: {found.problem}; the others are compared with it")

    def _admit(self, candidate: Candidate, first: str, rows: int | None) -> None:
        if self.ledger.left() < self.ledger.seconds * _TIME_SHARE:
            self.rejected[candidate.name] = f"was not tried: the budget of {self.ledger.seconds:g} s did not reach"
            return
        ask = self.reference or (lambda request: self.pool.runner(first).run(request))
        found = self._verdict(candidate, ask, rows)
        self.accuracy += found.accuracy
        if found.problem:
            self.rejected[candidate.name] = found.problem
            self.pool.close(candidate.name)
            self.ledger.progress.note(f"{candidate.name}: {found.problem}")

    def _verdict(self, candidate: Candidate, ask: Ask, rows: int | None) -> Verdict:
        def take() -> object:
            try:
                if not self._asked:
                    requests = (self.requests(rows), *self.samples)
                    self._asked.extend((request, ask(request)) for request in requests)
                self.pool.make(candidate.name)
                runner = self.pool.runner(candidate.name)
            except AituneError as error:
                return asdict(Verdict(" ".join(f"does not load: {error}".split())))
            return asdict(self.judge.judge(candidate.name, candidate.precision, runner, self._asked))

        against = "the first" if self.reference is None else "the source"
        found = self.ledger.step(f"answers of {candidate.name} and {against} to {rows} rows", take)
        return Verdict(found["problem"], tuple(Accuracy(**item) for item in found["accuracy"]))
