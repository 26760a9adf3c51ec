"""A validation for people and for pipelines: text, JUnit XML, a self-contained HTML page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from aitune import __version__
from aitune.triton.proved_by import ProvedBy
from aitune.triton.report_files import write_texts
from aitune.triton.templates import render_template
from aitune.triton.validation_records import CheckResult, ModelReport, ValidationReport

__all__ = ["junit", "proved_lines", "summary", "to_html", "to_text", "write_report"]

_MARKS = {"pass": "ok", "warn": "WARN", "fail": "FAIL", "skip": "skip"}
# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def summary(report: ValidationReport) -> str:
    """One sentence with the counts.

    >>> from aitune.triton.proved_by import ProvedBy
    >>> good = ModelReport(name="m", version="1", checks=(CheckResult(name="ready", status="pass", detail=""),))
    >>> summary(ValidationReport(models=[good], proved_by=ProvedBy(implementation=None, server="2.51.0")))
    '1 model version: 1 pass, 0 warn, 0 fail'
    """
    statuses = [model.status for model in report.models]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in ("pass", "warn", "fail"))
    return f"{len(statuses)} model version{'s' if len(statuses) != 1 else ''}: {counts}"


def to_text(report: ValidationReport, *, verbose: bool = False) -> str:
    """A text of plain lines, aligned.

    Args:
        report: What was found.
        verbose: Also show every note of a check.
    """
    lines = []
    for model in report.models:
        title = f"{model.name} version {model.version}" if model.version else model.name
        lines.append(f"{title}: {model.status}")
        for check in model.checks:
            lines.append(f"  {_MARKS[check.status]:<4}  {check.name:<13} {check.detail}")
            if verbose and len(check.notes) > 1:
                lines += [f"        {'':<13} - {note}" for note in check.notes]
    software = ", ".join(f"{name} {value}" for name, value in proved_lines(report.proved_by))
    lines.append(f"{summary(report)} ({software})")
    return "\n".join(lines) + "\n"


def junit(report: ValidationReport) -> str:
    """JUnit XML: one suite a model version, one case a check; a warning is a passed case with its text as output."""
    root = ElementTree.Element("testsuites", name="aitune validate")
    for model in report.models:
        _suite(root, model)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def to_html(report: ValidationReport) -> str:
    """A page that needs nothing but itself."""
    return render_template(
        "validation.html.j2",
        report=report,
        summary=summary(report),
        proved_by=list(proved_lines(report.proved_by)),
        version=__version__,
    )


def write_report(report: ValidationReport, folder: Path) -> tuple[Path, ...]:
    """Write ``validation.json``, ``validation.xml`` (JUnit) and ``validation.html`` into a folder, made if need be.

    Raises:
        UsageError: If the folder cannot be written.
    """
    texts = {
        "validation.json": json.dumps(report.to_json(), indent=2) + "\n",
        "validation.xml": junit(report),
        "validation.html": to_html(report),
    }
    return write_texts(folder, texts)


def proved_lines(proved_by: ProvedBy | None) -> Iterator[tuple[str, str]]:
    """What gave the answers, as (word, value) pairs; what is not known is left out."""
    if proved_by is None:
        return
    words = {"implementation": "backend", "server": "Triton", "onnxruntime": "ONNX Runtime"}
    for key, value in proved_by.to_json().items():
        if value:
            yield words[key], value


def _suite(root: ElementTree.Element, model: ModelReport) -> None:
    counts = [check.status for check in model.checks]
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=_xml(f"{model.name}/{model.version}"),
        tests=str(len(counts)),
        failures=str(counts.count("fail")),
        skipped=str(counts.count("skip")),
        errors="0",
        time=f"{model.seconds:.3f}",
    )
    for check in model.checks:
        where = _xml(f"{model.name}.{model.version}")
        case = ElementTree.SubElement(suite, "testcase", name=check.name, classname=where)
        _outcome(case, check)


def _outcome(case: ElementTree.Element, check: CheckResult) -> None:
    if check.status == "fail":
        ElementTree.SubElement(case, "failure", message=_xml(check.detail)).text = _xml("\n".join(check.notes))
    elif check.status == "skip":
        ElementTree.SubElement(case, "skipped", message=_xml(check.detail))
    else:
        text = f"warning: {check.detail}" if check.status == "warn" else check.detail
        ElementTree.SubElement(case, "system-out").text = _xml("\n".join((text, *check.notes)))


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
