"""A server to ask and the connections to it: one we start for the time being, or one that runs already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from aitune.errors import ServerError, UsageError
from aitune.triton.client import DEFAULT_TIMEOUT_S, Client, connect
from aitune.triton.client_errors import EndpointRestricted
from aitune.triton.client_records import IndexEntry
from aitune.triton.discovery import find_server
from aitune.triton.endpoint import Endpoint, Tls
from aitune.triton.programs import ServerProgram
from aitune.triton.progress import SILENT, Progress
from aitune.triton.proved_by import ProvedBy, implementation_of
from aitune.triton.server import LocalServer

__all__ = ["Session", "open_session", "second_server"]

_PREFERENCE = ("grpc", "http")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An open server.

    Attributes:
        clients: Connections by protocol, gRPC first.
        local: The server of our own; None for one that runs already.
        label: Where it is, for people; ``"local"`` for our own.
    """

    clients: Mapping[str, Client]
    local: LocalServer | None
    label: str

    @property
    def client(self) -> Client:
        """The connection to use when the protocol does not matter."""
        return next(iter(self.clients.values()))

    def index(self) -> tuple[IndexEntry, ...]:
        """Every model the server knows; for our own server with reasons from its log.

        Raises:
            EndpointRestricted: If its operator does not let us see.
        """
        if self.local is None:
            return self.client.index()
        return tuple(
            IndexEntry(name=row.name, version=row.version, state=row.state, reason=row.reason)
            for row in self.local.models()
        )

    def proved_by(self, models: Sequence[str]) -> ProvedBy:
        """What stands behind the answers; told from the configs of ``models`` where the server is not ours."""
        if self.local is not None:
            return self.local.proved_by()
        version = self.client.server().version
        for name in models:
            try:
                config = self.client.config(name)
            except (EndpointRestricted, ServerError):
                continue
            found = implementation_of(backend=getattr(config, "backend", ""), runtime=getattr(config, "runtime", ""))
            if found is not None:
                return ProvedBy(implementation=found, server=version)
        return ProvedBy(implementation=None, server=version)


@contextmanager
def open_session(
    repository: Path | str | None,
    *,
    url: str | Sequence[str] | None = None,
    protocol: str | None = None,
    server: str | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    tls: Tls | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    progress: Progress = SILENT,
) -> Iterator[Session]:
    """A session that lasts as long as the block; connections are closed and our own server is stopped after it.

    Args:
        repository: Model repository to serve when no URL is given.
        url: A running server, or several addresses of the same one (one a protocol).
        protocol: Protocol of an address without a scheme.
        server: Which server to start, as :func:`aitune.triton.discovery.find_server` takes it.
        headers: Sent with every request.
        tls: Files for TLS.
        timeout_s: Seconds one request may take.
        progress: Told while the server starts.

    Raises:
        UsageError: If neither a repository nor a URL is given, or two addresses have the same protocol.
        ServerError: If the server cannot be started or reached.
    """
    with ExitStack() as stack:
        local = None
        if url is not None:
            urls = (url,) if isinstance(url, str) else tuple(url)
            endpoints = [Endpoint.parse(text, protocol=protocol, headers=headers, tls=tls) for text in urls]
        elif repository is not None:
            local = _started(stack, repository, server, progress)
            endpoints = [Endpoint.parse(local.grpc, protocol="grpc"), Endpoint.parse(local.http, protocol="http")]
        else:
            raise UsageError("neither a model repository nor a server is given", hint="name one, or give --url")
        clients = _connected(stack, endpoints, timeout_s)
        label = "local" if local is not None else ", ".join(client.endpoint.url for client in clients.values())
        yield Session(clients=clients, local=local, label=label)


@contextmanager
def second_server(program: ServerProgram, timeout_s: float, repository: Path, control: str) -> Iterator[Client]:
    """One more server of our own for as long as the block lasts, over HTTP.

    Args:
        program: What to start.
        timeout_s: Seconds one request may take.
        repository: What it serves.
        control: ``"explicit"`` loads nothing by itself, ``"poll"`` follows changes of the repository.
    """
    with (
        LocalServer(repository, program=program, explicit=control == "explicit", poll=control == "poll") as local,
        connect(Endpoint.parse(local.http, protocol="http"), timeout_s=timeout_s) as client,
    ):
        yield client


def _started(stack: ExitStack, repository: Path | str, server: str | None, progress: Progress) -> LocalServer:
    program = find_server(server)
    progress.start("starting a server", None)
    local = stack.enter_context(LocalServer(Path(repository), program=program))
    progress.done()
    return local


def _connected(stack: ExitStack, endpoints: Sequence[Endpoint], timeout_s: float) -> dict[str, Client]:
    """Clients that were seen to reach their server, gRPC first."""
    by_protocol = {endpoint.protocol: endpoint for endpoint in endpoints}
    if len(by_protocol) != len(endpoints):
        raise UsageError("two addresses have the same protocol", hint="give one for gRPC and one for HTTP")
    clients = {}
    for name in _PREFERENCE:
        if name in by_protocol:
            client = stack.enter_context(connect(by_protocol[name], timeout_s=timeout_s))
            if not client.live():
                raise ServerError(
                    f"the server at {client.endpoint.url} says that it is not live",
                    hint="wait for it, or look at its log",
                )
            clients[name] = client
    return clients
