"""What a validation found: checks, models, the whole report; plain values with a stable JSON form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aitune.triton.proved_by import ProvedBy

__all__ = ["SCHEMA_VERSION", "CheckResult", "ModelReport", "ValidationReport", "worst"]

SCHEMA_VERSION = 1
_ORDER = ("skip", "pass", "warn", "fail")


def worst(statuses: Iterable[str]) -> str:
    """The status of a whole from those of its parts; ``"warn"`` when nothing was really looked at.

    >>> worst(["pass", "skip"]), worst(["pass", "fail", "warn"]), worst(["skip"])
    ('pass', 'fail', 'warn')
    """
    found = max(statuses, key=_ORDER.index, default="skip")
    return "warn" if found == "skip" else found


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The answer of one check.

    Attributes:
        name: Stable name, e.g. ``"numbers"``.
        status: ``"pass"``, ``"warn"``, ``"fail"`` or ``"skip"``.
        detail: One line with the numbers; for a skip the reason.
        notes: Further lines, e.g. each difference of a config.
    """

    name: str
    status: str
    detail: str
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The form that goes into the document."""
        return {"name": self.name, "status": self.status, "detail": self.detail, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """One version of one model.

    Attributes:
        name: The model.
        version: The version; ``""`` when none was loaded.
        checks: What was asked, in order.
        claimed: Fingerprint that the served config claims; ``""`` when it claims none.
        proved: Fingerprint that the answers proved; ``""`` when they proved none.
        requests: Number of inference requests that were sent.
        seconds: How long it took.
    """

    name: str
    version: str
    checks: tuple[CheckResult, ...]
    claimed: str = ""
    proved: str = ""
    requests: int = 0
    seconds: float = 0.0

    @property
    def status(self) -> str:
        """The worst of its checks."""
        return worst(check.status for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """The form that goes into the document."""
        return {
            "name": self.name,
            "version": self.version,
            "status": self.status,
            "claimed": self.claimed,
            "proved": self.proved,
            "requests": self.requests,
            "seconds": round(self.seconds, 3),
            "checks": [check.to_json() for check in self.checks],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """Everything that one validation found.

    Attributes:
        models: One entry a served version.
        proved_by: The software that gave the answers.
        level: ``"quick"`` or ``"full"``.
        server: Where it was; ``"local"`` for a server of our own.
    """

    models: Sequence[ModelReport]
    proved_by: ProvedBy
    level: str = "quick"
    server: str = "local"

    @property
    def status(self) -> str:
        """The worst of its models."""
        return worst(model.status for model in self.models)

    @property
    def failed(self) -> bool:
        """Whether the verdict is no; a warning is not."""
        return self.status == "fail"

    def to_json(self) -> dict[str, Any]:
        """The document of ``validate --format json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "status": self.status,
            "level": self.level,
            "server": self.server,
            "proved_by": self.proved_by.to_json(),
            "models": [model.to_json() for model in self.models],
        }
