"""How build measures, as a user says it and sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aitune.cli import main
from aitune.cli.tuning import candidate_table, write_report
from aitune.cli.tuning_page import to_html
from aitune.errors import UsageError
from aitune.records import ONNXArtifact
from aitune.records.evidence import Evidence, Measurement, Tried, Tuning

TUNING = Tuning(
    objective="throughput",
    winner="fast",
    reason="it is faster",
    candidates=(Tried(name="default"), Tried(name="fast"), Tried(name="int8", precision="int8")),
    measurements=(
        Measurement(
            candidate="default", batch_size=1, throughput_per_s=10, p50_us=1e5, low_us=9e4, high_us=2e5, runs=5
        ),
        Measurement(
            candidate="fast", batch_size=8, throughput_per_s=80, p50_us=1e5, low_us=9e4, high_us=2e5, p95_us=3e5, runs=5
        ),
    ),
    rejected=(("int8", "answers differently: " + "x" * 100),),
)


def artifact(tuning: Tuning | None) -> ONNXArtifact:
    """An artifact with this tuning."""
    return ONNXArtifact(
        path=Path("m.onnx"), fingerprint="ab" * 32, inputs=(), outputs=(), evidence=Evidence(tuning=tuning)
    )


def test_the_table_has_every_candidate_with_its_interval_or_its_reason() -> None:
    """The winner is marked, long reasons are cut."""
    lines = candidate_table(TUNING).splitlines()[2:]
    assert lines[0].split() == ["default", "fp32", "1", "10.0", "100.00", "90.00", "to", "200.00"]
    assert lines[1].split()[-2:] == ["300.00", "won"]
    assert lines[2].endswith("x...")


def test_the_report_is_a_page_and_the_same_as_json(tmp_path: Path) -> None:
    """In a folder that is made; nothing is written when nothing was measured."""
    written = write_report(artifact(TUNING), "m", tmp_path / "a" / "b")
    assert [path.name for path in written] == ["tuning.json", "tuning.html"]
    data = json.loads(written[0].read_text())
    assert (data["model"], data["tuning"]["winner"]) == ("m", "fast")
    assert "Tuning of m" in written[1].read_text()
    assert write_report(artifact(None), "m", tmp_path / "none") == ()
    assert not (tmp_path / "none").exists()


def test_a_report_that_cannot_be_written_or_made_says_so(tmp_path: Path) -> None:
    """A file stands where the folder should be; nothing was measured."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_report(artifact(TUNING), "m", tmp_path / "file")
    with pytest.raises(UsageError, match="was not tuned"):
        to_html(artifact(None), "m")


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--precision", "int4"], "int4"), (["--p95-ms", "0"], "p95-ms"), (["--objective", "size"], "objective")],
)
def test_options_that_mean_nothing_are_refused(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is done."""
    assert main(["build", "m.onnx", *options]) == 2
    assert message in capsys.readouterr().err
