"""One thing the checker has to say, and the edit that would settle it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

__all__ = ["ERROR", "WARNING", "Edit", "Finding"]

ERROR = "error"
WARNING = "warning"


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """A replacement in the text of one file.

    Attributes:
        start: First character to replace, counted from 0.
        end: First character to keep again.
        text: What stands there afterwards.
    """

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that will not load (error), or loads but is not what its author thinks (warning).

    Attributes:
        severity: ``"error"`` or ``"warning"``.
        rule: Id of the rule, e.g. ``"R57"``; ``check --explain R57`` tells it.
        field: Field of the config it is about, e.g. ``"input[0].dims"``; ``""`` for a file or folder.
        file: Path relative to the repository, with ``/``; ``"."`` is the repository itself.
        line: Line, from 1; 0 when it is about the whole file or folder.
        column: Column in characters, from 1; 0 with line 0.
        message: What was found and what is expected, with the gist of Triton's own message.
        fix: What it should read, as text for a person; ``""`` when there is no one answer.
        width: Characters to mark from ``column`` on.
        excerpt: The line of the file, for showing the mark.
        edits: Replacements that carry out ``fix``; empty when a person must decide.
    """

    severity: str
    rule: str
    field: str
    file: str
    line: int
    column: int
    message: str
    fix: str = ""
    width: int = dataclasses.field(default=1, compare=False, repr=False)
    excerpt: str = dataclasses.field(default="", compare=False, repr=False)
    edits: tuple[Edit, ...] = dataclasses.field(default=(), compare=False, repr=False)

    @property
    def sort_key(self) -> tuple[str, int, int, int, str, str]:
        """Where it stands in a report: by file, position, errors first, rule number."""
        return (self.file, self.line, self.column, self.severity != ERROR, self.rule.rjust(6), self.message)

    def to_json(self) -> dict[str, str | int]:
        """The object of the JSON document."""
        return {
            "severity": self.severity,
            "rule": self.rule,
            "field": self.field,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "fix": self.fix,
        }
