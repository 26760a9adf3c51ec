"""Triton over HTTP and HTTPS: the KServe v2 protocol with binary tensors, on the standard library's HTTP client.

Each thread has a connection of its own, kept open between requests. Every request has one deadline
for the whole of it, so that a server which sends a byte now and then cannot hold us for ever.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aitune.errors import ServerError
from aitune.triton.client_errors import (
    AccessDenied,
    EndpointRestricted,
    InferenceRefused,
    ModelAbsent,
    ServerTimeout,
    ServerUnreachable,
    TlsFailure,
    WrongProtocol,
)
from aitune.triton.client_records import (
    IndexEntry,
    ModelMetadata,
    ModelStatistics,
    ServerInfo,
    TensorMetadata,
    WireTensor,
)
from aitune.triton.endpoint import Endpoint
from aitune.triton.schema import model_config

__all__ = ["HttpTransport"]

_PIECE_BYTES = 1 << 16
_HEADER_LENGTH = "Inference-Header-Content-Length"


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpTransport:
    """One server over HTTP.

    Args:
        endpoint: Where it listens.
        timeout_s: Seconds a request may take.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._context = None if endpoint.tls is None else endpoint.tls.context()
        self._mine = threading.local()
        self._all: set[http.client.HTTPConnection] = set()

    def live(self) -> bool:
        """Whether the server process answers."""
        return self._healthy("v2/health/live")

    def ready(self) -> bool:
        """Whether the server says it is ready."""
        return self._healthy("v2/health/ready")

    def model_ready(self, name: str, version: str) -> bool:
        """Whether a version is loaded."""
        return self._healthy(f"{_model_path(name, version)}/ready")

    def server(self) -> ServerInfo:
        """Who answers."""
        found = self._json("GET", "v2")
        return ServerInfo(
            name=str(found.get("name", "")),
            version=str(found.get("version", "")),
            extensions=tuple(found.get("extensions", ())),
        )

    def config(self, name: str, version: str) -> object:
        """The served config as a ``ModelConfig`` message."""
        from google.protobuf import json_format

        found = self._json("GET", f"{_model_path(name, version)}/config")
        try:
            return json_format.ParseDict(found, model_config().ModelConfig(), ignore_unknown_fields=True)
        except json_format.ParseError as error:
            raise WrongProtocol(
                f"the config of {name!r} from {self._endpoint.url} is no ModelConfig: {error}"
            ) from error

    def metadata(self, name: str, version: str) -> ModelMetadata:
        """The served tensors."""
        found = self._json("GET", _model_path(name, version))
        return ModelMetadata(
            name=found["name"],
            versions=tuple(found.get("versions", ())),
            inputs=tuple(map(_tensor_metadata, found.get("inputs", ()))),
            outputs=tuple(map(_tensor_metadata, found.get("outputs", ()))),
        )

    def statistics(self, name: str, version: str) -> tuple[ModelStatistics, ...]:
        """Counters, one entry a version."""
        found = self._json("GET", f"{_model_path(name, version)}/stats")
        return tuple(map(_statistics, found["model_stats"]))

    def index(self) -> tuple[IndexEntry, ...]:
        """Every model the server knows."""
        return tuple(
            IndexEntry(
                name=row["name"],
                version=str(row.get("version", "")),
                state=row.get("state", ""),
                reason=row.get("reason", ""),
            )
            for row in self._json("POST", "v2/repository/index", b"{}")
        )

    def load(self, name: str, config: str | None) -> None:
        """Load or reload a model, with another config (JSON) if given."""
        body: dict[str, Any] = {} if config is None else {"parameters": {"config": config}}
        self._json("POST", f"v2/repository/models/{quote(name, safe='')}/load", json.dumps(body).encode())

    def unload(self, name: str) -> None:
        """Unload a model."""
        self._json("POST", f"v2/repository/models/{quote(name, safe='')}/unload", b"{}")

    def infer(
        self, name: str, version: str, inputs: Sequence[WireTensor], outputs: Sequence[str], timeout_s: float
    ) -> tuple[WireTensor, ...]:
        """Answers to one request; all outputs when none is named."""
        header = _request_header(inputs, outputs)
        body = b"".join([header, *(tensor.data for tensor in inputs)])
        path = f"{_model_path(name, version)}/infer"
        headers = {_HEADER_LENGTH: str(len(header)), "Content-Type": "application/octet-stream"}
        reply = self._request("POST", path, body, headers, timeout_s)
        self._demand_success(reply, path)
        return _tensors(reply, self._endpoint.url)

    def close(self) -> None:
        """Close every connection."""
        while self._all:
            self._all.pop().close()

    def _healthy(self, path: str) -> bool:
        reply = self._request("GET", path, None, {}, self._timeout_s)
        if reply.status in (401, 403):
            self._demand_success(reply, path)
        return reply.status == 200

    def _json(self, method: str, path: str, body: bytes | None = None) -> Any:
        headers = {} if body is None else {"Content-Type": "application/json"}
        reply = self._request(method, path, body, headers, self._timeout_s)
        self._demand_success(reply, path)
        if not reply.body:
            return {}
        try:
            return json.loads(reply.body)
        except ValueError as error:
            raise WrongProtocol(
                f"{self._endpoint.url} answered /{path} with something that is not JSON",
                hint="is this a Triton server? give the address of its HTTP port",
            ) from error

    def _demand_success(self, reply: _Reply, path: str) -> None:
        if reply.status == 200:
            return
        raise _failure(reply, path, self._endpoint)

    def _request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
    ) -> _Reply:
        """One request, tried once more when the server had closed a connection that lay idle."""
        deadline = time.monotonic() + timeout_s
        connection: http.client.HTTPConnection | None = getattr(self._mine, "connection", None)
        if connection is not None and connection.sock is not None:
            with suppress(http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                return self._exchange(connection, method, path, body, headers, deadline, timeout_s)
            self._drop(connection)
        return self._exchange(self._connect(timeout_s), method, path, body, headers, deadline, timeout_s, fresh=True)

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = self._endpoint.host, self._endpoint.port
        connection: http.client.HTTPConnection
        if self._context is None:
            connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=self._context)
        self._mine.connection = connection
        self._all.add(connection)
        return connection

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        self._all.discard(connection)
        connection.close()

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        deadline: float,
        timeout_s: float,
        fresh: bool = False,
    ) -> _Reply:
        try:
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(max(deadline - time.monotonic(), 0.001))
            target = quote(f"{self._endpoint.prefix}/", safe="/") + path
            connection.request(method, target, body=body, headers={**headers, **dict(self._endpoint.headers)})
            return _read(connection, deadline)
        except BaseException as error:
            self._drop(connection)  # whatever is still on the way belongs to no later request
            if not fresh and isinstance(error, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError):
                raise
            if isinstance(error, OSError | http.client.HTTPException):
                raise _broken(error, self._endpoint, timeout_s) from error
            raise


def _read(connection: http.client.HTTPConnection, deadline: float) -> _Reply:
    """The whole reply, or TimeoutError at the deadline."""
    sock = connection.sock
    response = connection.getresponse()
    pieces = []
    while True:
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError
        sock.settimeout(remaining_s)
        piece = response.read1(_PIECE_BYTES)
        if not piece:
            break
        pieces.append(piece)
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    headers = {name.lower(): value for name, value in response.getheaders()}
    response.close()  # else the connection takes it for unfinished
    return _Reply(response.status, headers, b"".join(pieces))


def _broken(error: Exception, endpoint: Endpoint, timeout_s: float) -> ServerError:
    """The typed form of an exchange that did not end with a reply."""
    url = endpoint.url
    if isinstance(error, TimeoutError):
        return ServerTimeout(
            f"no answer from {url} within {timeout_s:g} s", hint="is the server overloaded? give it a longer --timeout"
        )
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
        return TlsFailure(
            f"TLS with {url} failed: {str(reason).replace('_', ' ').lower()}",
            hint="check the scheme (http or https), the host name and the certificate files",
        )
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, http.client.RemoteDisconnected):
        return WrongProtocol(f"{url} does not speak HTTP", hint="is it the gRPC port? use grpc:// or -i grpc")
    if isinstance(error, ConnectionRefusedError):
        return ServerUnreachable(
            f"no server listens at {url}: connection refused", hint="start it, or check host and port"
        )
    if isinstance(error, socket.gaierror):
        return ServerUnreachable(f"host {endpoint.host!r} is unknown", hint="check the address of the server")
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return ServerUnreachable(f"the connection to {url} broke: {reason}", hint="is the server still running?")


def _failure(reply: _Reply, path: str, endpoint: Endpoint) -> ServerError:
    """The typed form of a reply that is not a success."""
    try:
        text = str(json.loads(reply.body)["error"])
        from_triton = True
    except (ValueError, KeyError, TypeError):
        text = " ".join(reply.body[:200].decode("utf-8", "replace").split()) or "no text"
        from_triton = False
    if reply.status == 403 and from_triton and "restricted" in text:
        return EndpointRestricted(
            f"/{path} of {endpoint.url} is restricted: {text}", hint="give the header with --header"
        )
    if reply.status in (401, 403, 407):
        return AccessDenied(
            f"{endpoint.url} denied access with status {reply.status}: {text}", hint="give credentials with --header"
        )
    if reply.status == 404 and from_triton and "models/" in path:
        return ModelAbsent(f"{endpoint.url}: {text}", hint="check the name and the version")
    if not from_triton:
        return WrongProtocol(
            f"{endpoint.url} answered /{path} with status {reply.status}: {text}",
            hint="is this a Triton server? check port and path prefix",
        )
    if path.endswith("/infer"):
        return InferenceRefused(text)
    return ServerError(f"{endpoint.url} refused /{path}: {text}")


def _model_path(name: str, version: str) -> str:
    tail = f"/versions/{quote(version, safe='')}" if version else ""
    return f"v2/models/{quote(name, safe='')}{tail}"


def _request_header(inputs: Sequence[WireTensor], outputs: Sequence[str]) -> bytes:
    header: dict[str, Any] = {
        "inputs": [
            {
                "name": tensor.name,
                "datatype": tensor.datatype,
                "shape": list(tensor.shape),
                "parameters": {"binary_data_size": len(tensor.data)},
            }
            for tensor in inputs
        ],
        "parameters": {"binary_data_output": True},
    }
    if outputs:
        header["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
    return json.dumps(header).encode()


def _tensors(reply: _Reply, url: str) -> tuple[WireTensor, ...]:
    """The tensors of a reply: a JSON head, then the bytes of each."""
    try:
        size = int(reply.headers.get(_HEADER_LENGTH.lower(), len(reply.body)))
        head, rest = json.loads(reply.body[:size]), reply.body[size:]
        tensors = []
        for row in head.get("outputs", ()):
            nbytes = row["parameters"]["binary_data_size"]
            data, rest = rest[:nbytes], rest[nbytes:]
            tensors.append(WireTensor(name=row["name"], datatype=row["datatype"], shape=tuple(row["shape"]), data=data))
    except (ValueError, KeyError, TypeError) as error:
        raise WrongProtocol(f"{url} answered a request with something that is not Triton's binary form") from error
    return tuple(tensors)


def _tensor_metadata(row: Mapping[str, Any]) -> TensorMetadata:
    return TensorMetadata(name=row["name"], datatype=row["datatype"], shape=tuple(int(size) for size in row["shape"]))


def _statistics(row: Mapping[str, Any]) -> ModelStatistics:
    timing = row.get("inference_stats", {})
    return ModelStatistics(
        version=str(row.get("version", "")),
        inferences=int(row.get("inference_count", 0)),
        executions=int(row.get("execution_count", 0)),
        succeeded=int(timing.get("success", {}).get("count", 0)),
        failed=int(timing.get("fail", {}).get("count", 0)),
        batches=tuple(
            (int(item["batch_size"]), int(item["compute_infer"]["count"])) for item in row.get("batch_stats", ())
        ),
    )
