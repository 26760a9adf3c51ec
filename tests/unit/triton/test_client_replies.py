"""What clients make of replies and failures, without a network."""

from __future__ import annotations

import http.client
import json
import socket
import ssl

import grpc
import numpy as np
import pytest

from aitune.errors import ServerError, UsageError
from aitune.records import DType
from aitune.triton import client_errors as errors
from aitune.triton.client import Client, connect
from aitune.triton.client_grpc import GrpcTransport
from aitune.triton.client_http import HttpTransport
from aitune.triton.client_http_failures import broken, failure, stranger
from aitune.triton.client_http_forms import Reply, request_header, statistics_of, tensors
from aitune.triton.client_records import IndexEntry, ModelStatistics, WireTensor
from aitune.triton.endpoint import Endpoint, Tls

HTTP = Endpoint(protocol="http", host="h", port=8000)
GRPC = Endpoint(protocol="grpc", host="h", port=8001)


def reply(status: int, body: bytes) -> Reply:
    """A reply without headers."""
    return Reply(status, {}, body)


@pytest.mark.parametrize(
    ("status", "body", "path", "kind"),
    [
        (
            403,
            b'{"error":"This API is restricted, expecting header \'k\'"}',
            "v2/models/m/config",
            errors.EndpointRestricted,
        ),
        (403, b"forbidden", "v2", errors.AccessDenied),
        (401, b"", "v2", errors.AccessDenied),
        (404, b'{"error":"Request for unknown model"}', "v2/models/m", errors.ModelAbsent),
        (404, b"<html>nginx</html>", "v2/models/m", errors.WrongProtocol),
        (502, b"bad gateway", "v2/models/m/infer", errors.WrongProtocol),
        (400, b'{"error":"unexpected shape"}', "v2/models/m/infer", errors.InferenceRefused),
        (500, b'{"error":"no"}', "v2/repository/index", ServerError),
    ],
)
def test_a_failed_reply_has_its_own_error(status: int, body: bytes, path: str, kind: type) -> None:
    """Status, sender and path decide; the words of the server are kept."""
    assert type(failure(reply(status, body), path, HTTP)) is kind


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (TimeoutError(), errors.ServerTimeout, "within 3 s"),
        (ConnectionRefusedError(111, "refused"), errors.ServerUnreachable, "connection refused"),
        (socket.gaierror(-2, "unknown"), errors.ServerUnreachable, "host 'h' is unknown"),
        (http.client.BadStatusLine("\x00"), errors.WrongProtocol, "does not speak HTTP"),
        (http.client.BadStatusLine("SSH-2.0-x\r\n"), errors.WrongProtocol, "does not speak HTTP, it says 'SSH-2.0-x'"),
        (http.client.RemoteDisconnected("closed"), errors.ServerUnreachable, "broke: closed"),
        (http.client.IncompleteRead(b""), errors.ServerUnreachable, "broke: IncompleteRead"),
        (ssl.SSLError(1, "WRONG_VERSION_NUMBER"), errors.TlsFailure, "TLS with"),
    ],
)
def test_a_broken_exchange_has_its_own_error(error: Exception, kind: type, words: str) -> None:
    """Each is one line with the address in it."""
    found = broken(error, HTTP, 3.0)
    assert type(found) is kind
    assert words in found.message
    assert "\n" not in found.message


@pytest.mark.parametrize(
    ("found", "metrics", "words", "hint"),
    [
        (
            reply(405, b""),
            reply(200, b"# HELP nv_inference_count x"),
            "is the metrics port",
            "give its HTTP port (8000",
        ),
        (reply(200, b""), reply(200, b"# HELP nv_inference_count x"), "is the metrics port", "grpc://"),
        (reply(200, b""), reply(200, b"# HELP go_threads"), "answered /v2 with nothing", "is this a Triton server?"),
        (reply(405, b""), reply(404, b""), "answered /v2 with status 405", "is this a Triton server?"),
    ],
)
def test_a_reply_that_triton_never_gives_says_whose_it_is(found: Reply, metrics: Reply, words: str, hint: str) -> None:
    """The metrics port answers every path, mostly with nothing: it is told by its metrics."""
    error = stranger(found, "v2", HTTP, metrics=metrics)
    assert type(error) is errors.WrongProtocol
    assert words in error.message
    assert hint in error.hint


def test_codes_tell_the_errors_apart() -> None:
    """Two errors never share a code, and all end with exit 3."""
    kinds = [kind for name in errors.__all__ if isinstance(kind := getattr(errors, name), type)]
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert {kind.exit_code for kind in kinds} == {3}


class Status(grpc.RpcError):
    """What a failed call raises."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        """The status."""
        return self._code

    def details(self) -> str:
        """Its words."""
        return self._details


@pytest.mark.parametrize(
    ("code", "details", "kind"),
    [
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", errors.ServerTimeout),
        ("UNAVAILABLE", "This protocol is restricted, expecting header 'k'", errors.EndpointRestricted),
        ("UNAUTHENTICATED", "token", errors.AccessDenied),
        ("PERMISSION_DENIED", "no", errors.AccessDenied),
        ("NOT_FOUND", "Request for unknown model", errors.ModelAbsent),
        ("UNIMPLEMENTED", "unknown service", errors.WrongProtocol),
        ("UNAVAILABLE", "Exceeds maximum queue size", errors.InferenceRefused),
        ("INVALID_ARGUMENT", "unexpected shape", errors.InferenceRefused),
    ],
)
def test_a_grpc_status_has_its_own_error(code: str, details: str, kind: type) -> None:
    """A full queue is a refusal, not a lost connection."""
    transport = GrpcTransport(GRPC, 3.0)
    found = transport._failure(Status(grpc.StatusCode[code], details), 3.0, errors.InferenceRefused)
    assert type(found) is kind
    transport.close()


def test_grpc_always_checks_certificates() -> None:
    """It cannot be told not to, so the wish is refused."""
    with pytest.raises(UsageError, match="cannot leave out"):
        GrpcTransport(Endpoint.parse("grpcs://h", tls=Tls(verify=False)), 1.0)


def test_a_closed_connection_is_unreachable() -> None:
    """Not a ValueError from inside grpc."""
    client = connect(GRPC)
    client.close()
    with pytest.raises(errors.ServerUnreachable, match="is closed"):
        client.live()


def test_a_request_travels_in_binary_form() -> None:
    """The head names sizes, the bytes follow."""
    tensor = WireTensor(name="x", datatype="FP32", shape=(1, 2), data=bytes(8))
    head = json.loads(request_header([tensor], ["y"]))
    assert head["inputs"][0]["parameters"] == {"binary_data_size": 8}
    assert head["outputs"] == [{"name": "y", "parameters": {"binary_data": True}}]


def test_a_binary_reply_is_taken_apart() -> None:
    """Each output gets its own bytes."""
    rows = [("a", 4), ("b", 2)]
    outputs = [
        {"name": name, "datatype": "UINT8", "shape": [size], "parameters": {"binary_data_size": size}}
        for name, size in rows
    ]
    head = json.dumps({"outputs": outputs}).encode()
    found = tensors(Reply(200, {"inference-header-content-length": str(len(head))}, head + b"aaaabb"), "http://h")
    assert [(tensor.name, tensor.data) for tensor in found] == [("a", b"aaaa"), ("b", b"bb")]


@pytest.mark.parametrize("body", [b"<html>", b'{"outputs":[{"name":"y"}]}', b'{"outputs":3}'])
def test_a_reply_in_another_form_is_refused(body: bytes) -> None:
    """Something that is no Triton answered."""
    with pytest.raises(errors.WrongProtocol, match="binary form"):
        tensors(reply(200, body), "http://h")


def test_statistics_grow() -> None:
    """What happened between two looks, also per batch size."""
    row = {
        "version": "1",
        "inference_count": 9,
        "execution_count": "4",
        "inference_stats": {"success": {"count": 8}},
        "batch_stats": [
            {"batch_size": 2, "compute_infer": {"count": 3}},
            {"batch_size": 1, "compute_infer": {"count": 1}},
        ],
    }
    before = ModelStatistics(version="1", inferences=1, executions=1, succeeded=1, failed=0, batches=((1, 1),))
    grown = statistics_of(row).since(before)
    assert (grown.inferences, grown.executions, grown.succeeded, grown.batches) == (8, 3, 7, ((2, 3),))


class Stub:
    """A transport that knows one broken model."""

    def __init__(self, rows: tuple[IndexEntry, ...], error: ServerError) -> None:
        self._rows, self._error = rows, error

    def index(self) -> tuple[IndexEntry, ...]:
        """The index."""
        return self._rows

    def metadata(self, name: str, version: str) -> None:
        """Nothing there."""
        raise self._error

    config = metadata

    def infer(self, *args: object) -> tuple[WireTensor, ...]:
        """Nothing there, or a tensor nobody can read."""
        if isinstance(self._error, ServerError):
            raise self._error
        return (self._error,)

    def statistics(self, name: str, version: str) -> tuple[ModelStatistics, ...]:
        """None."""
        return ()


BROKEN = IndexEntry(name="m", version="1", state="UNAVAILABLE", reason="Internal: no\n memory")
READY = IndexEntry(name="m", version="1", state="READY", reason="")


@pytest.mark.parametrize(
    ("rows", "kind"), [((BROKEN,), errors.ModelNotReady), ((), errors.ModelAbsent), ((READY,), errors.ModelAbsent)]
)
def test_absent_and_not_ready_are_told_apart(rows: tuple[IndexEntry, ...], kind: type) -> None:
    """The index knows, and gives the reason in one line."""
    client = Client(Stub(rows, errors.ModelAbsent("not found")), HTTP, 1.0)
    for call in (client.metadata, client.config, lambda name: client.infer(name, "1", {})):
        with pytest.raises(kind):
            call("m")


def test_a_refusal_for_not_being_ready_is_told_as_such() -> None:
    """Triton has no status for it; other refusals stay what they are."""
    words = "Request for unknown model: 'm' version 1 is not at ready state"
    client = Client(Stub((BROKEN,), errors.InferenceRefused(words)), HTTP, 1.0)
    with pytest.raises(errors.ModelNotReady, match="Internal: no memory"):
        client.infer("m", "1", {})
    client = Client(Stub((BROKEN,), errors.InferenceRefused("unexpected shape")), HTTP, 1.0)
    with pytest.raises(errors.InferenceRefused, match="unexpected shape"):
        client.infer("m", "1", {"x": (np.zeros(1, np.float32), DType.FLOAT32)})


@pytest.mark.parametrize(("datatype", "data"), [("FP32", b"abc"), ("INT4", b"")])
def test_an_unreadable_answer_is_no_crash(datatype: str, data: bytes) -> None:
    """Bytes that do not fit, and types that nobody knows."""
    tensor = WireTensor(name="y", datatype=datatype, shape=(1,), data=data)
    with pytest.raises(errors.WrongProtocol, match="unreadable tensor 'y'"):
        Client(Stub((), tensor), HTTP, 1.0).infer("m", "", {})


def test_statistics_of_an_unknown_version_are_absent() -> None:
    """Not an empty success."""
    with pytest.raises(errors.ModelAbsent, match="no statistics"):
        Client(Stub((), errors.ModelAbsent("x")), HTTP, 1.0).statistics("m", "1")


def test_each_protocol_has_its_transport() -> None:
    """Nothing is sent by connecting."""
    with connect(HTTP) as first, connect(GRPC) as second:
        assert (first.protocol, second.protocol) == ("http", "grpc")
        assert isinstance(first._transport, HttpTransport)
