"""Reports for other programs: JSON, SARIF, JUnit XML, GitHub annotations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from xml.sax.saxutils import escape, quoteattr

import aitune
from aitune.triton.check.catalogue import rule_text
from aitune.triton.check.finding import ERROR, Finding
from aitune.triton.check.report import CheckReport
from aitune.triton.check.source import printable

__all__ = ["format_github", "format_json", "format_junit", "format_sarif"]


def format_json(report: CheckReport) -> str:
    """The JSON document of ``check``."""
    return json.dumps(report.to_json(), indent=2, ensure_ascii=True) + "\n"


def format_sarif(report: CheckReport) -> str:
    """SARIF 2.1.0, as code-scanning services take it."""
    rules = sorted({finding.rule for finding in report}, key=lambda rule: (rule[0], int(rule[1:])))
    run: Mapping[str, object] = {
        "tool": {
            "driver": {
                "name": "aitune check",
                "version": aitune.__version__,
                "rules": [{"id": rule, "shortDescription": {"text": rule_text(rule)}} for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(report, finding, rules) for finding in report],
    }
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def _result(report: CheckReport, finding: Finding, rules: list[str]) -> dict[str, object]:
    location: dict[str, object] = {"artifactLocation": {"uri": printable(report.path(finding))}}
    if finding.line:
        location["region"] = {
            "startLine": finding.line,
            "startColumn": finding.column,
            "endColumn": finding.column + finding.width,
        }
    text = finding.message + (f"\nIt should read: {finding.fix}" if finding.fix else "")
    return {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": finding.severity,
        "message": {"text": printable_lines(text)},
        "locations": [{"physicalLocation": location}],
    }


def printable_lines(text: str) -> str:
    """Text of several lines without anything that cannot be printed."""
    return "\n".join(printable(line) for line in text.split("\n"))


def format_junit(report: CheckReport) -> str:
    """JUnit XML: one test case a model; it fails when the model would not load."""
    groups = [("(repository)", report.repository), *((model.name, model.findings) for model in report.models)]
    groups = [group for group in groups if group[1] or group[0] != "(repository)"]
    failures = sum(any(one.severity == ERROR for one in findings) for _, findings in groups)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="aitune check" tests="{len(groups)}" failures="{failures}" errors="0" skipped="0">',
    ]
    for name, findings in groups:
        lines += _case(report, name, findings)
    return "\n".join([*lines, "</testsuite>"]) + "\n"


def _case(report: CheckReport, name: str, findings: tuple[Finding, ...]) -> list[str]:
    attributes = f'classname="aitune.check" name={quoteattr(printable(name))}'
    if not findings:
        return [f"  <testcase {attributes}/>"]
    errors = [finding for finding in findings if finding.severity == ERROR]
    warnings = [finding for finding in findings if finding.severity != ERROR]
    lines = [f"  <testcase {attributes}>"]
    if errors:
        body = escape("\n".join(_line(report, finding) for finding in errors))
        lines.append(f"    <failure message={quoteattr(printable(errors[0].message))}>{body}</failure>")
    if warnings:
        lines.append(f"    <system-out>{escape(chr(10).join(_line(report, one) for one in warnings))}</system-out>")
    return [*lines, "  </testcase>"]


def _line(report: CheckReport, finding: Finding) -> str:
    place = printable(report.path(finding)) + (f":{finding.line}:{finding.column}" if finding.line else "")
    fix = f" (it should read: {finding.fix})" if finding.fix else ""
    return printable_lines(f"{place}: {finding.severity}[{finding.rule}] {finding.message}{fix}")


def format_github(report: CheckReport) -> str:
    """Workflow commands: GitHub shows each at its line of the change."""
    return "".join(_annotation(report, finding) for finding in report)


def _annotation(report: CheckReport, finding: Finding) -> str:
    properties = {"file": printable(report.path(finding))}
    if finding.line:
        properties |= {"line": str(finding.line), "col": str(finding.column)}
    properties["title"] = f"aitune check {finding.rule}"
    text = finding.message + (f"\nit should read: {finding.fix}" if finding.fix else "")
    joined = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
    return f"::{finding.severity} {joined}::{_escape_data(printable_lines(text))}\n"


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
