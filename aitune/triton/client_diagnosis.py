"""Why gRPC got no answer: a second look with plain sockets, because gRPC's own words for it change between releases."""

from __future__ import annotations

import socket
import ssl

from aitune.errors import ServerError
from aitune.triton.client_errors import BROKEN, ServerUnreachable, TlsFailure, WrongProtocol, said_by_stranger
from aitune.triton.endpoint import Endpoint

__all__ = ["diagnose"]

_PATIENCE_S = 2.0
_QUESTION = b"GET /v2/health/live HTTP/1.1\r\nHost: aitune\r\nConnection: close\r\n\r\n"


def diagnose(endpoint: Endpoint, detail: str) -> ServerError:
    """The error that says what stands at an address where gRPC got no answer.

    Args:
        endpoint: The address.
        detail: gRPC's own words, for the case that nothing better is found.
    """
    url = endpoint.url
    try:
        with socket.create_connection((endpoint.host, endpoint.port), timeout=_PATIENCE_S) as connection:
            return _listening(endpoint, connection, detail)
    except socket.gaierror:
        return ServerUnreachable(f"host {endpoint.host!r} is unknown", hint="check the address of the server")
    except ConnectionRefusedError:
        return ServerUnreachable(
            f"no server listens at {url}: connection refused", hint="start it, or check host and port"
        )
    except OSError as error:
        return ServerUnreachable(f"the connection to {url} broke: {error.strerror or error}", hint=BROKEN)


def _listening(endpoint: Endpoint, connection: socket.socket, detail: str) -> ServerError:
    """Somebody accepted the connection; what does it speak?"""
    url = endpoint.url
    if endpoint.tls is not None:
        return TlsFailure(
            f"TLS with {url} failed: {_tls_reason(endpoint, connection) or detail}",
            hint="check the scheme (grpc or grpcs), the host name and the certificate files",
        )
    connection.sendall(_QUESTION)
    answer = connection.recv(64)
    if answer.startswith(b"HTTP/1"):
        return WrongProtocol(f"{url} speaks HTTP, not gRPC", hint="use http:// or -i http, or give the gRPC port")
    if said := said_by_stranger(answer):
        return WrongProtocol(
            f"{url} does not speak gRPC, it says {said!r}", hint="is this a Triton server? give its gRPC port"
        )
    if answer[:1] in (b"\x15", b"\x16"):
        return TlsFailure(f"{url} wants TLS", hint="use grpcs://")
    return ServerUnreachable(f"the connection to {url} broke: {detail}", hint=BROKEN)


def _tls_reason(endpoint: Endpoint, connection: socket.socket) -> str:
    if endpoint.tls is None:
        return ""
    try:
        endpoint.tls.context().wrap_socket(connection, server_hostname=endpoint.host).close()
    except ssl.SSLError as error:
        return (
            str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or error).replace("_", " ").lower()
        )
    return ""
