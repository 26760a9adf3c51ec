"""A gateway before a healthy server that does one thing wrong, each caught by the check that is there for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest

from aitune.triton.server import LocalServer
from aitune.triton.validation import validate

pytestmark = pytest.mark.server
GATEWAYS: dict[str, tuple[Callable, str, str]] = {}


class Gateway:
    """What a gateway makes of requests and answers; as it stands, nothing."""

    def request(self, path: str, body: bytes) -> bytes:
        """The body that goes on."""
        return body

    def answer(self, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        """The status and the body that come back."""
        return status, body


def gateway(check: str, detail: str) -> Callable:
    """Register one, with the check that must catch it and what that must say."""

    def register(kind: type[Gateway]) -> type[Gateway]:
        GATEWAYS[kind.__name__] = (kind, check, detail)
        return kind

    return register


@gateway("json", "not answered as in binary form: output 'y'")
class RoundsJson(Gateway):
    """It saves bytes: two digits are enough for everybody."""

    def answer(self, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        """Only what is JSON altogether."""
        if not path.endswith("/infer") or not body.startswith(b"{") or not body.endswith(b"}"):
            return status, body
        found = json.loads(body)
        for row in found.get("outputs", ()):
            row["data"] = [round(value, 1) for value in row.get("data", ())]
        return status, json.dumps(found).encode()


@gateway("shared_memory", "through shared memory|over http")
class ForgetsOffsets(Gateway):
    """It knows only the parameters of its own age."""

    def request(self, path: str, body: bytes) -> bytes:
        """Everything lies at the beginning then."""
        return body.replace(b'"shared_memory_offset"', b'"shared_memory_start"')


@gateway("refusals", "was accepted")
class NeverSaysNo(Gateway):
    """Errors look bad on its dashboard."""

    def answer(self, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        """An empty success."""
        return (200, b'{"outputs": []}') if path.endswith("/infer") and status == 400 else (status, body)


@gateway("metadata", r"\[-1, 4\] in the metadata, \[-1, 3\] in the config")
class RemembersMetadata(Gateway):
    """It has cached what the model was last year."""

    def answer(self, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        """One column more."""
        return status, body.replace(b'"shape":[-1,3]', b'"shape":[-1,4]') if path.endswith("/versions/1") else body


@gateway("config", "max_queue_delay_microseconds: published")
class RemembersConfig(Gateway):
    """It has cached how the model was configured last year."""

    def answer(self, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        """Another delay."""
        before, after = b'"max_queue_delay_microseconds":', b'"max_queue_delay_microseconds":9'
        return status, body.replace(before, after) if path.endswith("/config") else body


@gateway("ready", "version 1 is not ready over http")
class NeverReady(Gateway):
    """It looks for readiness in the wrong place."""

    def answer(self, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        """Not yet."""
        return (503, b"") if path.endswith("/versions/1/ready") else (status, body)


@pytest.fixture(scope="module")
def served(make_bench, tmp_path_factory) -> Iterator[tuple]:
    """A model that is served as it was published."""
    bench = make_bench(tmp_path_factory.mktemp("gateways"))
    bench.publish(bench.linear())
    with LocalServer(bench.repository) as server:
        yield bench, server


def test_a_gateway_that_does_nothing_is_no_false_alarm(served, stand_before) -> None:
    """JSON and shared memory pass through it, too."""
    bench, server = served
    with stand_before(server.http, Gateway()) as url:
        report = validate(bench.repository, url=url, intrusive=True)
    assert report.status == "pass", report
    assert {check.status for check in report.models[0].checks} == {"pass"}


@pytest.mark.parametrize("name", GATEWAYS)
def test_what_a_gateway_does_wrong_is_caught_by_one_check(name: str, served, stand_before) -> None:
    """No other check would have said it."""
    bench, server = served
    kind, check, detail = GATEWAYS[name]
    with stand_before(server.http, kind()) as url:
        report = validate(bench.repository, url=url, intrusive=True)
    bad = {result.name: result.detail for result in report.models[0].checks if result.status == "fail"}
    assert set(bad) == {check}, bad
    assert re.search(detail, bad[check]), bad
