"""What can go wrong between a client and a Triton server, each with its own code.

.. code-block:: text

    ServerError                3  E_SERVER
    ├── ServerUnreachable      3  E_UNREACHABLE     nobody listens, or the connection broke
    ├── ServerTimeout          3  E_TIMEOUT         no answer in time
    ├── TlsFailure             3  E_TLS             certificates or handshake
    ├── AccessDenied           3  E_ACCESS          401, 403 and their gRPC twins
    ├── WrongProtocol          3  E_PROTOCOL        gRPC spoken to an HTTP port, or the other way round
    ├── EndpointRestricted     3  E_RESTRICTED      the server's operator has closed this API
    ├── ModelAbsent            3  E_MODEL_ABSENT    the server has no such model or version
    ├── ModelNotReady          3  E_MODEL_NOT_READY it has, but did not load it
    ├── SharedMemoryRefused    3  E_SHARED_MEMORY   no memory can be shared with the server
    └── InferenceRefused       3  E_REFUSED         the server read the request and said no
"""

from __future__ import annotations

from aitune.errors import ServerError

__all__ = [
    "BROKEN",
    "NOT_TRITON",
    "SLOW",
    "AccessDenied",
    "EndpointRestricted",
    "InferenceRefused",
    "ModelAbsent",
    "ModelNotReady",
    "ServerTimeout",
    "ServerUnreachable",
    "SharedMemoryRefused",
    "TlsFailure",
    "WrongProtocol",
    "said_by_stranger",
]

BROKEN = "is the server still running, and is this one of its ports?"
NOT_TRITON = "is this a Triton server? check port and path prefix"
"""What to do about an answer that Triton does not give."""
SLOW = "is the server overloaded? give it a longer --timeout; is it a Triton server at all? check the port"
_SAID = 60


def said_by_stranger(answer: bytes) -> str:
    r"""The words of a program that speaks in text, e.g. an SSH server; ``""`` where they are binary.

    >>> said_by_stranger(b"SSH-2.0-OpenSSH_9.6\r\n"), said_by_stranger(b"\x00\x00\x12")
    ('SSH-2.0-OpenSSH_9.6', '')
    """
    text = answer.decode("ascii", "replace").strip()
    return text[:_SAID] if text.isascii() and text.isprintable() else ""


class ServerUnreachable(ServerError):
    """Nobody listens there, or the connection broke before the answer was complete."""

    code = "E_UNREACHABLE"


class ServerTimeout(ServerError):
    """No complete answer came in time."""

    code = "E_TIMEOUT"


class TlsFailure(ServerError):
    """The TLS handshake failed: not a TLS port, or a certificate that is not trusted."""

    code = "E_TLS"


class AccessDenied(ServerError):
    """The server, or a proxy before it, wants other credentials."""

    code = "E_ACCESS"


class WrongProtocol(ServerError):
    """Somebody answers there, but in another protocol."""

    code = "E_PROTOCOL"


class EndpointRestricted(ServerError):
    """The operator of the server has closed this API to us."""

    code = "E_RESTRICTED"


class ModelAbsent(ServerError):
    """The server knows no such model, or no such version of it."""

    code = "E_MODEL_ABSENT"


class ModelNotReady(ServerError):
    """The server knows the model and could not, or did not yet, load it."""

    code = "E_MODEL_NOT_READY"


class SharedMemoryRefused(ServerError):
    """This system has no shared memory, or the server cannot reach it: another machine, a container, a closed API."""

    code = "E_SHARED_MEMORY"


class InferenceRefused(ServerError):
    """The server understood the request and refused it; the message is the server's own."""

    code = "E_REFUSED"
