"""Triton over HTTP and HTTPS: the KServe v2 protocol with binary tensors, on the standard library's HTTP client.

Each thread has a connection of its own, kept open between requests. Every request has one deadline
for the whole of it, so that a server which sends a byte now and then cannot hold us for ever.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from aitune.errors import ServerError
from aitune.triton.client_errors import WrongProtocol
from aitune.triton.client_http_failures import broken, failure, stranger
from aitune.triton.client_http_forms import (
    HEADER_LENGTH,
    Reply,
    request_header,
    shared_answer,
    shared_request,
    statistics_of,
    tensor_metadata,
    tensors,
)
from aitune.triton.client_records import (
    IndexEntry,
    ModelMetadata,
    ModelStatistics,
    ServerInfo,
    SharedTensor,
    TensorMetadata,
    WireTensor,
)
from aitune.triton.endpoint import Endpoint
from aitune.triton.schema import model_config

__all__ = ["HttpTransport"]

_PIECE_BYTES = 1 << 16


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
            inputs=tuple(map(tensor_metadata, found.get("inputs", ()))),
            outputs=tuple(map(tensor_metadata, found.get("outputs", ()))),
        )

    def statistics(self, name: str, version: str) -> tuple[ModelStatistics, ...]:
        """Counters, one entry a version."""
        found = self._json("GET", f"{_model_path(name, version)}/stats")
        return tuple(map(statistics_of, found["model_stats"]))

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
        header = request_header(inputs, outputs)
        body = b"".join([header, *(tensor.data for tensor in inputs)])
        path = f"{_model_path(name, version)}/infer"
        headers = {HEADER_LENGTH: str(len(header)), "Content-Type": "application/octet-stream"}
        reply = self._request("POST", path, body, headers, timeout_s)
        self._demand_success(reply, path)
        return tensors(reply, self._endpoint.url)

    def infer_json(self, name: str, version: str, body: bytes, timeout_s: float) -> bytes:
        """The body of the answer to a request whose body is JSON."""
        return self._post_json(f"{_model_path(name, version)}/infer", body, timeout_s)

    def share(self, region: str, key: str, nbytes: int) -> None:
        """Let the server open system shared memory."""
        body = json.dumps({"key": key, "offset": 0, "byte_size": nbytes}).encode()
        self._post_json(f"v2/systemsharedmemory/region/{quote(region, safe='')}/register", body, self._timeout_s)

    def unshare(self, region: str) -> None:
        """Let it forget that memory."""
        self._post_json(f"v2/systemsharedmemory/region/{quote(region, safe='')}/unregister", b"{}", self._timeout_s)

    def infer_shared(
        self,
        name: str,
        version: str,
        inputs: Sequence[SharedTensor],
        outputs: Sequence[SharedTensor],
        timeout_s: float,
    ) -> tuple[TensorMetadata, ...]:
        """One request through shared memory; what was written there, by output."""
        found = self._post_json(f"{_model_path(name, version)}/infer", shared_request(inputs, outputs), timeout_s)
        return shared_answer(found, self._endpoint.url)

    def close(self) -> None:
        """Close every connection."""
        while self._all:
            self._all.pop().close()

    def _healthy(self, path: str) -> bool:
        reply = self._request("GET", path, None, {}, self._timeout_s)
        if reply.status in (401, 403, 404, 405):  # Triton says 400 when it is not well
            self._demand_success(reply, path)
        return reply.status == 200

    def _post_json(self, path: str, body: bytes, timeout_s: float) -> bytes:
        reply = self._request("POST", path, body, {"Content-Type": "application/json"}, timeout_s)
        self._demand_success(reply, path)
        return reply.body

    def _json(self, method: str, path: str, body: bytes | None = None) -> Any:
        headers = {} if body is None else {"Content-Type": "application/json"}
        reply = self._request(method, path, body, headers, self._timeout_s)
        self._demand_success(reply, path)
        if not reply.body:
            if method == "GET":  # Triton has something to say to every question; only to commands it is silent
                raise self._stranger(reply, path)
            return {}
        try:
            return json.loads(reply.body)
        except ValueError as error:
            raise WrongProtocol(
                f"{self._endpoint.url} answered /{path} with something that is not JSON",
                hint="is this a Triton server? give the address of its HTTP port",
            ) from error

    def _demand_success(self, reply: Reply, path: str) -> None:
        if reply.status == 200:
            return
        if reply.status == 405:  # Triton's HTTP port answers both GET and POST
            raise self._stranger(reply, path)
        raise failure(reply, path, self._endpoint)

    def _stranger(self, reply: Reply, path: str) -> ServerError:
        """What answers here is not Triton's HTTP port; its metrics port is the one that is mistaken for it."""
        metrics = self._request("GET", "metrics", None, {}, self._timeout_s)
        return stranger(reply, path, self._endpoint, metrics=metrics)

    def _request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
    ) -> Reply:
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
    ) -> Reply:
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
                raise broken(error, self._endpoint, timeout_s) from error
            raise


def _read(connection: http.client.HTTPConnection, deadline: float) -> Reply:
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
    return Reply(response.status, headers, b"".join(pieces))


def _model_path(name: str, version: str) -> str:
    tail = f"/versions/{quote(version, safe='')}" if version else ""
    return f"v2/models/{quote(name, safe='')}{tail}"
