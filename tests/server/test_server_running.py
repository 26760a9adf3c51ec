"""A real tritonserver: found, started, waited for, asked and stopped."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton
from onnx import TensorProto, helper

from aitune.errors import RepositoryError, ServerError
from aitune.triton import server as server_module
from aitune.triton.discovery import find_server
from aitune.triton.programs import BinaryProgram, Ports
from aitune.triton.server import LocalServer, RemoteServer

pytestmark = pytest.mark.server

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """backend: "onnxruntime"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: %s }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
instance_group { kind: KIND_CPU count: 1 }
"""


def publish(root: Path, name: str, *, dims: str = "2") -> Path:
    """A model that doubles; ``dims`` other than 2 break it."""
    version = root / name / "1"
    version.mkdir(parents=True)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "double",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), version / "model.onnx"
    )
    (root / name / "config.pbtxt").write_text(CONFIG % dims)
    return root / name


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one model."""
    root = tmp_path / "repository"
    publish(root, "double")
    return root


def double(server: LocalServer, model: str = "double") -> list[list[float]]:
    """One request."""
    sent = triton.InferInput("x", [1, 2], "FP32")
    sent.set_data_from_numpy(np.array([[1, 2]], dtype=np.float32))
    with triton.InferenceServerClient(server.grpc) as client:
        return client.infer(model, [sent]).as_numpy("y").tolist()


def gone(pid: int, *, within_s: float = 15.0) -> bool:
    """Whether a process ends in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def listens(address: str) -> bool:
    """Whether anything accepts connections there."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex((host, int(port))) == 0


def regions(pid: int) -> set[str]:
    """The shared memory that a process has mapped."""
    return set(re.findall(r"/dev/shm/\S+", Path(f"/proc/{pid}/maps").read_text()))


def test_a_server_lives_as_long_as_its_block(repository: Path, tmp_path: Path) -> None:
    """It answers on loopback, says what it is, and leaves no process, port or shared memory behind."""
    with LocalServer(repository, log=tmp_path / "log") as server:
        assert double(server) == [[2, 4]]
        assert listens(server.http)
        assert listens(server.metrics)
        proof = server.proved_by().to_json()
        pid, mapped = server.pid, regions(server.pid)
    assert gone(pid)
    assert not listens(server.http)
    assert [name for name in mapped if Path(name).exists()] == []
    assert proof["implementation"] == find_server().implementation
    assert proof["server"]
    assert "successfully loaded 'double'" in (tmp_path / "log").read_text()


def test_a_server_that_is_not_given_the_time_leaves_no_memory_behind(repository: Path) -> None:
    """Stopped at once, Triton forgets the shared memory of its stubs; we do not."""
    with LocalServer(repository, exit_timeout_s=0, program=find_server("wheel")) as server:
        mapped = regions(server.pid)
    assert mapped
    assert [name for name in mapped if Path(name).exists()] == []


def test_nothing_listens_beyond_this_machine(repository: Path) -> None:
    """No socket of the server is bound to another address than 127.0.0.1."""
    with LocalServer(repository) as server:
        ports = {f"{int(address.rpartition(':')[2]):04X}" for address in (server.http, server.grpc, server.metrics)}
        rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
        bound = {row[1] for row in rows[1:] if len(row) > 3 and row[3] == "0A" and row[1].rpartition(":")[2] in ports}
    assert len(bound) == 3
    assert {address.partition(":")[0][-8:] for address in bound} == {"0100007F"}  # gRPC's is the mapped form


def test_a_model_that_fails_is_told_with_its_reason(repository: Path) -> None:
    """The server serves the others; a config that does not parse has its reason from the log."""
    publish(repository, "wrong", dims="3")
    publish(repository, "unreadable", dims="oops")
    with LocalServer(repository) as server:
        rows = {row.name: row for row in server.models()}
        assert double(server) == [[2, 4]]
    assert rows["double"].ready
    assert "the model expects 2 dimensions (shape [-1,2])" in rows["wrong"].reason
    assert "failed to read text proto" in rows["unreadable"].reason
    assert "At:" not in rows["wrong"].reason


def test_a_failing_model_can_be_the_servers_failure(repository: Path) -> None:
    """exit_on_error: one line with the model's reason, and the log is kept for the hint."""
    publish(repository, "wrong", dims="3")
    with pytest.raises(ServerError, match=r"before it was ready: wrong: .*expects 2 dim") as error:
        LocalServer(repository, exit_on_error=True).__enter__()
    assert "\n" not in str(error.value)
    log = Path(error.value.hint.removeprefix("its log: "))
    assert "wrong" in log.read_text()
    log.unlink()


def test_a_load_that_never_ends_is_named(repository: Path, tmp_path: Path) -> None:
    """The Python backend waits for ever for a model.py that is not there; we do not."""
    (repository / "endless" / "1").mkdir(parents=True)
    (repository / "endless" / "config.pbtxt").write_text('backend: "python"')
    with pytest.raises(ServerError, match=r"not ready within 6 s; still loading: 'endless'$"):
        LocalServer(repository, ready_timeout_s=6, log=tmp_path / "log").__enter__()


ODD_NAMES = ["sp ace", "two  blanks", "se;mi", "it's", 'qu"ote', "$(touch pwned)", "`touch pwned`", "a&b|c>d", "*", "ü"]


def test_no_name_reaches_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that would break the Python backend's command line, or run as one, load and answer."""
    root = tmp_path / "re po'si$(touch pwned)tory"
    for name in ODD_NAMES:
        publish(root, name)
    monkeypatch.chdir(tmp_path)
    with LocalServer(root) as server:
        assert {row.name for row in server.models() if row.ready} == set(ODD_NAMES)
        assert [double(server, name) for name in ODD_NAMES] == [[[2, 4]]] * len(ODD_NAMES)
    assert not list(tmp_path.rglob("pwned*"))
    assert [entry.name for entry in tmp_path.iterdir()] == [root.name]


def test_a_file_name_from_a_config_is_not_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """default_model_filename is data from elsewhere."""
    folder = publish(tmp_path / "repository", "odd")
    name = "$(touch pwned);.onnx"
    (folder / "1" / "model.onnx").rename(folder / "1" / name)
    with (folder / "config.pbtxt").open("a") as stream:
        stream.write(f'default_model_filename: "{name}"\n')
    monkeypatch.chdir(tmp_path)
    with LocalServer(tmp_path / "repository") as server:
        assert double(server, "odd") == [[2, 4]]
    assert not list(tmp_path.rglob("pwned*"))


def test_modules_in_the_working_directory_are_not_imported(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server started beside a folder named like a library still finds the library."""
    for name in ("onnxruntime", "numpy"):
        (repository.parent / name).mkdir()
        (repository.parent / name / "__init__.py").write_text("raise ImportError('the wrong one')")
    monkeypatch.chdir(repository.parent)
    with LocalServer("repository", extra_args=["--log-verbose=0"]) as server:
        assert double(server) == [[2, 4]]


def test_a_port_that_is_taken_is_one_line(repository: Path) -> None:
    """The message has the port and what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=f"port {port} on 127.0.0.1 cannot be used") as error:
            LocalServer(repository, grpc_port=port).__enter__()
    assert "another port" in error.value.hint


@pytest.mark.parametrize("kind", ["http", "grpc", "metrics"])
def test_a_port_lost_to_another_program_is_chosen_anew(
    repository: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Between our look and the server's start somebody may take a port that was free."""
    choose, calls = server_module._ports, []

    def racing(wanted: tuple[int | None, ...]) -> Ports:
        ports = choose(wanted)
        calls.append(ports)
        if len(calls) > 1:
            return ports
        taken.bind(("127.0.0.1", getattr(ports, kind)))
        taken.listen()
        return ports

    monkeypatch.setattr(server_module, "_ports", racing)
    with socket.socket() as taken, LocalServer(repository) as server:
        assert double(server) == [[2, 4]]
    assert len(calls) == 2


@pytest.mark.parametrize(("attempts", "starts"), [(3, 3), (1, 1)])
def test_a_crash_by_chance_is_tried_again(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: int, starts: int
) -> None:
    """The Python backend's own crash on a starved machine, here put into a program's mouth; in the end it is told."""
    count = tmp_path / "count"
    fake = tmp_path / "bin" / "tritonserver"
    fake.parent.mkdir()
    said = "terminate called after throwing an instance of 'boost::interprocess::lock_exception'"
    fake.write_text(f'#!/bin/sh\necho x >> {count}\necho "{said}"\nkill -ABRT $$\n')
    fake.chmod(0o755)
    monkeypatch.setattr(server_module, "_ATTEMPTS", attempts)
    wheel = find_server("wheel")
    assert isinstance(wheel, BinaryProgram)
    program = BinaryProgram(path=fake, backends=wheel.backends, stub=wheel.stub, origin="test")
    with pytest.raises(ServerError, match="crashed with boost::interprocess::lock_exception before it was ready"):
        LocalServer(repository, program=program, log=tmp_path / "log").__enter__()
    assert count.read_text().count("x") == starts


def test_ports_can_be_chosen(repository: Path) -> None:
    """All three."""
    free = server_module._ports((None, None, None))
    with LocalServer(
        repository, http_port=free.http, grpc_port=free.grpc, metrics_port=free.metrics, extra_args=["--id=mine"]
    ) as server:
        assert server.http == f"127.0.0.1:{free.http}"
        assert double(server) == [[2, 4]]


def test_explicit_mode_loads_what_is_asked_for(repository: Path) -> None:
    """And nothing else."""
    publish(repository, "other")
    with LocalServer(repository, explicit=True, load_models=["other"]) as server:
        assert [row.name for row in server.models() if row.ready] == ["other"]


def test_poll_mode_notices_a_new_model(repository: Path, tmp_path: Path) -> None:
    """Within a few seconds."""
    publish(tmp_path / "elsewhere", "late")
    with LocalServer(repository, poll=True) as server:
        shutil.move(tmp_path / "elsewhere" / "late", repository / "late")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not {"late"} <= {row.name for row in server.models() if row.ready}:
            time.sleep(0.2)
        assert double(server, "late") == [[2, 4]]
    assert not list(repository.rglob("__pycache__"))


def test_an_overlay_is_preferred_when_named(repository: Path) -> None:
    """configs/cpu.pbtxt in place of config.pbtxt."""
    folder = repository / "double"
    (folder / "configs").mkdir()
    (folder / "configs" / "cpu.pbtxt").write_text(
        CONFIG % "2" + 'parameters { key: "who" value { string_value: "cpu" } }'
    )
    with (
        LocalServer(repository, model_config_name="cpu") as server,
        triton.InferenceServerClient(server.grpc) as client,
    ):
        assert client.get_model_config("double").config.parameters["who"].string_value == "cpu"


def test_strict_mode_completes_nothing(repository: Path) -> None:
    """A model without a config is refused."""
    (publish(repository, "bare") / "config.pbtxt").unlink()
    with LocalServer(repository, strict=True) as server:
        assert {row.name: row.ready for row in server.models()} == {"bare": False, "double": True}


def test_a_repository_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    """Before anything is started."""
    (tmp_path / "file").touch()
    with pytest.raises(RepositoryError, match="is not a directory"):
        LocalServer(tmp_path / "file").__enter__()


@pytest.fixture
def parent(repository: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another Python that holds a server, and the server's process id."""
    code = "import sys, time\nfrom aitune.triton.server import LocalServer\n"
    code += "with LocalServer(sys.argv[1]) as server:\n    print(server.pid, flush=True)\n    time.sleep(120)\n"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(repository)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
        process.kill()


def test_ctrl_c_stops_the_server(parent: tuple[subprocess.Popen[str], int]) -> None:
    """The interrupted program leaves no server behind."""
    process, pid = parent
    process.send_signal(signal.SIGINT)
    assert process.wait(30) != 0
    assert gone(pid, within_s=1)


def test_a_killed_program_leaves_no_server_behind(parent: tuple[subprocess.Popen[str], int]) -> None:
    """The kernel tells the server."""
    process, pid = parent
    process.kill()
    assert gone(pid)


def test_a_running_server_is_described_from_outside(repository: Path) -> None:
    """By URL: models, version, and which backend answers; what is not there is one line."""
    with LocalServer(repository) as server:
        remote = RemoteServer(server.http, grpc=server.grpc)
        assert [(row.name, row.ready) for row in remote.models()] == [("double", True)]
        assert remote.proved_by().implementation == server.proved_by().implementation
    with pytest.raises(ServerError, match="no Triton answers at"):
        remote.models()
