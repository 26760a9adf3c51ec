"""Addresses as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitune.errors import UsageError
from aitune.triton.endpoint import Endpoint, Tls


@pytest.mark.parametrize(
    ("text", "protocol", "url"),
    [
        ("localhost:8000", None, "http://localhost:8000"),
        ("localhost:8001", "grpc", "grpc://localhost:8001"),
        ("localhost", "grpc", "grpc://localhost:8001"),
        ("grpc://host", None, "grpc://host:8001"),
        ("grpcs://host:7", None, "grpcs://host:7"),
        ("http://host", "http", "http://host:8000"),
        ("https://host/team/a/", None, "https://host:443/team/a"),
        ("http://[::1]:9", None, "http://[::1]:9"),
        ("[::1]:9", "grpc", "grpc://[::1]:9"),
    ],
)
def test_an_address_is_read_as_meant(text: str, protocol: str | None, url: str) -> None:
    """Scheme, port and prefix have their defaults, and the result reads back as itself."""
    found = Endpoint.parse(text, protocol=protocol)
    assert found.url == url
    assert Endpoint.parse(found.url) == found


@pytest.mark.parametrize(
    ("text", "protocol", "words"),
    [
        ("ftp://host", None, "unknown scheme 'ftp'"),
        ("grpc://host", "http", "contradicts protocol 'http'"),
        ("host:port", None, "is no address"),
        ("host:99999", None, "is no address"),
        ("http://user:secret@host", None, "is no address"),
        ("http://host?x=1", None, "is no address"),
        ("", None, "is no address"),
        ("grpc://host/prefix", None, "gRPC has no paths"),
        ("host:1", "rest", "unknown scheme 'rest'"),
        ("a..b:80", None, "'a..b' is no name of a host"),
        ("grpc://caf\udce9:80", None, "is no name of a host"),
    ],
)
def test_what_is_no_address_is_refused(text: str, protocol: str | None, words: str) -> None:
    """The message quotes what was given."""
    with pytest.raises(UsageError, match=words):
        Endpoint.parse(text, protocol=protocol)


@pytest.mark.parametrize("header", [("a b", "x"), ("name", "x\r\nother: y"), ("", "x")])
def test_a_header_cannot_begin_another_one(header: tuple[str, str]) -> None:
    """Line ends and blanks would change the request."""
    with pytest.raises(UsageError, match="cannot carry"):
        Endpoint.parse("host:1", headers=(header,))


def test_secrets_are_not_shown() -> None:
    """A header's value never gets into a log by way of repr."""
    found = Endpoint.parse("http://host", headers=(("Authorization", "Bearer hunter2"),))
    assert "hunter2" not in repr(found)
    assert "Authorization" in repr(found)


@pytest.mark.parametrize(("port", "protocol"), [(0, "http"), (70000, "http"), (1, "udp")])
def test_an_endpoint_needs_a_port_and_a_protocol(port: int, protocol: str) -> None:
    """Also when it is not parsed but made."""
    with pytest.raises(UsageError):
        Endpoint(protocol=protocol, host="h", port=port)


def test_tls_needs_both_halves_of_a_client_certificate(tmp_path: Path) -> None:
    """A certificate without its key proves nothing."""
    with pytest.raises(UsageError, match="needs its private key"):
        Tls(certificate=tmp_path)


def test_tls_files_must_be_there_and_usable(tmp_path: Path) -> None:
    """A missing file and a file that is no certificate are told apart."""
    with pytest.raises(UsageError, match="is not there"):
        Tls(ca=tmp_path / "none.pem")
    (tmp_path / "bad.pem").write_text("nothing")
    with pytest.raises(UsageError, match="cannot be used"):
        Tls(ca=tmp_path / "bad.pem").context()


def test_tls_may_be_told_not_to_look() -> None:
    """For HTTPS only; the context then trusts anybody."""
    context = Tls(verify=False).context()
    assert not context.check_hostname


def test_tls_files_switch_tls_on() -> None:
    """An address without an s, and TLS all the same."""
    assert Endpoint.parse("grpc://host:1", tls=Tls()).url == "grpcs://host:1"
