"""The client on a real server in explicit mode: loading, unloading, overriding a config, over both protocols."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from aitune.errors import ServerError
from aitune.records import DType
from aitune.triton import client_errors as errors
from aitune.triton.client import Client, connect
from aitune.triton.endpoint import Endpoint
from aitune.triton.server import LocalServer

pytestmark = pytest.mark.server
X = np.ones((2, 4), np.float32)


@pytest.fixture(scope="module")
def server(make_bench, tmp_path_factory) -> Iterator[LocalServer]:
    """A server that loads nothing by itself."""
    bench = make_bench(tmp_path_factory.mktemp("control"))
    bench.publish(bench.linear())
    with LocalServer(bench.repository, explicit=True) as server:
        yield server


@pytest.fixture(params=["grpc", "http"])
def client(request, server) -> Iterator[Client]:
    """A client of each protocol."""
    endpoint = Endpoint.parse(getattr(server, request.param), protocol=request.param)
    with connect(endpoint, timeout_s=30) as client:
        yield client


def test_a_model_is_loaded_asked_and_unloaded(client) -> None:
    """And is not ready, which is not absent, before and after."""
    assert not client.model_ready("linear")
    with pytest.raises((errors.ModelNotReady, errors.ModelAbsent)):
        client.metadata("linear")
    client.load("linear")
    assert client.model_ready("linear", "1")
    assert client.infer("linear", "1", {"x": (X, DType.FLOAT32)}, ["y"])["y"].shape == (2, 3)
    assert client.statistics("linear", "1").succeeded >= 1
    client.unload("linear")
    states = {row.name: row.state for row in client.index()}
    assert states["linear"] != "READY"


def test_a_config_can_be_overridden(client) -> None:
    """For experiments that leave the repository alone."""
    tensors = (("input", "x", 4), ("output", "y", 3))
    config = {key: [{"name": name, "data_type": "TYPE_FP32", "dims": [size]}] for key, name, size in tensors}
    client.load("linear", config=json.dumps({**config, "backend": "onnxruntime", "max_batch_size": 2}))
    assert client.config("linear").max_batch_size == 2
    with pytest.raises(errors.InferenceRefused, match="batch-size must be <= 2"):
        client.infer("linear", "", {"x": (np.ones((3, 4), np.float32), DType.FLOAT32)})
    client.unload("linear")


def test_what_cannot_be_loaded_says_why(client) -> None:
    """In one line."""
    with pytest.raises(ServerError, match="nothing") as caught:
        client.load("nothing")
    assert "\n" not in str(caught.value)


def test_both_protocols_hold_the_same_config(server) -> None:
    """Messages compare, whatever carried them."""
    endpoints = [Endpoint.parse(server.grpc, protocol="grpc"), Endpoint.parse(server.http)]
    with connect(endpoints[0]) as first, connect(endpoints[1]) as second:
        first.load("linear")
        assert first.config("linear", "1") == second.config("linear", "1")
        assert first.metadata("linear", "1") == second.metadata("linear", "1")
        assert first.server() == second.server()
        assert first.live()
        assert second.ready()
