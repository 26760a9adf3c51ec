"""Reports for people and programs, exit codes, and what silences a finding."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aitune.errors import UsageError
from aitune.triton.check import CheckReport, Finding, ModelReport
from aitune.triton.check.command import FORMATS, exit_code, format_report

from .conftest import Repository

CONFIG = """backend: "onnxruntime"
max_batch_size: 8  # rows
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP16 dims: [ 4 ] }
"""


@pytest.fixture
def report(repository: Repository) -> CheckReport:
    """One model with one error, one without a fault, and a repository warning."""
    repository.model(CONFIG, "bad")
    repository.model(CONFIG.replace("FP16", "FP32") + "dynamic_batching { } version_policy { all { } }", "good")
    repository.file("good/02/x")
    repository.file("aitune-check.toml", "[[ignore]]\nmodel = 'a'\n")
    return repository.check()


def test_a_finding_is_shown_at_its_place(report: CheckReport) -> None:
    """file:line:column, the line, a mark under the text, the correction, the sum."""
    lines = format_report(report).splitlines()
    start = next(index for index, line in enumerate(lines) if "R226" in line)
    assert lines[start].endswith(
        "bad/config.pbtxt:4:31: error[R226] configuration expects datatype TYPE_FP16 for output 'y', "
        "model provides TYPE_FP32"
    )
    assert lines[start + 1] == '    4 | output { name: "y" data_type: TYPE_FP16 dims: [ 4 ] }'
    assert lines[start + 2] == "      |" + " " * 31 + "^" * 9
    assert lines[start + 3] == "    it should read: data_type: TYPE_FP32"
    assert lines[-1].startswith("1 of 2 models would load: 1 error, 2 warnings")


def test_colour_only_where_it_is_wanted(report: CheckReport) -> None:
    """Without it the text is plain."""
    assert "\x1b[" in format_report(report, color=True)
    assert "\x1b[" not in format_report(report)


def test_a_long_line_is_cut_around_the_mark() -> None:
    """A config on one line of a megabyte stays readable."""
    finding = Finding("error", "R1", "", "f", 1, 5000, "m", "a\nb", 10, "x" * 10000)
    lines = format_report(CheckReport((finding,))).splitlines()
    assert max(map(len, lines)) < 200
    assert lines[2].count("^") == 10
    assert lines[4].strip() == "b"


def test_json_is_the_documented_document(report: CheckReport) -> None:
    """Keys and counts of the design."""
    document = json.loads(format_report(report, "json"))
    assert list(document) == ["schema_version", "repository", "models", "errors", "warnings"]
    finding = document["models"][0]["findings"][0]
    assert set(finding) == {"severity", "rule", "field", "file", "line", "column", "message", "fix"}
    assert (finding["file"], finding["line"], finding["column"], finding["field"]) == (
        "bad/config.pbtxt", 4, 31, "output[0].data_type",
    )  # fmt: skip
    assert document["errors"] == report.errors
    assert document["repository"][0]["rule"] == "A6"


def test_sarif_names_rules_and_places(report: CheckReport) -> None:
    """Every result refers to a rule of the run and a file of the repository."""
    run = json.loads(format_report(report, "sarif"))["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    place = next(one for one in run["results"] if one["ruleId"] == "R226")["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 4, "startColumn": 31, "endColumn": 40}
    assert place["artifactLocation"]["uri"].endswith("bad/config.pbtxt")


def test_junit_fails_the_models_that_fail(report: CheckReport) -> None:
    """One test case a model, and one for the repository when there is something to say about it."""
    suite = ElementTree.fromstring(format_report(report, "junit"))
    assert suite.attrib["tests"] == "3"
    failed = [case.attrib["name"] for case in suite if case.find("failure") is not None]
    assert (failed, suite.attrib["failures"]) == (["bad"], "1")


def test_github_annotations_are_escaped() -> None:
    """Line ends and percent signs would end a command."""
    finding = Finding("error", "R9", "", "a,b:c", 3, 4, "50%\nof it", "new")
    text = format_report(CheckReport((finding,), root="models"), "github")
    assert text == (
        "::error file=models/a%2Cb%3Ac,line=3,col=4,title=aitune check R9::50%25%0Aof it%0Ait should read: new\n"
    )


@pytest.mark.parametrize("format", FORMATS)
def test_any_name_can_be_printed(repository: Repository, format: str) -> None:
    """Names and texts that are not UTF-8, or hold control characters, do not break a report."""
    raw = (repository.root / "x").as_posix().encode() + b"\xff\x1b<&\n"
    Path(raw.decode("utf-8", "surrogateescape")).mkdir()
    repository.model('name: "\x1b]0;\udcff"'.encode("utf-8", "surrogateescape").decode("latin-1"), "m")
    text = format_report(repository.check(), format)
    text.encode("utf-8")
    assert "\x1b" not in text
    if format == "junit":
        ElementTree.fromstring(text)


def test_an_unknown_format_is_refused(report: CheckReport) -> None:
    """The hint lists those there are."""
    with pytest.raises(UsageError, match="'yaml'"):
        format_report(report, "yaml")


def test_exit_codes_follow_the_verdict() -> None:
    """Errors fail; warnings only where that was asked for; --exit-zero never fails."""
    warning = CheckReport((), (ModelReport("m", (Finding("warning", "R1", "", "f", 0, 0, "m"),)),))
    error = CheckReport((Finding("error", "R1", "", "f", 0, 0, "m"),))
    assert [exit_code(one) for one in (CheckReport(), warning, error)] == [0, 0, 1]
    assert exit_code(warning, fail_on="warning") == 1
    assert exit_code(error, exit_zero=True) == 0
    with pytest.raises(UsageError, match="fail-on"):
        exit_code(error, fail_on="never")


def rules(report: CheckReport) -> list[str]:
    """Ids of what is left."""
    return [finding.rule for finding in report]


def test_a_comment_silences_its_line_or_the_next(repository: Repository) -> None:
    """Beside the fault, or alone above it; other rules stay."""
    for text in ("dims: [ 5 ] } # aitune: ignore[R223, R1]", "\n# aitune: ignore[R223]\ndims: [ 5 ] }"):
        repository.model(CONFIG.replace("dims: [ 4 ] }", text, 1))
        found = repository.check()
        assert (rules(found), found.suppressed) == (["R226"], 1)
    repository.model(CONFIG.replace("dims: [ 4 ] }", "dims: [ 5 ] } # aitune: ignore[R2]", 1))
    assert rules(repository.check()) == ["R223", "R226"]


def test_options_select_and_ignore(repository: Repository) -> None:
    """By id, in any case, separated by commas."""
    repository.model(CONFIG.replace("[ 4 ]", "[ 5 ]"))
    assert rules(repository.check(ignore=["r223,R1"])) == ["R226"]
    assert rules(repository.check(select=["R226"])) == ["R226"]


def test_the_list_silences_with_a_reason(repository: Repository) -> None:
    """An entry without a reason counts for nothing and is itself reported."""
    repository.model(CONFIG, "m1")
    entry = "[[ignore]]\nmodel = 'm*'\nrule = 'r226'\n"
    repository.file("aitune-check.toml", entry)
    assert rules(repository.check()) == ["A6", "R226"]
    repository.file("aitune-check.toml", entry + "reason = 'a cast at the gateway'\n")
    assert rules(repository.check()) == []
    repository.file("aitune-check.toml", "][")
    assert rules(repository.check()) == ["A6", "R226"]
