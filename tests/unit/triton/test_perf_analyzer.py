"""Finding perf_analyzer, its command, its data and what it reports."""

from __future__ import annotations

import base64
import itertools
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from aitune.errors import ProgramError, UsageError
from aitune.process import Completed
from aitune.records import DType
from aitune.triton import perf_analyzer
from aitune.triton.endpoint import Endpoint, Tls
from aitune.triton.perf_analyzer import Load, PerfCommand, find_perf_analyzer, run_perf_analyzer
from aitune.triton.perf_data import data_document
from aitune.triton.perf_results import parse_csv

HEAD = (
    "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,"
    "Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency\n"
)


def program(folder: Path) -> Path:
    """Something executable."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "perf_analyzer"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_named_program_wins(tmp_path: Path) -> None:
    """Before the environment and PATH."""
    named, other = program(tmp_path / "a"), program(tmp_path / "b")
    assert find_perf_analyzer(named, env={"AITUNE_PERF_ANALYZER": str(other)}) == named
    assert find_perf_analyzer(env={"AITUNE_PERF_ANALYZER": str(other)}) == other


@pytest.mark.parametrize("where", ["--perf-analyzer", "AITUNE_PERF_ANALYZER"])
def test_a_named_program_that_is_not_there_is_an_error(where: str, tmp_path: Path) -> None:
    """No other one is taken instead."""
    named, env = (tmp_path / "no", {}) if where == "--perf-analyzer" else (None, {where: "no"})
    with pytest.raises(ProgramError, match=f"{where} names"):
        find_perf_analyzer(named, env=env)


def test_path_comes_before_the_tools_folder(tmp_path: Path) -> None:
    """What the user installed is meant."""
    tool = program(tmp_path / ".tools" / "perf_analyzer" / "bin")
    assert find_perf_analyzer(env={}, which=lambda name: "/usr/bin/perf_analyzer") == Path("/usr/bin/perf_analyzer")
    only = find_perf_analyzer(env={}, which=lambda name: name if name == str(tool) else None, roots=[tmp_path])
    assert only == tool


def test_a_missing_program_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And unmasks the placeholder that pip installs on older systems."""
    monkeypatch.setattr(metadata, "version", lambda name: "0.1.0")
    monkeypatch.setattr(metadata, "files", lambda name: [])
    with pytest.raises(ProgramError, match="placeholder") as caught:
        find_perf_analyzer(env={}, which=lambda name: None, roots=[])
    assert "scripts/install-perf-analyzer" in caught.value.hint
    assert "glibc 2.38" in caught.value.hint


def test_the_program_inside_the_package_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its script may lie in a folder that is not on PATH."""
    path = program(tmp_path / "perf_analyzer" / "bin")

    class File(type(Path())):
        """A file of a distribution."""

        def locate(self) -> Path:
            """Where it lies."""
            return path

    monkeypatch.setattr(metadata, "files", lambda name: [File("perf_analyzer/bin/perf_analyzer"), File("x/y")])
    assert perf_analyzer._package_programs() == [path]


@pytest.mark.parametrize(
    ("text", "kind", "levels", "argument"),
    [
        ("4", "concurrency", (4,), "4"),
        ("1:4", "concurrency", (1, 2, 3, 4), "1:4:1"),
        ("1:8:3", "concurrency", (1, 4, 7), "1:8:3"),
        ("0.5:1.5:0.5", "request_rate", (0.5, 1, 1.5), "0.5:1.5:0.5"),
        ("0.1:0.3:0.1", "request_rate", (0.1, 0.2, 0.3), "0.1:0.3:0.1"),
    ],
)
def test_a_range_is_read_as_perf_analyzer_reads_it(text: str, kind: str, levels: tuple, argument: str) -> None:
    """End and step may be left out."""
    found = Load.parse(text, kind)
    assert found.levels == pytest.approx(levels)
    assert found.text == argument


@pytest.mark.parametrize("text", ["", "a", "1:2:3:4", "0", "4:1", "1:4:0", "1.5", "1:0"])
def test_a_range_without_levels_is_refused(text: str) -> None:
    """The hint shows the form."""
    with pytest.raises(UsageError):
        Load.parse(text)


def command(**fields: object) -> PerfCommand:
    """A command with what every command has."""
    given = {
        "program": Path("/bin/perf_analyzer"),
        "model": "m",
        "endpoint": Endpoint(protocol="grpc", host="h", port=1),
        "load": Load.parse("1:2"),
        "input_data": Path("d.json"),
        "csv": Path("o.csv"),
    }
    return PerfCommand(**{**given, **fields})


def pairs(argv: tuple[str, ...]) -> list[tuple[str, str]]:
    """Neighbours in an argument list."""
    return list(itertools.pairwise(argv))


def test_the_command_is_a_list_of_arguments() -> None:
    """One argument a word, also for names and shapes of length one."""
    argv = command(model="a b;c", shapes=(("i", (8,)), ("x y", (2, 3)))).argv
    assert ("-m", "a b;c") in pairs(argv)
    assert ("--shape", "i:8") in pairs(argv)
    assert ("--shape", "x y:2,3") in pairs(argv)
    assert ("-u", "h:1") in pairs(argv)
    assert ("--concurrency-range", "1:2:1") in pairs(argv)
    assert "-b" not in argv


def test_flags_of_the_user_win() -> None:
    """Ours is left out where theirs is given."""
    argv = command(flags=("-p", "77"), batch_size=4, version="3").argv
    assert "--measurement-interval" not in argv
    assert argv[-2:] == ("-p", "77")
    assert {("-b", "4"), ("-x", "3")} <= set(pairs(argv))
    assert "--measurement-interval" not in command(flags=("--measurement-interval=5",)).argv


def test_request_rates_have_their_own_option() -> None:
    """Not a concurrency."""
    argv = command(load=Load.parse("10:20:5", "request_rate")).argv
    assert ("--request-rate-range", "10:20:5") in pairs(argv)


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ("grpc", ["--ssl-grpc-use-ssl", "--ssl-grpc-root-certifications-file"]),
        ("http", ["--ssl-https-ca-certificates-file"]),
    ],
)
def test_tls_and_headers_are_passed_on(protocol: str, words: list[str], tmp_path: Path) -> None:
    """In the words of each protocol."""
    (tmp_path / "ca.pem").write_text("x")
    endpoint = Endpoint(
        protocol=protocol, host="h", port=1, headers=(("a", "b"),), tls=Tls(ca=tmp_path / "ca.pem", verify=False)
    )
    argv = command(endpoint=endpoint).argv
    assert ("-H", "a:b") in pairs(argv)
    assert set(words) <= set(argv)
    assert ("--ssl-https-verify-peer" in argv) == (protocol == "http")


SHORT = "No valid requests recorded within time interval. Please use a larger time window."


@pytest.mark.parametrize(("status", "words", "stable"), [(0, "", True), (2, "", False), (99, SHORT, False)])
def test_an_unstable_measurement_is_told_apart(status: int, words: str, stable: bool) -> None:
    """By its status; a window without a request is no measurement either."""

    def run(argv: tuple, *, timeout_s: float, env: object = None, cwd: object = None) -> Completed:
        return Completed(argv=tuple(argv), returncode=status, stdout="", stderr=words)

    assert run_perf_analyzer(command(), timeout_s=1, run=run) is stable


def test_a_failed_run_shows_its_last_words() -> None:
    """And the command, to try by hand."""

    def run(argv: tuple, *, timeout_s: float, env: object = None, cwd: object = None) -> Completed:
        return Completed(argv=tuple(argv), returncode=99, stdout="", stderr="error: Failed to\n  init\n\n")

    with pytest.raises(ProgramError, match="error: Failed to; init") as caught:
        run_perf_analyzer(command(), timeout_s=1, run=run)
    assert "/bin/perf_analyzer -m m" in caught.value.hint


def test_refused_arguments_are_bad_usage() -> None:
    """Three hundred lines of usage are left out."""

    def run(argv: tuple, *, timeout_s: float, env: object = None, cwd: object = None) -> Completed:
        text = "p: unrecognized option '--no'\nUsage: p [options]\n" + "more\n" * 300
        return Completed(argv=tuple(argv), returncode=99, stdout="", stderr=text)

    with pytest.raises(UsageError, match=r"unrecognized option '--no'$"):
        run_perf_analyzer(command(), timeout_s=1, run=run)


def only(array: np.ndarray, dtype: DType, *, batched: bool = False) -> dict:
    """The document of one request with one tensor."""
    return data_document([{"x": (array, dtype)}], batched=batched)["data"]


@pytest.mark.parametrize(
    ("array", "dtype", "content"),
    [
        (np.array([1, 2], np.float32), DType.FLOAT32, [1.0, 2.0]),
        (np.array([[1], [2]], np.int64), DType.INT64, [1, 2]),
        (np.array([True]), DType.BOOL, [True]),
        (np.array(["é".encode(), b""], object), DType.STRING, ["é", ""]),
        (np.array(5, np.int32), DType.INT32, [5]),
    ],
)
def test_values_are_written_as_perf_analyzer_reads_them(array: np.ndarray, dtype: DType, content: list) -> None:
    """Floats stay floats: it refuses 1 where it wants 1.0; the length is the product of the shape."""
    (step,) = only(array, dtype)
    assert step["x"] == {"content": content, "shape": list(array.shape)}
    assert [type(value) for value in step["x"]["content"]] == [type(value) for value in content]


@pytest.mark.parametrize(
    ("array", "dtype", "raw"),
    [
        (np.array([1], np.float16), DType.FLOAT16, b"\x00\x3c"),
        (np.array([0x3F80], np.uint16), DType.BFLOAT16, b"\x80\x3f"),
        (np.array([b"\xff"], object), DType.STRING, b"\x01\x00\x00\x00\xff"),
        (np.array([b"a\x00"], object), DType.STRING, b"\x02\x00\x00\x00a\x00"),
        (np.array([np.inf], np.float64), DType.FLOAT64, b"\0\0\0\0\0\0\xf0\x7f"),
    ],
)
def test_what_json_cannot_say_travels_as_bytes(array: np.ndarray, dtype: DType, raw: bytes) -> None:
    """Half precision, strings that are no text, infinities."""
    (step,) = only(array, dtype)
    assert base64.b64decode(step["x"]["content"]["b64"]) == raw


def test_each_row_of_a_batch_is_a_step() -> None:
    """perf_analyzer makes batches itself, and wants shapes without the batch axis."""
    steps = only(np.arange(6, dtype=np.int32).reshape(3, 2), DType.INT32, batched=True)
    assert [step["x"] for step in steps] == [{"content": [i, i + 1], "shape": [2]} for i in (0, 2, 4)]


def test_rows_of_one_request_must_match() -> None:
    """Or a step would lack an input."""
    request = {"a": (np.zeros((2, 1)), DType.FLOAT64), "b": (np.zeros((3, 1)), DType.FLOAT64)}
    with pytest.raises(UsageError, match="same number of rows"):
        data_document([request], batched=True)
    with pytest.raises(UsageError, match="no request"):
        data_document([], batched=True)


def test_a_report_is_read_by_its_headings() -> None:
    """Sorted by level; the parts of an ensemble, after a blank line, are left out."""
    text = HEAD + "2,200,1,2,3,4,5,6,7,10,11,12,13\n1,100,1,2,3,4,5,6,7,20,21,22,23\n\nModel: part\nx,y\n1,2\n"
    first, second = parse_csv(text)
    assert (first.level, first.throughput_per_s, first.p99_us) == (1, 100, 23)
    assert dict(second.parts_us)["queue"] == 3
    assert parse_csv("") == ()


@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n", HEAD.replace("p99 latency", "p") + "1,1,1,1,1,1,1,1,1,1,1,1,1\n", HEAD + "1,x\n"]
)
def test_a_report_in_another_form_is_refused(text: str) -> None:
    """Not guessed at."""
    with pytest.raises(ProgramError, match="cannot be read"):
        parse_csv(text)
