"""Whose server it is: our own, a stranger's by URL, behind a TLS proxy, restricted, drifted, gone."""

from __future__ import annotations

import http.client
import http.server
import os
import shutil
import signal
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aitune.errors import RepositoryError, ServerError, UsageError
from aitune.triton import client_errors as errors
from aitune.triton.client import connect
from aitune.triton.endpoint import Endpoint, Tls
from aitune.triton.server import LocalServer
from aitune.triton.validation import validate
from aitune.triton.validation_report import junit

pytestmark = pytest.mark.server


@dataclass
class Proxy:
    """An HTTPS proxy with a path prefix that notes what passes through it.

    Attributes:
        url: Where it listens.
        tls: What a client needs to trust it.
        seen: (method, path) pairs.
        token: The Authorization it wants; None for any.
    """

    url: str
    tls: Tls
    seen: list[tuple[str, str]]
    token: str | None = None


@pytest.fixture(scope="module")
def served(make_bench, tmp_path_factory) -> Iterator[tuple]:
    """Two versions of one model and a model with a free axis, on a server that is not validate's own."""
    bench = make_bench(tmp_path_factory.mktemp("served"))
    bench.publish(bench.linear(0))
    bench.publish(bench.linear(1))
    with LocalServer(bench.repository) as server:
        yield bench, server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[Path, Path]:
    """A certificate for localhost and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    argv = ["openssl", *words.split(), "-keyout", str(key), "-out", str(cert)]
    subprocess.run(argv, check=True, capture_output=True)
    return cert, key


@pytest.fixture
def proxy(served, certificate) -> Iterator[Proxy]:
    """The server behind ``https://localhost:PORT/team/a``."""
    _, server = served
    found = Proxy(url="", tls=Tls(ca=certificate[0]), seen=[])

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.removeprefix("/team/a")
            found.seen.append((self.command, path))
            if found.token is not None and self.headers.get("Authorization") != found.token:
                self.answer(401, {}, b"who are you?")
                return
            upstream = http.client.HTTPConnection(server.http, timeout=30)
            kept = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
            upstream.request(self.command, path, body, kept)
            reply = upstream.getresponse()
            data = reply.read()
            names = ("Content-Type", "Inference-Header-Content-Length")
            self.answer(reply.status, {n: reply.headers[n] for n in names if reply.headers.get(n)}, data)
            upstream.close()

        def answer(self, status: int, headers: dict, data: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = pass_on

        def log_message(self, *args: object) -> None:
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    found.url = f"https://localhost:{httpd.server_address[1]}/team/a"
    yield found
    httpd.shutdown()
    httpd.server_close()


def statuses(report) -> dict[str, str]:
    """Status by check, of the first model."""
    return {check.name: check.status for check in report.models[0].checks}


def test_a_server_alone_is_enough(served) -> None:
    """Without the repository the record is read from the server, and its weights are proved."""
    _, server = served
    report = validate(url=[f"grpc://{server.grpc}", f"http://{server.http}"])
    assert report.status == "pass", report
    assert report.models[0].version == "2"
    assert report.models[0].proved == report.models[0].claimed != ""
    assert report.proved_by.implementation == "aitune-python"
    skipped = {name for name, status in statuses(report).items() if status == "skip"}
    assert skipped == {"config", "shared_memory", "bounds", "refusals"}


def test_a_strangers_server_is_only_read_and_asked_twenty_times(served, proxy) -> None:
    """Through a TLS proxy with a path prefix: no load, no unload, no bad request, at most 20 requests."""
    bench, _ = served
    report = validate(bench.repository, url=proxy.url, tls=proxy.tls)
    asked = [path for method, path in proxy.seen if path.endswith("/infer")]
    assert 0 < len(asked) <= 20
    posts = {path for method, path in proxy.seen if method == "POST"} - set(asked)
    assert posts == {"/v2/repository/index"}
    assert report.status in ("pass", "warn"), report
    assert report.models[0].requests == len(asked)


def test_the_strangers_server_counts_no_failed_request(served) -> None:
    """Its own statistics are the witness."""
    bench, server = served
    with connect(Endpoint.parse(server.http)) as client:
        before = client.statistics("linear", "2")
        report = validate(bench.repository, url=server.http)
        grown = client.statistics("linear", "2").since(before)
    assert (grown.failed, grown.succeeded) == (0, report.models[0].requests)


def test_intrusive_makes_a_strangers_server_ours(served) -> None:
    """Bad requests are sent, and the batch is forced."""
    bench, server = served
    report = validate(bench.repository, url=f"grpc://{server.grpc}", intrusive=True)
    assert statuses(report)["refusals"] == "pass"
    assert report.models[0].requests > 20


def test_drift_from_the_repository_is_shown(served, tmp_path) -> None:
    """The server still serves version 2, the repository went back to 1."""
    from aitune.triton.restoration import rollback

    bench, server = served
    copy = tmp_path / "copy"
    shutil.copytree(bench.repository, copy)
    rollback(copy, "linear", version=1)
    report = validate(copy, url=[f"grpc://{server.grpc}", f"http://{server.http}"])
    first, second = report.models
    assert (first.version, first.checks[0].detail) == ("1", "version 1 is not on the server")
    assert any("version_policy" in note for check in second.checks for note in check.notes)
    assert report.failed


def test_credentials_are_sent_and_their_absence_is_one_line(served, proxy) -> None:
    """401 is neither a crash nor a verdict."""
    proxy.token = "Bearer right"
    with pytest.raises(errors.AccessDenied, match="status 401: who are you"):
        validate(url=proxy.url, tls=proxy.tls)
    report = validate(url=proxy.url, tls=proxy.tls, headers=(("Authorization", "Bearer right"),))
    assert report.status in ("pass", "warn")


def test_an_unknown_certificate_is_one_line(proxy) -> None:
    """Nobody vouches for it."""
    with pytest.raises(errors.TlsFailure, match=r"self.signed certificate"):
        validate(url=proxy.url)


def test_another_name_in_the_certificate_is_one_line(proxy) -> None:
    """It was made out to localhost."""
    with pytest.raises(errors.TlsFailure, match=r"not valid for '127\.0\.0\.1'"):
        validate(url=proxy.url.replace("localhost", "127.0.0.1"), tls=proxy.tls)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("grpc://127.0.0.1:9", errors.ServerUnreachable),
        ("http://127.0.0.1:9", errors.ServerUnreachable),
        ("grpc://{http}", errors.WrongProtocol),
        ("http://{grpc}", errors.WrongProtocol),
        ("https://{http}", errors.TlsFailure),
        ("grpcs://{grpc}", errors.TlsFailure),
        ("http://{metrics}", ServerError),
        ("http://name.invalid", errors.ServerUnreachable),
    ],
)
def test_a_wrong_address_has_its_own_error(url: str, kind: type, served) -> None:
    """Each kind of wrong is told apart, in one line, with exit 3."""
    _, server = served
    with pytest.raises(ServerError) as caught:
        validate(url=url.format(http=server.http, grpc=server.grpc, metrics=server.metrics), timeout_s=5)
    assert isinstance(caught.value, kind)
    assert "\n" not in str(caught.value)


def test_two_addresses_of_one_protocol_are_refused(served) -> None:
    """Which one would be meant?"""
    _, server = served
    with pytest.raises(UsageError, match="same protocol"):
        validate(url=[server.http, server.http])


def test_what_cannot_be_looked_at_is_bad_usage(served, tmp_path) -> None:
    """No such model, no such level, nothing given, no repository, an empty one."""
    _, server = served
    with pytest.raises(UsageError, match="no model matches 'nothing\\*'") as caught:
        validate(url=server.http, models=["nothing*"])
    assert "linear" in caught.value.hint
    with pytest.raises(UsageError, match="level must be"):
        validate(url=server.http, level="deep")
    with pytest.raises(UsageError, match="neither"):
        validate()
    with pytest.raises(RepositoryError, match="does not exist"):
        validate(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RepositoryError, match="is empty"):
        validate(tmp_path / "empty", url=server.http)


def test_a_restricted_config_is_a_skip_with_its_reason(served) -> None:
    """The operator closed it; that is no fault of the model."""
    bench, _ = served
    closed = ("--http-restricted-api=model-config,model-repository:key=secret",)
    with LocalServer(bench.repository, extra_args=closed) as server:
        with pytest.raises(ServerError, match="does not list its models"):
            validate(url=server.http)
        report = validate(url=server.http, models=["linear"])
        assert statuses(report) == {"config": "skip"}
        assert report.status == "warn"
        opened = validate(url=server.http, headers=(("key", "secret"),))
        assert opened.models[0].proved != ""


def test_a_server_that_is_killed_ends_in_one_line(bench) -> None:
    """A stranger's server that goes away is no verdict on its models: exit 3."""
    bench.publish(bench.linear())
    with LocalServer(bench.repository) as server, connect(Endpoint.parse(server.grpc, protocol="grpc")) as client:
        assert client.ready()
        os.kill(server.pid, signal.SIGKILL)
        server.wait(10)
        with pytest.raises(errors.ServerUnreachable):
            client.ready()
        with pytest.raises(errors.ServerUnreachable):
            validate(url=f"grpc://{server.grpc}")


def test_every_served_version_is_looked_at(bench) -> None:
    """Two versions side by side, each with its own weights."""
    first = bench.publish(bench.linear(0))
    bench.publish(bench.linear(1))
    config = first.parent / "config.pbtxt"
    config.write_text(config.read_text().replace("versions: [ 2 ]", "versions: [ 1, 2 ]"))
    report = validate(bench.repository)
    assert [model.version for model in report.models] == ["1", "2"]
    assert len({model.proved for model in report.models} - {""}) == 2, report
    assert junit(report).count("<testsuite ") == 2


def test_one_version_can_be_asked_for(served) -> None:
    """And one that is not there is bad usage."""
    _, server = served
    assert len(validate(url=server.http, version="2").models) == 1
    with pytest.raises(UsageError, match="version 7"):
        validate(url=server.http, version="7")


def test_the_artifact_itself_can_be_the_reference(bench) -> None:
    """Without samples, something that runs the file gives the answers."""
    bench.publish(bench.linear(samples=False))

    class Runner:
        """ONNX Runtime on the published file."""

        def __init__(self, path: Path) -> None:
            self.run = bench.tools.run_onnx(path)

        def close(self) -> None:
            """Nothing to free."""

    report = validate(bench.repository, open_artifact=Runner)
    (numbers,) = [check for check in report.models[0].checks if check.name == "numbers"]
    assert (numbers.status, "3 made-up requests" in numbers.detail) == ("pass", True)
