"""Carrying out corrections: on the text, keeping comments and layout, atomically, and only while they help."""

from __future__ import annotations

import difflib
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from aitune.errors import RepositoryError
from aitune.records.fingerprints import sync_folder
from aitune.triton.check.finding import Edit, Finding
from aitune.triton.check.options import CheckOptions
from aitune.triton.check.report import CheckReport
from aitune.triton.check.repository import check_repository
from aitune.triton.check.source import Source, printable, read_source

__all__ = ["FileFix", "FixPlan", "apply_edits", "format_diff", "plan_fixes", "write_fixes"]

_MAX_ROUNDS = 25


@dataclass(frozen=True, slots=True)
class FileFix:
    """One config before and after.

    Attributes:
        file: Name relative to the repository.
        before: Its text on the disk.
        after: Its text with the corrections.
    """

    file: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class FixPlan:
    """What `write_fixes` would change, and what would be left to say.

    Attributes:
        root: The repository.
        fixes: One entry a file that changes, by name.
        report: What `check` says once the fixes are written.
        corrected: How many findings they settle.
    """

    root: Path
    fixes: tuple[FileFix, ...]
    report: CheckReport
    corrected: int


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with replacements made; of two that touch the same characters the first wins.

    >>> apply_edits("dims: [ 1 ]", [Edit(8, 9, "4"), Edit(8, 9, "5")])
    'dims: [ 4 ]'
    """
    pieces, at = [], 0
    for edit in sorted(set(edits)):
        if edit.start >= at:
            pieces += [text[at : edit.start], edit.text]
            at = edit.end
    return "".join([*pieces, text[at:]])


def plan_fixes(path: Path, **given: Unpack[CheckOptions]) -> FixPlan:
    """Work out every correction of a repository without writing anything.

    Corrections are made round by round, because one can uncover the next. A file that ends up with more errors than it
    had stays as it is.

    Args:
        path: The model repository.
        **given: As for `check_repository`.

    Raises:
        RepositoryError: If the repository cannot be read.
        UsageError: If an option makes no sense.
    """
    first = report = check_repository(path, **given)
    texts: dict[str, str] = {}
    before: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    for _ in range(_MAX_ROUNDS):
        changed = _round(path, report, texts, before, seen)
        if not changed:
            break
        report = _check(path, given, texts)
    worse = [file for file in texts if _errors(report, file) > _errors(first, file)]
    for file in worse:
        del texts[file]
    if worse:
        report = _check(path, given, texts)
    fixes = tuple(FileFix(file, before[file], text) for file, text in sorted(texts.items()) if text != before[file])
    return FixPlan(Path(path), fixes, report, max(0, _count(first) - _count(report)))


def _check(path: Path, given: CheckOptions, texts: Mapping[str, str]) -> CheckReport:
    with_texts = given.copy()
    with_texts["texts"] = texts
    return check_repository(path, **with_texts)


def _round(
    path: Path, report: CheckReport, texts: dict[str, str], before: dict[str, str], seen: set[tuple[str, str]]
) -> bool:
    """Make the corrections that are due; whether any text changed into one that was not there before."""
    changed = False
    for file, edits in _edits(report).items():
        if file not in before:
            before[file] = read_source(Path(path) / file, file).text
        text = texts.get(file, before[file])
        better = apply_edits(text, edits)
        if better != text and (file, better) not in seen:
            texts[file] = better
            seen.add((file, better))
            changed = True
    return changed


def _edits(report: CheckReport) -> Mapping[str, list[Edit]]:
    found: dict[str, list[Edit]] = {}
    for finding in report:
        if finding.edits:
            found.setdefault(finding.file, []).extend(_whole(finding, found.get(finding.file, [])))
    return found


def _whole(finding: Finding, taken: list[Edit]) -> tuple[Edit, ...]:
    """All edits of a finding, or none when one of them collides with another finding's."""
    clash = any(a.start < b.end and b.start < a.end for a in finding.edits for b in taken)
    return () if clash else finding.edits


def _errors(report: CheckReport, file: str) -> int:
    model = file.partition("/")[0]
    return sum(one.severity == "error" for each in report.models if each.name == model for one in each.findings)


def _count(report: CheckReport) -> int:
    return report.errors + report.warnings


def format_diff(plan: FixPlan) -> str:
    """The changes as one unified diff; ``""`` when there are none."""
    lines: list[str] = []
    for fix in plan.fixes:
        name = (plan.root / fix.file).as_posix()
        diff = difflib.unified_diff(
            fix.before.splitlines(keepends=True), fix.after.splitlines(keepends=True), f"{name}", f"{name} (fixed)"
        )
        for line in diff:
            lines.append(printable(line.rstrip("\r\n")) + "\n")
            if not line.endswith("\n"):
                lines.append("\\ No newline at end of file\n")
    return "".join(lines)


def write_fixes(plan: FixPlan) -> None:
    """Write the corrected files, each by one atomic rename that keeps its mode.

    Raises:
        RepositoryError: If a file changed since the plan was made, or cannot be written.
    """
    for fix in plan.fixes:
        path = (plan.root / fix.file).resolve()
        if read_source(path, fix.file).text != fix.before:
            raise RepositoryError(f"{fix.file} changed while it was checked", hint="run check --fix again")
        try:
            _replace(path, Source(fix.file, fix.after).to_bytes)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise RepositoryError(f"{fix.file} cannot be written: {reason}") from error


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fchmod(descriptor, path.stat().st_mode & 0o7777)
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
