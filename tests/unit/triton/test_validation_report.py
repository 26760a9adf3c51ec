"""Reports of a validation."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aitune.errors import UsageError
from aitune.triton.proved_by import ProvedBy
from aitune.triton.validation_records import CheckResult, ModelReport, ValidationReport, worst
from aitune.triton.validation_report import junit, summary, to_html, to_text, write_report


def check(name: str, status: str, detail: str = "detail", *notes: str) -> CheckResult:
    """Short for a result."""
    return CheckResult(name=name, status=status, detail=detail, notes=notes)


def report(*checks: CheckResult, version: str = "1") -> ValidationReport:
    """A report of one model."""
    model = ModelReport(name="m", version=version, checks=checks, claimed="a" * 64, proved="a" * 64, requests=3)
    return ValidationReport(models=[model], proved_by=ProvedBy(implementation="aitune-python", server="2.51.0"))


@pytest.mark.parametrize(
    ("statuses", "whole"),
    [
        (["pass", "skip"], "pass"),
        (["warn", "pass"], "warn"),
        (["fail", "warn"], "fail"),
        (["skip"], "warn"),
        ([], "warn"),
    ],
)
def test_a_whole_is_as_bad_as_its_worst_part(statuses: list[str], whole: str) -> None:
    """Where nothing was looked at, nobody may say pass."""
    assert worst(statuses) == whole


def test_the_document_has_the_promised_keys() -> None:
    """Stable keys of the design."""
    found = json.loads(json.dumps(report(check("ready", "pass")).to_json()))
    assert {"models", "status", "proved_by"} <= set(found)
    assert {"name", "version", "status", "checks"} <= set(found["models"][0])
    assert found["models"][0]["checks"][0] == {"name": "ready", "status": "pass", "detail": "detail", "notes": []}
    assert found["proved_by"] == {"implementation": "aitune-python", "server": "2.51.0", "onnxruntime": None}


def test_only_a_failure_is_a_failure() -> None:
    """A warning exits 0."""
    assert not report(check("a", "warn")).failed
    assert report(check("a", "warn"), check("b", "fail")).failed


def test_the_text_has_a_line_for_each_check() -> None:
    """Notes only when asked for."""
    found = report(check("ready", "pass"), check("config", "fail", "differs", "one", "two"))
    assert "  FAIL  config        differs\n" in to_text(found)
    assert "- two" not in to_text(found)
    assert "- two" in to_text(found, verbose=True)
    assert to_text(found).endswith("1 model version: 0 pass, 0 warn, 1 fail (backend aitune-python, Triton 2.51.0)\n")
    assert to_text(report(check("ready", "fail"), version="")).startswith("m: fail\n")


def test_junit_counts_and_tells() -> None:
    """Failures fail, skips skip, warnings pass with their text; what XML cannot hold is replaced."""
    found = report(
        check("a", "pass"), check("b", "fail", "bad \x00 <tag>", "n"), check("c", "skip"), check("d", "warn")
    )
    root = ElementTree.fromstring(junit(found))
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "1")
    assert suite.find("testcase[@name='b']/failure").get("message") == "bad \ufffd <tag>"
    assert suite.find("testcase[@name='d']/system-out").text == "warning: detail"


def test_a_report_folder_gets_three_files(tmp_path: Path) -> None:
    """One for each kind of reader; a file in its place is one clear line."""
    found = write_report(report(check("ready", "pass")), tmp_path / "new")
    assert [path.name for path in found] == ["validation.json", "validation.xml", "validation.html"]
    assert json.loads(found[0].read_text())["status"] == "pass"
    with pytest.raises(UsageError, match="cannot be written"):
        write_report(report(check("ready", "pass")), found[0])


def test_the_page_says_what_was_claimed_and_what_was_proved() -> None:
    """Side by side, short."""
    page = to_html(report(check("config", "fail", "differs", "first note", "second note")))
    assert page.count("aaaaaaaaaaaa") == 2
    assert "second note" in page
    assert summary(report(check("config", "fail"))) in page
