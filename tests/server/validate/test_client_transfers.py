"""Every kind of value through every way in which tensors travel, on a real server: binary, JSON, shared memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import helper

from aitune.errors import UsageError
from aitune.records import DType
from aitune.triton.client import connect
from aitune.triton.client_shared import infer_shared
from aitune.triton.endpoint import Endpoint
from aitune.triton.server import LocalServer

pytestmark = pytest.mark.server
VALUES = {
    DType.BOOL: np.array([[True, False]]),
    DType.INT32: np.array([[-(2**31), 2**31 - 1]], np.int32),
    DType.INT64: np.array([[-(2**63), 2**63 - 1]]),
    DType.FLOAT16: np.array([[0.1, np.nan]], np.float16),
    DType.FLOAT32: np.array([[0.1, np.nan]], np.float32),
    DType.FLOAT64: np.array([[1 / 3, -np.inf]]),
    DType.STRING: np.array([[b"", "a\0ż".encode()]], dtype=object),
}


@pytest.fixture(scope="module")
def clients(make_bench, tmp_path_factory) -> Iterator[dict]:
    """A model a type that gives back what it is given."""
    bench = make_bench(tmp_path_factory.mktemp("transfers"))
    for dtype in VALUES:
        x, y = (bench.tools.tuned(name, dtype, ("batch", 2), (1, 2), (4, 2)) for name in "xy")
        path = bench.folder / dtype.value / "model.onnx"
        bench.tools.graph(path, [helper.make_node("Identity", ["x"], ["y"])], [x], [y])
        bench.publish(bench.record(path, [x], [y], samples=False), dtype.value)
    with LocalServer(bench.repository) as server:
        endpoints = [Endpoint.parse(server.grpc, protocol="grpc"), Endpoint.parse(server.http)]
        with connect(endpoints[0]) as first, connect(endpoints[1]) as second:
            yield {"grpc": first, "http": second}


def same(found, dtype: DType) -> bool:
    """Bit by bit, and of the same type."""
    array, kind = found
    return kind is dtype and list(map(repr, array.ravel().tolist())) == list(map(repr, VALUES[dtype].ravel().tolist()))


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("dtype", VALUES, ids=lambda dtype: dtype.value)
def test_values_come_back_in_binary_form_and_through_shared_memory(dtype: DType, protocol: str, clients) -> None:
    """NaN, infinities, the largest integers, an empty string, NUL and more than one byte a letter."""
    client, inputs = clients[protocol], {"x": (VALUES[dtype], dtype)}
    assert same(client.infer_typed(dtype.value, "1", inputs)["y"], dtype)
    nbytes = {"y": sum(4 + len(item) for item in VALUES[dtype].flat) if dtype is DType.STRING else VALUES[dtype].nbytes}
    assert same(infer_shared(client, dtype.value, "1", inputs, nbytes)["y"], dtype)


@pytest.mark.parametrize("dtype", VALUES, ids=lambda dtype: dtype.value)
def test_values_come_back_as_json(dtype: DType, clients) -> None:
    """All but half precision, which Triton has no JSON form for; gRPC has none at all."""
    inputs = {"x": (VALUES[dtype], dtype)}
    if dtype is DType.FLOAT16:
        with pytest.raises(UsageError, match="float16, which cannot travel as JSON"):
            clients["http"].infer_json(dtype.value, "1", inputs)
        return
    assert same(clients["http"].infer_json(dtype.value, "1", inputs)["y"], dtype)
    with pytest.raises(UsageError, match="over HTTP only"):
        clients["grpc"].infer_json(dtype.value, "1", inputs)
