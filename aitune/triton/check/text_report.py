"""A report for people: where, what, a mark under the text, and what it should read."""

from __future__ import annotations

from collections.abc import Iterator

from aitune.triton.check.finding import ERROR, Finding
from aitune.triton.check.report import CheckReport
from aitune.triton.check.source import printable

__all__ = ["format_text"]

_STYLES = {"error": "1;31", "warning": "1;33", "place": "1", "fix": "32", "dim": "2"}
_MAX_EXCERPT = 160


def format_text(report: CheckReport, *, color: bool = False) -> str:
    """The findings one after another, then one line that sums up.

    Args:
        report: What was found.
        color: Whether to use ANSI colours.
    """
    lines: list[str] = []
    for finding in report:
        lines += _finding(report, finding, color)
        lines.append("")
    lines.append(_summary(report, color))
    return "\n".join(lines) + "\n"


def _paint(text: str, style: str, color: bool) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if color else text


def _finding(report: CheckReport, finding: Finding, color: bool) -> Iterator[str]:
    place = printable(report.path(finding))
    if finding.line:
        place += f":{finding.line}:{finding.column}"
    head = _paint(f"{finding.severity}[{finding.rule}]", finding.severity, color)
    yield f"{_paint(place, 'place', color)}: {head} {printable(finding.message)}"
    if finding.excerpt:
        yield from _excerpt(finding, color)
    if finding.fix:
        first, *rest = finding.fix.split("\n")
        yield f"    {_paint('it should read:', 'dim', color)} {_paint(printable(first), 'fix', color)}"
        for line in rest:
            yield f"                    {_paint(printable(line), 'fix', color)}"


def _excerpt(finding: Finding, color: bool) -> Iterator[str]:
    number = str(finding.line)
    start = max(0, finding.column - 1 - _MAX_EXCERPT // 2) if len(finding.excerpt) > _MAX_EXCERPT else 0
    shown = finding.excerpt[start : start + _MAX_EXCERPT]
    at = finding.column - 1 - start
    marks = "^" * max(1, min(finding.width, len(shown) - at))
    yield f"    {_paint(f'{number} |', 'dim', color)} {shown}"
    yield f"    {_paint(' ' * len(number) + ' |', 'dim', color)} {' ' * at}{_paint(marks, finding.severity, color)}"


def _summary(report: CheckReport, color: bool) -> str:
    models = len(report.models)
    loads = sum(model.loads for model in report.models)
    counted = f"{loads} of {models} model{'s' * (models != 1)} would load"
    told = f"{_count(report.errors, 'error')}, {_count(report.warnings, 'warning')}"
    silenced = f", {report.suppressed} silenced" if report.suppressed else ""
    fixable = sum(bool(finding.edits) for finding in report)
    hint = f"; {_count(fixable, 'finding')} can be fixed with --fix" if fixable else ""
    style = ERROR if report.errors else "warning" if report.warnings else "fix"
    return f"{_paint(counted, style, color)}: {told}{silenced}{hint}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
