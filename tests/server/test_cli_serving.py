"""The commands that need a server, as a user runs them, on the committed example and a real tritonserver."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aitune.cli import main

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "model_repository")
COMMAND = [sys.executable, "-m", "aitune.triton"]

pytestmark = pytest.mark.server


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return int(holder.getsockname()[1])


def start(*arguments: str, temporary: Path) -> subprocess.Popen[str]:
    """A command in the background, with a folder of its own for temporary files."""
    argv, env = [*COMMAND, *arguments, "--format", "json"], {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=env)


def running() -> Iterator[tuple[int, int, str]]:
    """Number, parent and arguments of every process that has not ended."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                arguments = (folder / "cmdline").read_text()
            except OSError:  # it ended meanwhile
                continue
            if state != "Z":
                yield int(folder.name), int(parent), arguments


def descendants(pid: int) -> dict[int, str]:
    """What a process started, and what that started: arguments by number."""
    processes, found = list(running()), {pid: ""}
    for _ in range(4):
        found |= {number: arguments for number, parent, arguments in processes if parent in found}
    del found[pid]
    return found


def wait_for(program: str, process: subprocess.Popen[str], within_s: float = 90) -> dict[int, str]:
    """Its descendants, once one of them is that program."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = descendants(process.pid)
        if any(program in arguments for arguments in found.values()):
            return found
        time.sleep(0.05)
    raise AssertionError(f"no {program} was started")


def wait_until_gone(numbers: set[int], within_s: float = 10) -> None:
    """The last ones may still be on their way out when their parent is gone."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        left = {number for number, _, _ in running()} & numbers
        if not left:
            return
        time.sleep(0.05)
    raise AssertionError(f"processes {left} are still running")


def read_document(process: subprocess.Popen[str]) -> dict[str, object]:
    """The one JSON document that ``serve`` prints once it is ready."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if line.rstrip() == "}":
            return dict(json.loads(text))
    raise AssertionError(f"no document: {text}\n{process.stderr.read() if process.stderr else ''}")


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_serve_says_where_it_listens_and_leaves_nothing_running(
    stop: signal.Signals, code: int, tmp_path: Path
) -> None:
    """Ports, process id and models once ready; gone with the signal, and so are the files."""
    process = start("serve", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", temporary=tmp_path)
    try:
        document = read_document(process)
        assert {"http", "grpc", "metrics", "pid"} <= set(document)
        assert str(document["http"]).startswith("127.0.0.1:")
        with urllib.request.urlopen(f"http://{document['http']}/v2/models/digits/ready", timeout=10) as answer:
            assert answer.status == 200
        started = descendants(process.pid)
        assert document["pid"] in started
        process.send_signal(stop)
        assert process.wait(timeout=60) == code
        assert not Path(f"/proc/{document['pid']}").exists()
        wait_until_gone(set(started))
        assert not list(tmp_path.iterdir())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("during", ["triton_python_backend_stub", "perf_analyzer"])
@pytest.mark.parametrize(
    ("stop", "code", "word"), [(signal.SIGINT, 130, "E_INTERRUPTED"), (signal.SIGTERM, 143, "E_TERMINATED")]
)
def test_a_stopped_perf_leaves_nothing_behind(
    stop: signal.Signals, code: int, word: str, during: str, tmp_path: Path
) -> None:
    """While the server starts and while it measures: no process, no report, no temporary file; one document."""
    temporary, report = tmp_path / "temporary", tmp_path / "report"
    temporary.mkdir()
    options = ("--concurrency", "1:4", "--interval-ms", "3000", "--report", str(report))
    process = start("perf", EXAMPLE, "-m", "digits", *options, temporary=temporary)
    try:
        started = wait_for(during, process)
        process.send_signal(stop)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == code
        assert json.loads(out)["error"]["code"] == word
        wait_until_gone(set(started))
        assert not list(temporary.iterdir())
        assert not report.exists()
    finally:
        process.kill()
        process.communicate()


def test_serve_on_a_port_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3, and what to do."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        assert main(["serve", EXAMPLE, "--http-port", port, "--grpc-port", "0", "--metrics-port", "0"]) == 3
    assert f"port {port} on 127.0.0.1 cannot be used" in capsys.readouterr().err


def test_validate_says_pass_and_writes_its_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, JSON, JUnit and the files."""
    assert main(["validate", EXAMPLE, "-m", "digits", "--report", str(tmp_path / "report")]) == 0
    out = capsys.readouterr().out
    assert "digits version 1: pass" in out
    assert {path.suffix for path in (tmp_path / "report").iterdir()} >= {".html", ".json", ".xml"}
    assert main(["validate", EXAMPLE, "-m", "digits", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "pass"
    assert document["proved_by"]["server"] == "2.51.0"
    assert main(["validate", EXAMPLE, "-m", "digits", "--format", "junit"]) == 0
    assert ElementTree.fromstring(capsys.readouterr().out).tag == "testsuites"


def test_validate_of_what_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """No such model, no such repository, no such server."""
    port = free_port()
    cases = {
        2: [["validate", EXAMPLE, "-m", "nothing"], ["validate", "/nowhere"], ["validate", EXAMPLE, "--header", "x"]],
        3: [["validate", "-u", f"127.0.0.1:{port}"], ["validate", EXAMPLE, "--server", "/nowhere/tritonserver"]],
    }
    for code, lines in cases.items():
        for argv in lines:
            assert main(argv) == code, argv
            assert capsys.readouterr().err.count("error: ") == 1


def test_perf_prints_a_table_json_and_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The real perf_analyzer, loosely bounded because a test machine is never quiet."""
    argv = ["perf", EXAMPLE, "-m", "digits", "--concurrency", "2", "--interval-ms", "500"]
    loose = ["--", "--stability-percentage", "999"]
    assert main([*argv, "--report", str(tmp_path / "report"), *loose]) == 0
    assert "rows/s" in capsys.readouterr().out
    assert {path.suffix for path in (tmp_path / "report").iterdir()} >= {".html", ".json", ".csv"}
    assert main([*argv, "--format", "json", *loose]) == 0
    point = json.loads(capsys.readouterr().out)["points"][0]
    assert point["concurrency"] == 2
    assert point["throughput_per_s"] > 0
    assert main(["perf", EXAMPLE, "-m", "digits", "--concurrency", "1", "--request-rate-range", "1"]) == 2


def test_doctor_finds_the_server_and_the_analyzer(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything the main job needs is here, so exit 0."""
    assert main(["doctor", "--format", "json"]) == 0
    found = {row["name"]: row["status"] for row in json.loads(capsys.readouterr().out)["findings"]}
    assert found["tritonserver"] == found["perf_analyzer"] == found["torch"] == "ok"
    assert main(["doctor"]) == 0
    assert "tritonserver" in capsys.readouterr().out
    assert main(["doctor", "--server", "/nowhere/tritonserver"]) == 3
