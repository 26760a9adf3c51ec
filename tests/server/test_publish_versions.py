"""Publishing, rolling back and restarting against a real Triton, told apart by the numbers it answers."""

from __future__ import annotations

import itertools
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import handmade
import numpy as np
import pytest

from aitune.errors import ServerError
from aitune.records import Artifact, DType
from aitune.triton import LocalServer, PlanOptions, Repository, publish, rollback
from aitune.triton.client import Client, connect
from aitune.triton.contract import contract_of, contracts_in
from aitune.triton.endpoint import Endpoint
from aitune.triton.normalisation import differences
from aitune.triton.schema import parse_config

pytestmark = pytest.mark.server


def factor(client: Client, model: str = "scale") -> float:
    """By how much the weights that answer scale their input; 0 while nothing answers."""
    ones = np.ones((3, 4), np.float32)
    try:
        answer = client.infer(model, "", {"x": (ones, DType.FLOAT32)}, timeout_s=5)["y"]
    except ServerError:
        return 0.0
    assert (answer == answer[0, 0]).all()
    return float(answer[0, 0])


def wait_for(wanted: float, ask: Callable[[], float], timeout_s: float = 20.0) -> float:
    """Ask until the answer is the wanted one; the last answer."""
    deadline = time.monotonic() + timeout_s
    while (found := ask()) != wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


@contextmanager
def running(root: Path, **options: bool) -> Iterator[Client]:
    """A server on the repository and a client for it."""
    with LocalServer(root, **options) as server, connect(Endpoint.parse(f"grpc://{server.grpc}")) as client:
        yield client


@pytest.fixture
def two(tmp_path: Path) -> tuple[Artifact, Artifact]:
    """Two artifacts that differ in their weights."""
    return handmade.scale(tmp_path / "two", 2.0), handmade.scale(tmp_path / "three", 3.0)


def test_a_polling_server_follows_publication_and_rollback(tmp_path: Path, two: tuple[Artifact, Artifact]) -> None:
    """Nothing, v1, v2, back to v1, v2 again: each time the right weights answer, and after a restart they still do."""
    root = tmp_path / "root"
    root.mkdir()
    with running(root, poll=True) as client:
        publish(two[0], root, model_name="scale")
        assert wait_for(2.0, lambda: factor(client)) == 2.0
        publish(two[1], root, model_name="scale")
        assert wait_for(3.0, lambda: factor(client)) == 3.0
        rollback(root, "scale", 1)
        assert wait_for(2.0, lambda: factor(client)) == 2.0
        assert publish(two[1], root, model_name="scale").version == 2
        assert wait_for(3.0, lambda: factor(client)) == 3.0
        rollback(root, "scale", 1)
        assert wait_for(2.0, lambda: factor(client)) == 2.0
    with running(root) as client:
        assert factor(client) == 2.0


def test_an_explicit_server_follows_when_told_to_load(tmp_path: Path, two: tuple[Artifact, Artifact]) -> None:
    """Nothing changes until the model is loaded again; then the right weights answer, also after a restart."""
    root = tmp_path / "root"
    publish(two[0], root, model_name="scale")
    with running(root, explicit=True) as client:
        client.load("scale")
        assert factor(client) == 2.0
        publish(two[1], root, model_name="scale")
        assert factor(client) == 2.0
        client.load("scale")
        assert factor(client) == 3.0
        rollback(root, "scale", 1)
        client.load("scale")
        assert factor(client) == 2.0
    with running(root, explicit=True) as client:
        client.load("scale")
        assert factor(client) == 2.0


def test_weights_in_a_companion_file_are_told_apart(tmp_path: Path) -> None:
    """Two artifacts with the very same model file and different external data are two versions."""
    first = handmade.scale(tmp_path / "a", 5.0, external="w/data.bin")
    second = handmade.scale(tmp_path / "b", 7.0, external="w/data.bin")
    assert first.fingerprint == second.fingerprint
    root = tmp_path / "root"
    publish(first, root, model_name="scale")
    with running(root, poll=True) as client:
        assert factor(client) == 5.0
        assert publish(second, root, model_name="scale").version == 2
        assert wait_for(7.0, lambda: factor(client)) == 7.0
        assert contracts_in(client.config("scale"))[2].identity == second.identity
        rollback(root, "scale", 1)
        assert wait_for(5.0, lambda: factor(client)) == 5.0


def test_no_request_fails_while_versions_change(tmp_path: Path, two: tuple[Artifact, Artifact]) -> None:
    """Under load every answer comes from exactly one version."""
    root = tmp_path / "root"
    publish(two[0], root, model_name="scale")
    seen: list[float] = []
    with running(root, poll=True) as client:
        for step in (lambda: publish(two[1], root, model_name="scale"), lambda: rollback(root, "scale", 1)):
            step()
            end = time.monotonic() + 4
            while time.monotonic() < end:
                seen.append(factor(client))
    assert set(seen) == {2.0, 3.0}
    changes = sum(before != after for before, after in itertools.pairwise(seen))
    assert changes == 2


def test_the_served_config_is_the_published_one(tmp_path: Path, two: tuple[Artifact, Artifact]) -> None:
    """Contract and config come back from Triton as they were written, over gRPC and HTTP."""
    root = tmp_path / "root"
    publish(two[0], root, model_name="scale")
    published = Repository(root).model("scale").config
    with LocalServer(root) as server:
        for url in (f"grpc://{server.grpc}", f"http://{server.http}"):
            with connect(Endpoint.parse(url)) as client:
                served = client.config("scale")
            assert differences(published, served) == ()
            assert contracts_in(served) == {1: contract_of(two[0])}


def test_an_overlay_is_what_a_host_with_that_name_reads(tmp_path: Path, two: tuple[Artifact, Artifact]) -> None:
    """``--model-config-name cpu`` serves the same version, pinned (R33)."""
    root = tmp_path / "root"
    publish(two[0], root, model_name="scale")
    publish(two[1], root, model_name="scale", options=PlanOptions(overlays=True))
    with (
        LocalServer(root, model_config_name="cpu") as server,
        connect(Endpoint.parse(f"grpc://{server.grpc}")) as client,
    ):
        assert factor(client) == 3.0
        found = differences(parse_config((root / "scale/configs/cpu.pbtxt").read_text()), client.config("scale"))
        assert found == ()


def test_metrics_say_which_weights_they_are_about(tmp_path: Path, two: tuple[Artifact, Artifact]) -> None:
    """The short fingerprint is a label of the model's counters."""
    publish(two[0], tmp_path / "root", model_name="scale")
    with (
        LocalServer(tmp_path / "root") as server,
        connect(Endpoint.parse(f"grpc://{server.grpc}")) as client,
        urllib.request.urlopen(f"http://{server.metrics}/metrics") as answer,
    ):
        assert factor(client) == 2.0
        text = answer.read().decode()
    lines = [line for line in text.splitlines() if line.startswith("nv_inference_request_success{")]
    assert f'aitune_fingerprint="{two[0].identity[:12]}"' in lines[0]
