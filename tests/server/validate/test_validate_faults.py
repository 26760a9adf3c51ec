"""What happens to ``validate`` when something happens to the server: one line, a code of its own, and never a hang."""

from __future__ import annotations

import json
import os
import signal
import socket
import textwrap
import threading
import time
from collections.abc import Iterator

import pytest

from aitune.cli import main
from aitune.triton.server import LocalServer
from aitune.triton.validation import validate

pytestmark = pytest.mark.server


class Meanwhile:
    """A gateway that does something at the third request."""

    def __init__(self, happen) -> None:
        self.happen, self.count = happen, 0

    def request(self, path: str, body: bytes) -> bytes:
        """Unchanged."""
        self.count += path.endswith("/infer")
        if self.count == 3:
            self.happen()
        return body

    def answer(self, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        """Unchanged."""
        return status, body


@pytest.fixture(scope="module")
def served(make_bench, tmp_path_factory) -> Iterator[tuple]:
    """A model that is well, one that does not load, and no list of them for strangers."""
    bench = make_bench(tmp_path_factory.mktemp("faults"))
    bench.publish(bench.linear())
    (bench.publish(bench.linear(), "broken") / "model.onnx").write_bytes(b"cut")
    closed = ("--http-restricted-api=model-repository:key=secret",)
    with LocalServer(bench.repository, extra_args=closed) as server:
        yield bench, server


@pytest.fixture
def code(capsys):
    """Runs the command line, which must fail with exit 3 and one line; gives the word of its error back."""

    def code(*argv: str) -> str:
        began = time.monotonic()
        assert main(["validate", *argv, "--format", "json", "--no-progress"]) == 3
        assert time.monotonic() - began < 20
        out, err = capsys.readouterr()
        assert len([line for line in err.splitlines() if line.startswith("error: ")]) == 1
        return str(json.loads(out)["error"]["code"])

    return code


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (("-u", "127.0.0.1:9"), "E_UNREACHABLE"),
        (("-u", "grpc://127.0.0.1:9"), "E_UNREACHABLE"),
        (("-u", "https://{http}"), "E_TLS"),
        (("-u", "grpcs://{grpc}"), "E_TLS"),
        (("-u", "grpc://{http}"), "E_PROTOCOL"),
        (("-u", "http://{grpc}"), "E_PROTOCOL"),
        (("-u", "http://{metrics}"), "E_PROTOCOL"),
        (("-u", "http://{metrics}", "-m", "linear"), "E_PROTOCOL"),
        (("-u", "grpc://{metrics}"), "E_PROTOCOL"),
        (("-u", "http://{http}"), "E_RESTRICTED"),
        (("-u", "http://{http}", "-m", "nothing"), "E_MODEL_ABSENT"),
        (("-u", "grpc://{grpc}", "-m", "linear", "--header", "bad name: x"), "E_USAGE"),
    ],
)
def test_each_kind_of_wrong_has_its_code(argv: tuple[str, ...], word: str, served, code, capsys) -> None:
    """Refused, wrong scheme, TLS to a plain port, a closed list, an absent model."""
    _, server = served
    argv = tuple(text.format(http=server.http, grpc=server.grpc, metrics=server.metrics) for text in argv)
    if word == "E_USAGE":
        assert main(["validate", *argv]) == 2
        return
    assert code(*argv) == word


def test_a_model_that_is_not_ready_is_a_verdict_with_the_servers_reason(served, capsys) -> None:
    """Exit 1: the server is well, the model is not."""
    bench, server = served
    assert main(["validate", str(bench.repository), "-m", "broken", "-u", f"grpc://{server.grpc}"]) == 1
    assert "FAIL  ready" in capsys.readouterr().out


def test_a_server_that_is_killed_in_the_middle_is_unreachable(make_bench, tmp_path, stand_before, code) -> None:
    """No verdict on its models, and no hang."""
    bench = make_bench(tmp_path)
    bench.publish(bench.linear())
    with LocalServer(bench.repository) as server:
        with stand_before(server.http, Meanwhile(lambda: os.kill(server.pid, signal.SIGKILL))) as url:
            assert code("-u", url) == "E_UNREACHABLE"
        assert server.wait(10) == -signal.SIGKILL


def test_a_server_that_becomes_slow_in_the_middle_times_out(served, stand_before, code) -> None:
    """After the time that was given."""
    _, server = served
    with stand_before(server.http, Meanwhile(lambda: time.sleep(3))) as url:
        assert code("-u", url, "-m", "linear", "--timeout", "0.5") == "E_TIMEOUT"


def test_a_server_that_never_answers_times_out(code) -> None:
    """It accepts, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        held: list[socket.socket] = []
        threading.Thread(target=lambda: held.append(door.accept()[0]), daemon=True).start()
        assert code("-u", f"127.0.0.1:{door.getsockname()[1]}", "--timeout", "0.5") == "E_TIMEOUT"
        [connection.close() for connection in held]


def test_a_server_that_denies_access_says_so(served, stand_before, code) -> None:
    """A proxy before it wants credentials."""

    class Closed:
        request = staticmethod(lambda path, body: body)
        answer = staticmethod(lambda path, status, body: (401, b"who are you?"))

    _, server = served
    with stand_before(server.http, Closed()) as url:
        assert code("-u", url) == "E_ACCESS"


def test_a_server_of_our_own_that_dies_is_a_failed_check(bench) -> None:
    """A request beyond the bounds takes the whole server with it; the report says which check it was, and ends."""
    x, y = bench.free_axis()
    axis = {"axis": bench.tools.np.array([1])}
    path = bench.tools.graph(bench.folder / "m" / "model.onnx", bench.tools.REDUCE, [x], [y], axis)
    folder = bench.publish(bench.record(path, [x], [y], {"x": (1, 4)}), "m")
    config = folder.parent / "config.pbtxt"
    text = config.read_text().replace('backend: "onnxruntime"', 'backend: "python"')
    config.write_text(text.replace('"model.onnx"', '"model.py"'))
    (folder / "model.py").write_text(
        textwrap.dedent("""
        import os, triton_python_backend_utils as pb
        class TritonPythonModel:
            def execute(self, requests):
                xs = [pb.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
                if any(x.shape[1] > 8 for x in xs):
                    os.kill(os.getppid(), 9)
                return [pb.InferenceResponse([pb.Tensor("y", x.sum(1, keepdims=True))]) for x in xs]
        """)
    )
    bench.publish(bench.linear(), "next")
    report, after = validate(bench.repository, timeout_s=5).models
    last = report.checks[-1]
    assert (last.name, last.status) == ("bounds", "fail"), report
    assert "the server stopped answering" in last.detail
    assert "the server is gone since an earlier check" in after.checks[0].detail
