"""Servers that are slow, rude or not what they seem: one line each, and never a hang."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from aitune.triton import client_errors as errors
from aitune.triton.client import connect
from aitune.triton.endpoint import Endpoint

pytestmark = pytest.mark.server


@contextmanager
def listening(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does this with every connection."""
    door = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = door.accept()
                threading.Thread(target=one, args=(connection,), daemon=True).start()

    def one(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            behave(connection)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{door.getsockname()[1]}"
    finally:
        door.shutdown(socket.SHUT_RDWR)
        door.close()


def silent(connection: socket.socket) -> None:
    """Accept, and never say a word."""
    while connection.recv(1000):
        time.sleep(0.01)


def dribbling(connection: socket.socket) -> None:
    """A byte now and then, for ever."""
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        connection.sendall(b"x")
        time.sleep(0.05)


def says(*lines: bytes) -> Callable[[socket.socket], None]:
    """Answer with these bytes and hang up."""

    def behave(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"".join(lines))

    return behave


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_silent_server_times_out(protocol: str) -> None:
    """After the time that was given, not after the kernel's patience."""
    with listening(silent) as address, connect(Endpoint.parse(address, protocol=protocol), timeout_s=0.5) as client:
        began = time.monotonic()
        with pytest.raises(errors.ServerTimeout, match=r"within 0\.5 s"):
            client.live()
        assert time.monotonic() - began < 5


def test_a_server_that_sends_a_byte_now_and_then_times_out() -> None:
    """The deadline is for the whole answer."""
    with listening(dribbling) as address, connect(Endpoint.parse(address), timeout_s=0.5) as client:
        began = time.monotonic()
        with pytest.raises(errors.ServerTimeout):
            client.server()
        assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", errors.ServerUnreachable),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", errors.ServerUnreachable),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhtml", errors.WrongProtocol),
        (b"SSH-2.0-OpenSSH_9.2\r\n", errors.WrongProtocol),
        (b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n", errors.WrongProtocol),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", errors.AccessDenied),
    ],
)
def test_what_is_no_triton_is_told_in_one_line(answer: bytes, kind: type) -> None:
    """Cut short, another protocol, a login page."""
    with listening(says(answer)) as address, connect(Endpoint.parse(address), timeout_s=3) as client:
        with pytest.raises(kind) as caught:
            client.server()
        assert "\n" not in str(caught.value)


def test_a_server_that_hangs_up_on_grpc_is_unreachable() -> None:
    """Neither HTTP nor TLS stands there, nor anything that speaks in text."""
    with listening(says(b"\x00bye")) as address:
        client = connect(Endpoint.parse(address, protocol="grpc"), timeout_s=3)
        with client, pytest.raises(errors.ServerUnreachable):
            client.live()


def test_a_program_that_greets_in_text_is_quoted_to_grpc() -> None:
    """E.g. the port of SSH: the user sees whose port it is."""
    with listening(says(b"SSH-2.0-OpenSSH_9.6\r\n")) as address:
        client = connect(Endpoint.parse(address, protocol="grpc"), timeout_s=3)
        with client, pytest.raises(errors.WrongProtocol, match="it says 'SSH-2"):
            client.live()


def test_a_connection_that_lay_idle_and_was_closed_is_opened_again() -> None:
    """A keep-alive that ran out is not the caller's trouble."""
    reply = b'HTTP/1.1 200 OK\r\nContent-Length: 31\r\n\r\n{"name":"triton","version":"1"}'
    asked = []

    def once(connection: socket.socket) -> None:
        asked.append(connection.recv(1000))
        connection.sendall(reply)

    with listening(once) as address, connect(Endpoint.parse(address), timeout_s=3) as client:
        assert [client.server().version for _ in range(3)] == ["1", "1", "1"]
    assert len(asked) == 3
