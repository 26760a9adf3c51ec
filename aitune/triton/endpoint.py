"""Where a Triton server listens, and how to speak to it: host, port, protocol, TLS and headers."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from aitune.errors import UsageError

__all__ = ["DEFAULT_PORTS", "Endpoint", "Tls"]

DEFAULT_PORTS: Mapping[str, int] = {"http": 8000, "grpc": 8001}
_SCHEMES: Mapping[str, tuple[str, bool]] = {
    "http": ("http", False),
    "https": ("http", True),
    "grpc": ("grpc", False),
    "grpcs": ("grpc", True),
}
# RFC 9110 tokens and visible text: anything else could end the header and begin another one.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How a server proves who it is, and we do.

    Attributes:
        ca: PEM file with the certificates to trust; the system's when None.
        certificate: PEM file with our own certificate, for servers that ask for one.
        key: PEM file with its private key.
        verify: Whether the server's certificate is checked at all (HTTPS only; gRPC cannot leave it out).

    Raises:
        UsageError: If only one of certificate and key is given, or a file is not there.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise UsageError("a client certificate needs its private key, and a key its certificate")
        for path in (self.ca, self.certificate, self.key):
            if path is not None and not path.is_file():
                raise UsageError(f"TLS file {str(path)!r} is not there")

    def context(self) -> ssl.SSLContext:
        """The same as a context of the standard library.

        Raises:
            UsageError: If a file holds no usable certificate or key.
        """
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
            if self.certificate is not None and self.key is not None:
                context.load_cert_chain(str(self.certificate), str(self.key))
        except (ssl.SSLError, OSError) as error:
            raise UsageError(f"the TLS files cannot be used: {error}", hint="give PEM files") from error
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One address of a server.

    Attributes:
        protocol: ``"grpc"`` or ``"http"``.
        host: Name or address, IPv6 without brackets.
        port: TCP port.
        prefix: Path before ``/v2``, e.g. ``"/models"`` behind a proxy; HTTP only.
        headers: Sent with every request (gRPC: as metadata); not shown by ``repr``, they may be secrets.
        tls: How to do TLS; None for plain text.

    >>> Endpoint.parse("https://serving.example/team-a").url
    'https://serving.example:443/team-a'
    >>> Endpoint.parse("localhost:8001", protocol="grpc").address
    'localhost:8001'
    """

    protocol: str
    host: str
    port: int
    prefix: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    tls: Tls | None = None

    def __post_init__(self) -> None:
        if self.protocol not in DEFAULT_PORTS:
            raise UsageError(f"protocol must be 'grpc' or 'http', got {self.protocol!r}")
        if not self.host or not 0 < self.port < 65536:
            raise UsageError(f"a server address needs a host and a port, got {self.host!r} and {self.port!r}")
        try:
            self.host.encode("idna")
        except UnicodeError as error:
            raise UsageError(f"server {self.host!r} is no name of a host", hint="write HOST:PORT") from error
        if self.prefix and self.protocol == "grpc":
            raise UsageError(
                f"gRPC has no paths, got {self.prefix!r} after {self.address}", hint="use http:// for a path prefix"
            )
        for name, value in self.headers:
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise UsageError(f"header {name!r} has a name or a value that HTTP cannot carry")

    def __repr__(self) -> str:
        names = [name for name, _ in self.headers]
        return f"Endpoint({self.url!r}, headers={names}, tls={self.tls is not None})"

    @classmethod
    def parse(
        cls,
        url: str,
        *,
        protocol: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        tls: Tls | None = None,
    ) -> Endpoint:
        """The endpoint that a person means.

        Args:
            url: ``HOST:PORT``, ``grpc://…``, ``grpcs://…``, ``http://…/prefix`` or ``https://…/prefix``.
            protocol: ``"grpc"`` or ``"http"`` for the first form, HTTP when None; must not contradict a scheme.
            headers: Sent with every request.
            tls: Files for TLS; given, it switches TLS on also without an ``s`` in the scheme.

        Raises:
            UsageError: If it is no such address.
        """
        scheme, split, rest = url.partition("://")
        if not split:
            scheme, rest = protocol or "http", url
        if scheme not in _SCHEMES:
            raise UsageError(
                f"server {url!r} has the unknown scheme {scheme!r}", hint="use grpc://, http:// or https://"
            )
        meant, secure = _SCHEMES[scheme]
        if protocol is not None and protocol != meant:
            raise UsageError(f"server {url!r} contradicts protocol {protocol!r}", hint="leave one of the two out")
        try:
            parts = urlsplit(f"//{rest}")
            host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise UsageError(f"server {url!r} is no address: {error}", hint="write HOST:PORT") from error
        if parts.username is not None or parts.query or parts.fragment or not host:
            raise UsageError(f"server {url!r} is no address", hint="write HOST:PORT, and secrets into a header")
        return cls(
            protocol=meant,
            host=host,
            port=port if port is not None else (443 if secure else DEFAULT_PORTS[meant]),
            prefix=unquote(parts.path).rstrip("/"),
            headers=headers,
            tls=(tls or Tls()) if secure else tls,
        )

    @property
    def address(self) -> str:
        """``HOST:PORT``, IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole address with its scheme, as :meth:`parse` reads it."""
        scheme = self.protocol + ("s" if self.tls is not None else "")
        return f"{scheme}://{self.address}{self.prefix}"

    def at(self, port: int, protocol: str) -> Endpoint:
        """The same server at another port and protocol, without the path prefix."""
        return replace(self, port=port, protocol=protocol, prefix="")
