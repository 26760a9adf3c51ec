"""Does a candidate give the source model's answers? Per output, with numbers, against a threshold.

A candidate that computes as the model does is held to the table of :mod:`aitune.numerics.tolerance`. One that computes
in fewer bits, which the user allowed, may differ more, see ``REDUCED`` there. A check of the user's own decides instead
of those wider thresholds, and besides the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aitune.errors import AituneError, SourceError
from aitune.numerics import Array, Tolerance, as_float, compare
from aitune.numerics.tolerance import REDUCED
from aitune.records import DType, TensorSpec
from aitune.records.evidence import Accuracy
from aitune.tuning.runner import Runner

__all__ = ["Check", "Judge", "Verdict", "cosine"]

Tensors = Mapping[str, Array]
Check = Callable[[Tensors, Tensors], object]
"""A user's own check: the expected and the actual outputs by name; true, or why not."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """May a candidate win?

    Attributes:
        problem: Why not, ``""`` when it may.
        accuracy: Every output in numbers.
    """

    problem: str
    accuracy: tuple[Accuracy, ...] = ()


@dataclass(slots=True)
class Judge:
    """Compares candidates with what is expected.

    Attributes:
        outputs: Outputs, for element types.
        check: The user's own check.
        tolerances: Wider tolerances by output, for all candidates.
    """

    outputs: Sequence[TensorSpec]
    check: Check | None = None
    tolerances: Mapping[str, Tolerance] | None = None

    def judge(self, name: str, precision: str, runner: Runner, asked: Sequence[tuple[Tensors, Tensors]]) -> Verdict:
        """Ask a candidate what the source was asked.

        Args:
            name: Name of the candidate.
            precision: What it computes in.
            runner: The open candidate.
            asked: Requests with the answers that are expected.
        """
        worst: dict[str, Accuracy] = {}
        problem = ""
        for request, expected in asked:
            try:
                answer = runner.run(request)
            except AituneError as error:
                return Verdict(_line(f"does not run: {error}"), tuple(worst.values()))
            lacking = next((spec.name for spec in self.outputs if spec.name not in answer), None)
            if lacking is not None:
                return Verdict(f"lacks output {lacking!r}")
            for spec in self.outputs:
                found = self._accuracy(name, precision, spec, answer[spec.name], expected[spec.name])
                worst[spec.name] = _worse(worst.get(spec.name), found)
            problem = problem or self._own(answer, expected)
        failed = next((item for item in worst.values() if not item.passed), None)
        if failed is not None:
            problem = f"answers differently: output {failed.output!r}: {failed.detail}"
        return Verdict(_line(problem), tuple(worst.values()))

    def _accuracy(self, name: str, precision: str, spec: TensorSpec, actual: Array, expected: Array) -> Accuracy:
        threshold = REDUCED.get(precision) if spec.dtype.is_floating else None
        allowed = threshold.tolerance if threshold else (self.tolerances or {}).get(spec.name)
        found = compare(actual, expected, spec.dtype, tolerance=allowed)
        angle = cosine(actual, expected, spec.dtype)
        passed, detail = found.agrees, found.detail
        if threshold and passed and angle is not None and angle < threshold.cosine:
            passed, detail = False, f"cosine {angle:.4f}, at least {threshold.cosine:g} is asked for; {detail}"
        if threshold and self.check is not None and math.isfinite(found.max_abs):
            passed = True  # the user's own check decides
        return Accuracy(
            candidate=name,
            output=spec.name,
            max_abs=_finite(found.max_abs),
            max_rel=_finite(found.max_rel),
            cosine=angle,
            passed=passed,
            detail=detail,
        )

    def _own(self, answer: Tensors, expected: Tensors) -> str:
        """What the user's own check has against an answer."""
        if self.check is None:
            return ""
        try:
            found = self.check(dict(expected), dict(answer))
        except Exception as error:  # the boundary to a user's function
            text = " ".join(str(error).split())[:200]
            raise SourceError(f"the check of accuracy raised {type(error).__name__}: {text}") from error
        if isinstance(found, str):
            return f"the check of accuracy refuses it: {found}" if found else ""
        if isinstance(found, bool | np.bool_):
            return "" if found else "the check of accuracy refuses it"
        raise SourceError(
            f"the check of accuracy returned {found!r}", hint="return True, False, or a text that says why not"
        )


def cosine(actual: Array, expected: Array, dtype: DType) -> float | None:
    """Cosine of the angle between two tensors, None where there is none.

    >>> cosine(np.array([1.0, 0.0], np.float32), np.array([1.0, 1.0], np.float32), DType.FLOAT32)
    0.70711
    """
    if dtype in (DType.STRING, DType.BOOL) or actual.shape != expected.shape or actual.dtype != expected.dtype:
        return None
    one, other = as_float(actual, dtype).ravel(), as_float(expected, dtype).ravel()
    both = np.isfinite(one) & np.isfinite(other)
    length = float(np.linalg.norm(one[both]) * np.linalg.norm(other[both]))
    return round(float(one[both] @ other[both]) / length, 5) if length > 0 else None


def _worse(known: Accuracy | None, found: Accuracy) -> Accuracy:
    """The one that failed, else the one that is farther off."""
    if known is None:
        return found

    def badness(item: Accuracy) -> tuple[bool, float]:
        return not item.passed, math.inf if item.max_abs is None else item.max_abs

    return max(known, found, key=badness)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _line(text: str) -> str:
    return " ".join(text.split())
