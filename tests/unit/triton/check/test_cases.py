"""The labelled repositories: what a real Triton 24.10 did with each of them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from aitune.errors import SourceError
from aitune.onnx.served import read_served
from aitune.records.interface import Interface
from aitune.triton.check import check_repository

CASES = Path(__file__).parents[3] / "cases" / "check"
LABELS: dict[str, Any] = json.loads((CASES / "labels.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases, each in a folder of its own."""
    folder = tmp_path_factory.mktemp("cases")
    with tarfile.open(CASES / "handed_cases.tar.gz") as archive:
        archive.extractall(folder, filter="fully_trusted")
    return folder


def read(path: Path) -> Interface:
    """The frontend's reader."""
    return read_served(path)


@pytest.mark.parametrize("mode", ["default", "strict"])
@pytest.mark.parametrize("case", sorted(LABELS))
def test_the_verdict_is_the_server_s(unpacked: Path, case: str, mode: str) -> None:
    """Errors are reported for exactly the repositories that the server refused."""
    report = check_repository(
        unpacked / case, triton="24.10", target="cpu", strict=mode == "strict", read_interface=read
    )
    told = [f"{finding.rule} {finding.file}:{finding.line} {finding.message}" for finding in report]
    assert report.fails() != LABELS[case][mode]["loads"], "\n".join(told) or LABELS[case][mode]["reason"]


def test_the_rule_is_the_labelled_one(unpacked: Path) -> None:
    """Where the server refused, a rule that the case is about is among the reported ones."""
    other: list[str] = []
    for case, label in LABELS.items():
        report = check_repository(unpacked / case, read_interface=read)
        rules = {finding.rule for finding in report}
        if not label["default"]["loads"] and not rules & {*label["rules"], *SAME.get(case, ())}:
            other.append(f"{case}: {sorted(rules)} instead of {label['rules']}")
    assert not other


SAME = {
    # ONNX Runtime's own refusal of the file, reported by whoever opened it
    "ext_absolute": ("R213",),
    "ext_in_model_root": ("R213",),
    "ext_model_symlink_without_data": ("R213",),
}


def test_a_refused_reading_is_an_error_of_the_file(unpacked: Path) -> None:
    """What the frontend cannot read is R213, with its message."""

    def refuse(path: Path) -> Interface:
        raise SourceError(f"no good: {path.name}")

    report = check_repository(unpacked / "ext_ok", read_interface=refuse)
    assert [(finding.rule, "no good: model.onnx" in finding.message) for finding in report] == [("R213", True)]
