"""Findings that somebody decided to live with: options, comments in a config, a list with reasons.

A comment ``# aitune: ignore[R186]`` silences a rule on its own line, or on the next when it stands alone. The list is
``aitune-check.toml`` in the repository root (Triton ignores plain files there)::

    [[ignore]]
    model = "resnet*"
    rule = "R186"
    reason = "the gateway sends batches of four"
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from aitune.errors import RepositoryError
from aitune.triton.check.catalogue import rule, rules
from aitune.triton.check.finding import WARNING, Finding
from aitune.triton.check.folder import FILE, kind_of
from aitune.triton.check.source import Source, read_source

__all__ = ["LIST", "Silencer"]

LIST = "aitune-check.toml"
_COMMENT = re.compile(r"#\s*aitune:\s*ignore\[([A-Za-z0-9,\s]+)\]")
_KEYS = {"model", "rule", "reason"}


@dataclass(slots=True)
class Silencer:
    """Decides which findings are shown.

    Attributes:
        select: Rule ids to keep; none means all.
        ignore: Rule ids to drop.
        entries: (model pattern, rule) pairs of the list.
        complaints: What is wrong with the list.
        suppressed: How many findings were dropped so far.
    """

    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    entries: tuple[tuple[str, str], ...] = ()
    complaints: list[Finding] = field(default_factory=list)
    suppressed: int = 0

    @classmethod
    def read(cls, root: Path, *, select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Silencer:
        """From the options and the list of a repository.

        Raises:
            UsageError: If an option names a rule that does not exist.
        """
        silencer = cls(frozenset(_ids(select)), frozenset(_ids(ignore)))
        for name in sorted(silencer.select | silencer.ignore):
            rule(name)  # a slip of the pen must not silence everything
        path = root / LIST
        if kind_of(path) == FILE:
            silencer._read_list(path)
        return silencer

    def wants_model(self, name: str, patterns: Iterable[str]) -> bool:
        """Whether a model is reported."""
        patterns = tuple(patterns)
        return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    def filter(self, model: str, findings: list[Finding], source: Source | None) -> list[Finding]:
        """The findings that nobody silenced."""
        comments = _comments(source) if source is not None else {}
        kept = [one for one in findings if not self._silenced(model, one, comments, source)]
        self.suppressed += len(findings) - len(kept)
        return kept

    def _silenced(self, model: str, finding: Finding, comments: dict[int, set[str]], source: Source | None) -> bool:
        rule = finding.rule
        if (self.select and rule not in self.select) or rule in self.ignore:
            return True
        if source is not None and finding.file == source.name and rule in comments.get(finding.line, ()):
            return True
        return any(fnmatch.fnmatchcase(model, pattern) and rule == listed for pattern, listed in self.entries)

    def _read_list(self, path: Path) -> None:
        import tomllib  # only where there is a list

        try:
            data = tomllib.loads(read_source(path, LIST).text)
        except (RepositoryError, ValueError, RecursionError) as error:  # what is not TOML, and what is too much of it
            self._complain(f"the list cannot be read: {error}")
            return
        entries = data.get("ignore", [])
        for index, entry in enumerate(entries if isinstance(entries, list) else [entries]):
            words = entry if isinstance(entry, dict) else {}
            if set(words) != _KEYS or not all(isinstance(word, str) and word for word in words.values()):
                self._complain(f"entry {index + 1} must have exactly a model, a rule and a reason")
                continue
            if words["rule"].upper() not in rules():
                self._complain(f"entry {index + 1} names the rule {words['rule']!r}, which does not exist")
            self.entries = (*self.entries, (words["model"], words["rule"].upper()))

    def _complain(self, message: str) -> None:
        self.complaints.append(Finding(WARNING, "A6", "", LIST, 0, 0, message))


def _ids(words: Iterable[str]) -> list[str]:
    return [part.strip().upper() for word in words for part in word.split(",") if part.strip()]


def _comments(source: Source) -> dict[int, set[str]]:
    """Silenced rules by line."""
    found: dict[int, set[str]] = {}
    if "aitune:" not in source.text:
        return found
    for match in _COMMENT.finditer(source.text):
        line, column = source.position(match.start())
        alone = not source.line(line)[: column - 1].strip()
        found.setdefault(line + alone, set()).update(_ids([match.group(1)]))
    return found
