"""Reports of a measurement."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from aitune.errors import UsageError
from aitune.triton.perf_records import PerfPoint, PerfReport
from aitune.triton.perf_report import HEADINGS, csv_text, to_html, to_rows, write_report
from aitune.triton.proved_by import ProvedBy


def point(level: float = 1, **fields: object) -> PerfPoint:
    """A point with what every point has."""
    given = {
        "kind": "concurrency",
        "batch_size": 1,
        "label": "typical",
        "shape": (("x", (4,)),),
        "throughput_per_s": 100.0,
        "p50_us": 1000.0,
        "p90_us": 1100.0,
        "p95_us": 1200.0,
        "p99_us": 1300.0,
        "inferences": 100,
        "executions": 50,
    }
    return PerfPoint(level=level, **{**given, **fields})


def report(*points: PerfPoint, **fields: object) -> PerfReport:
    """A report of these points."""
    proved = ProvedBy(implementation="nvidia-cpp", server="2.51.0")
    return PerfReport(model="m", version="1", command=("p", "-m", "a b"), points=points, proved_by=proved, **fields)


def test_the_document_has_the_promised_keys() -> None:
    """Stable keys of the design."""
    found = json.loads(json.dumps(report(point(4)).to_json()))
    assert {"model", "command", "points"} <= set(found)
    promised = "concurrency batch_size shape throughput_per_s p50_us p90_us p95_us p99_us inferences executions"
    assert set(promised.split()) <= set(found["points"][0])
    assert found["points"][0]["concurrency"] == 4
    assert found["proved_by"]["implementation"] == "nvidia-cpp"


def test_a_request_rate_is_no_concurrency() -> None:
    """The other key is null."""
    found = point(12.5, kind="request_rate").to_json()
    assert (found["concurrency"], found["request_rate"]) == (None, 12.5)


@pytest.mark.parametrize(
    ("fields", "batching", "told"),
    [
        ({"inferences": 100, "executions": 100}, True, True),
        ({"inferences": 200, "executions": 100, "batch_size": 2}, True, True),
        ({"inferences": 100, "executions": 60}, True, False),
        ({"inferences": 100, "executions": 100}, False, False),
        ({"inferences": None, "executions": None}, True, False),
    ],
)
def test_a_batch_that_never_formed_is_told(fields: dict, batching: bool, told: bool) -> None:
    """A throughput alone would hide it."""
    notes = report(point(4, **fields), batching=batching).notes
    assert any("no batch was formed at concurrency 4" in note for note in notes) is told


def test_one_client_alone_forms_no_batch_and_that_is_no_news() -> None:
    """There was nothing to merge."""
    assert report(point(1, inferences=9, executions=9), batching=True).notes == ()


def test_levels_without_stable_numbers_are_told() -> None:
    """In the report that has the others."""
    assert report(point(), unstable=("concurrency 4 (typical)",)).notes == ("not stable: concurrency 4 (typical)",)


def test_levels_that_were_left_out_are_told() -> None:
    """perf_analyzer drops them without a word, and exits 0."""
    (note,) = report(point(), missing=("concurrency 4 (typical)",)).notes
    assert note.startswith("no numbers: concurrency 4")


def test_half_a_second_is_told_for_what_it_is() -> None:
    """Most requests take a millisecond, some wait for the batcher to look at its queue."""
    (note,) = report(point(p50_us=800.0, p99_us=502_000.0)).notes
    assert "stalled for half a second at concurrency 1 (typical)" in note
    assert report(point(p50_us=300_000.0, p99_us=502_000.0)).notes == ()


def test_tables_have_a_cell_for_every_heading() -> None:
    """Unknown counts are said to be unknown."""
    rows = to_rows(report(point(), point(inferences=None)))
    assert {len(row) for row in rows} == {len(HEADINGS)}
    assert [row[-1] for row in rows] == ["2.00", "unknown"]


def test_csv_reads_back() -> None:
    """One line a point."""
    (row,) = csv.DictReader(io.StringIO(csv_text(report(point(shape=(("x", (2, 3)), ("y", ())))))))
    assert (row["shape"], row["p99_us"], row["executions"]) == ("x:2,3 y:", "1300.0", "50")


def test_the_page_has_a_chart_for_each_shape() -> None:
    """And quotes the command for a shell."""
    page = to_html(report(point(1), point(2), point(1, label="largest"), point(1, throughput_per_s=0.0, batch_size=2)))
    assert page.count("<svg") == 3
    assert "p -m &#39;a b&#39;" in page


def test_the_command_of_a_written_report_can_be_run_again(tmp_path: Path) -> None:
    """Its data file lies beside it; what was in a temporary folder is gone."""
    given = ("p", "--input-data", "/tmp/gone/data.json", "-f", "/tmp/gone/report.csv", "--verbose-csv")
    found = write_report(replace(report(point(), requests=(("typical", "{}"),)), command=given), tmp_path)
    command = json.loads(found[0].read_text())["command"]
    assert Path(command[2]).read_text() == "{}"
    assert "gone" not in " ".join(command)


def test_a_report_folder_gets_three_files(tmp_path: Path) -> None:
    """Made if it is not there; a file in its place is one clear line."""
    found = write_report(report(point()), tmp_path / "a" / "b")
    assert [path.name for path in found] == ["perf.json", "perf.csv", "perf.html"]
    with pytest.raises(UsageError, match="cannot be written"):
        write_report(report(point()), found[0])
