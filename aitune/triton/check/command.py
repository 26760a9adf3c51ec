"""What the command line needs from this room: formats by name, and the exit code."""

from __future__ import annotations

from aitune.errors import UsageError
from aitune.triton.check.catalogue import explain
from aitune.triton.check.report import CheckReport

__all__ = ["FAIL_ON", "FORMATS", "exit_code", "explain", "format_report"]

FORMATS = ("text", "json", "sarif", "junit", "github")
FAIL_ON = ("error", "warning")


def format_report(report: CheckReport, format: str = "text", color: bool = False) -> str:
    """A report as text, complete with its final newline.

    Args:
        report: What was found.
        format: One of `FORMATS`.
        color: Whether ``"text"`` may use ANSI colours.

    Raises:
        UsageError: If there is no such format.
    """
    if format == "text":
        from aitune.triton.check.text_report import format_text

        return format_text(report, color=color)
    if format not in FORMATS:
        raise UsageError(f"no report format is called {format!r}", hint=f"choose one of {', '.join(FORMATS)}")
    from aitune.triton.check import machine_report

    writers = {
        "json": machine_report.format_json,
        "sarif": machine_report.format_sarif,
        "junit": machine_report.format_junit,
        "github": machine_report.format_github,
    }
    return writers[format](report)


def exit_code(report: CheckReport, *, fail_on: str = "error", exit_zero: bool = False) -> int:
    """0 when the verdict is yes, 1 when it is no.

    Args:
        report: What was found.
        fail_on: ``"error"``, or ``"warning"`` to refuse those as well.
        exit_zero: Always 0, for a report that must not stop anything.

    Raises:
        UsageError: If ``fail_on`` is neither.
    """
    if fail_on not in FAIL_ON:
        raise UsageError(f"fail-on must be one of {', '.join(FAIL_ON)}, got {fail_on!r}")
    return 0 if exit_zero or not report.fails(fail_on) else 1
