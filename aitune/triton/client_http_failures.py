"""What a failed HTTP exchange means: each kind of failure is an error of its own."""

from __future__ import annotations

import http.client
import json
import socket
import ssl

from aitune.errors import ServerError
from aitune.triton.client_errors import (
    BROKEN,
    NOT_TRITON,
    SLOW,
    AccessDenied,
    EndpointRestricted,
    InferenceRefused,
    ModelAbsent,
    ServerTimeout,
    ServerUnreachable,
    TlsFailure,
    WrongProtocol,
    said_by_stranger,
)
from aitune.triton.client_http_forms import Reply
from aitune.triton.endpoint import Endpoint

__all__ = ["broken", "failure", "stranger"]

_METRICS = b"# HELP nv_"
"""How the text of Triton's metrics begins."""


def broken(error: Exception, endpoint: Endpoint, timeout_s: float) -> ServerError:
    """The typed form of an exchange that did not end with a reply."""
    url = endpoint.url
    if isinstance(error, TimeoutError):
        return ServerTimeout(f"no answer from {url} within {timeout_s:g} s", hint=SLOW)
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
        return TlsFailure(
            f"TLS with {url} failed: {str(reason).replace('_', ' ').lower()}",
            hint="check the scheme (http or https), the host name and the certificate files",
        )
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, http.client.RemoteDisconnected):
        said = said_by_stranger(str(error).encode("latin-1", "replace"))
        if said:
            return WrongProtocol(f"{url} does not speak HTTP, it says {said!r}", hint=NOT_TRITON)
        return WrongProtocol(f"{url} does not speak HTTP", hint="is it the gRPC port? use grpc:// or -i grpc")
    if isinstance(error, ConnectionRefusedError):
        return ServerUnreachable(
            f"no server listens at {url}: connection refused", hint="start it, or check host and port"
        )
    if isinstance(error, socket.gaierror):
        return ServerUnreachable(f"host {endpoint.host!r} is unknown", hint="check the address of the server")
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return ServerUnreachable(f"the connection to {url} broke: {reason}", hint=BROKEN)


def stranger(reply: Reply, path: str, endpoint: Endpoint, *, metrics: Reply) -> ServerError:
    """The typed form of a reply that Triton's HTTP port never gives.

    Args:
        reply: What was answered.
        path: What was asked for.
        endpoint: Where.
        metrics: What the same address answers to ``/metrics``.
    """
    if metrics.status == 200 and metrics.body.startswith(_METRICS):
        return WrongProtocol(
            f"{endpoint.url} is the metrics port of a Triton server",
            hint="give its HTTP port (8000 by default), or its gRPC port with grpc:// (8001 by default)",
        )
    said = "nothing" if reply.status == 200 else f"status {reply.status}"
    return WrongProtocol(f"{endpoint.url} answered /{path} with {said}", hint=NOT_TRITON)


def failure(reply: Reply, path: str, endpoint: Endpoint) -> ServerError:
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
            hint=NOT_TRITON,
        )
    if path.endswith("/infer"):
        return InferenceRefused(text)
    return ServerError(f"{endpoint.url} refused /{path}: {text}")
