"""Shared memory is given back, also when the server lets go of it a moment later."""

from __future__ import annotations

import pytest

from aitune.errors import ServerError
from aitune.triton import client_shared


class Server:
    """Refuses to close a region as often as it is told to."""

    def __init__(self, refusals: int, reason: str) -> None:
        self.refusals = refusals
        self.reason = reason
        self.asked = 0

    def unshare(self, region: str) -> None:
        """Close it, or say why not."""
        self.asked += 1
        if self.asked <= self.refusals:
            raise ServerError(f"cannot unregister {region!r}: {self.reason}")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits in a unit test."""
    monkeypatch.setattr(client_shared.time, "sleep", lambda seconds: None)


def test_a_region_still_in_use_is_asked_for_again() -> None:
    """The answer can be here before the server has let go of the request."""
    server = Server(3, "it is currently in use")
    client_shared._forget(server, "r")
    assert server.asked == 4


@pytest.mark.parametrize(("refusals", "reason", "patience"), [(1, "no such region", 5.0), (9, "in use", -1.0)])
def test_another_refusal_and_an_endless_one_are_told(
    refusals: int, reason: str, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting has an end, and only that one reason is waited for."""
    monkeypatch.setattr(client_shared, "_PATIENCE_S", patience)
    with pytest.raises(ServerError, match=reason):
        client_shared._forget(Server(refusals, reason), "r")
