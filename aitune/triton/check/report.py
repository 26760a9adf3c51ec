"""What a check found, for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from aitune.triton.check.finding import ERROR, WARNING, Finding

__all__ = ["CheckReport", "ModelReport"]

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class ModelReport:
    """Findings about one model, in the order of its files and lines."""

    name: str
    findings: tuple[Finding, ...] = ()

    @property
    def loads(self) -> bool:
        """Whether nothing stops the model."""
        return not any(finding.severity == ERROR for finding in self.findings)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Findings about a repository.

    Attributes:
        repository: About the repository as a whole.
        models: One entry per directory, by name.
        suppressed: Findings that a comment, a list or an option silenced.
        root: The repository as the caller named it.
    """

    repository: tuple[Finding, ...] = ()
    models: tuple[ModelReport, ...] = ()
    suppressed: int = 0
    root: str = "."

    def __iter__(self) -> Iterator[Finding]:
        yield from self.repository
        for model in self.models:
            yield from model.findings

    @property
    def errors(self) -> int:
        """Number of errors."""
        return sum(finding.severity == ERROR for finding in self)

    @property
    def warnings(self) -> int:
        """Number of warnings."""
        return sum(finding.severity == WARNING for finding in self)

    def path(self, finding: Finding) -> str:
        """File of a finding, beginning with the repository as the caller named it."""
        return (PurePosixPath(self.root) / finding.file).as_posix()

    def fails(self, on: str = ERROR) -> bool:
        """Whether the verdict is no.

        Args:
            on: ``"error"``, or ``"warning"`` to refuse those as well.
        """
        return bool(self.errors) or (on == WARNING and bool(self.warnings))

    def to_json(self) -> dict[str, object]:
        """The JSON document of ``check``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "repository": [finding.to_json() for finding in self.repository],
            "models": [
                {"name": model.name, "findings": [finding.to_json() for finding in model.findings]}
                for model in self.models
            ],
            "errors": self.errors,
            "warnings": self.warnings,
        }
