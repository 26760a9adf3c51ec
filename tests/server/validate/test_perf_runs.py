"""Measurements with the real perf_analyzer on a real server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from aitune.errors import UsageError
from aitune.process import Completed
from aitune.triton.perf import UnstableMeasurement, perf
from aitune.triton.perf_analyzer import Load
from aitune.triton.perf_report import write_report
from aitune.triton.server import LocalServer

pytestmark = pytest.mark.server
HEAD = (
    "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,"
    "Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency\n"
)
FIXED = ("--request-count", "200")


@pytest.fixture(scope="module")
def served(make_bench, tmp_path_factory) -> Iterator[tuple]:
    """A linear model, one with a free axis, and one that batches nothing."""
    bench = make_bench(tmp_path_factory.mktemp("perf"))
    bench.publish(bench.linear())
    x, y = bench.free_axis()
    path = bench.tools.graph(
        bench.folder / "free" / "model.onnx", bench.tools.REDUCE, [x], [y], {"axis": np.array([1])}
    )
    bench.publish(bench.record(path, [x], [y], {"x": (1, 4)}), "free")
    with LocalServer(bench.repository) as server:
        yield bench, server


def run(served, model="linear", protocol="grpc", **kwargs):
    """Measure quickly."""
    bench, server = served
    url = f"{protocol}://{getattr(server, protocol)}"
    return perf(bench.repository, model=model, url=url, **{"flags": FIXED, **kwargs})


def test_each_level_is_a_point_with_its_executions(served, tmp_path) -> None:
    """Eight clients are merged, and the counters say so."""
    report = run(served, load=Load.parse("1:8:7"))
    one, eight = report.points
    assert (one.level, eight.level) == (1, 8)
    assert all(0 < point.p50_us <= point.p99_us for point in report.points)
    assert one.executions == one.inferences >= 200
    assert eight.executions < eight.inferences
    assert "--concurrency-range" in report.command
    assert report.proved_by.server == "2.51.0"
    assert json.loads((write_report(report, tmp_path)[0]).read_text())["points"][1]["concurrency"] == 8


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_free_sizes_are_given_without_the_batch(protocol: str, served) -> None:
    """At each of the recorded shapes, over both protocols."""
    report = run(served, "free", protocol, shapes=("smallest", "typical", "largest"), batch_size=2)
    assert [dict(point.shape)["x"] for point in report.points] == [(2,), (4,), (8,)]
    assert all(point.inferences >= 2 * 200 for point in report.points)


def test_request_rates_are_measured_too(served) -> None:
    """The level is a rate then."""
    report = run(served, load=Load.parse("50", "request_rate"), flags=("--request-count", "60"))
    assert report.points[0].to_json()["request_rate"] == 50


def test_a_range_that_needs_one_run_gets_one(served) -> None:
    """With a threshold perf_analyzer decides how far it goes: one run, and what it left out is told."""
    ran = []

    def analyzer(argv, *, timeout_s, env=None, cwd=None):
        ran.append(argv)
        report = Path(argv[argv.index("-f") + 1])
        report.write_text(HEAD + "".join(f"{level},9,1,2,3,4,5,6,7,10,11,12,13\n" for level in (1, 2)))
        return Completed(argv=tuple(argv), returncode=0, stdout="", stderr="")

    report = run(served, load=Load.parse("1:3"), flags=("-l", "1000"), run=analyzer)
    assert [argv[argv.index("--concurrency-range") + 1] for argv in ran] == ["1:3:1"]
    assert [(point.level, point.executions) for point in report.points] == [(1, None), (2, None)]
    assert report.missing == ("concurrency 3 (typical)",)


def test_a_batch_that_does_not_fit_is_bad_usage(served) -> None:
    """Before perf_analyzer is started."""
    with pytest.raises(UsageError, match="a batch of 9 does not fit 'linear', whose max_batch_size is 8"):
        run(served, batch_size=9)
    with pytest.raises(UsageError, match="shapes must be"):
        run(served, shapes=("huge",))
    with pytest.raises(UsageError, match="no model matches"):
        run(served, "nothing")
    bench, server = served
    with pytest.raises(UsageError, match="contradicts protocol"):
        perf(bench.repository, model="linear", url=f"grpc://{server.grpc}", protocol="http")


def test_a_measurement_that_never_settles_is_inconclusive(served) -> None:
    """Exit 4, and what was measured is in the report."""
    with pytest.raises(UnstableMeasurement, match="no stable measurement of 'linear' at concurrency 1") as caught:
        run(served, flags=("--stability-percentage", "0.0001", "--max-trials", "3"), interval_ms=100)
    assert caught.value.exit_code == 4
    assert caught.value.report.points == ()


def test_a_flag_that_perf_analyzer_does_not_know_is_its_own_words(served) -> None:
    """Bad usage, with the command to try by hand."""
    with pytest.raises(UsageError, match="unrecognized option '--no-such-flag'"):
        run(served, flags=("--no-such-flag",))


def test_a_server_of_our_own_is_started_without_an_address(bench) -> None:
    """And over the protocol that was asked for."""
    bench.publish(bench.linear())
    report = perf(bench.repository, model="linear", protocol="http", flags=FIXED)
    assert ("-i", "http") in list(itertools.pairwise(report.command))
    assert report.server == "local"
