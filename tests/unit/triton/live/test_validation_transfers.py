"""JSON tensors and shared memory, against a Triton in memory; the JSON form by itself."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from aitune.errors import UsageError
from aitune.records import DType, TunedTensorSpec
from aitune.triton.checks_live import CHECKS, transfers
from aitune.triton.client_errors import InferenceRefused, ServerUnreachable, WrongProtocol
from aitune.triton.client_json import json_request, json_tensors
from aitune.triton.datatypes import wire_type

VALUES = {
    DType.BOOL: np.array([True, False]),
    DType.UINT8: np.array([0, 255], np.uint8),
    DType.INT64: np.array([-(2**63), 2**63 - 1]),
    DType.UINT64: np.array([0, 2**64 - 1], np.uint64),
    DType.FLOAT32: np.array([0.1, np.nan, np.inf, -np.inf, -0.0, 3.4e38], np.float32),
    DType.FLOAT64: np.array([0.1, 1e-300, 1 / 3]),
    DType.STRING: np.array([b"", b"a\0b", "żółw".encode()], dtype=object),
}


@pytest.mark.parametrize("dtype", VALUES, ids=lambda dtype: dtype.value)
def test_every_type_comes_back_from_json_as_it_was(dtype: DType) -> None:
    """Bit by bit: the largest integers, NaN, infinities, empty and multi-byte strings."""
    rows = json.loads(json_request({"x": (VALUES[dtype][None], dtype)}))["inputs"]
    array, found = json_tensors(json.dumps({"outputs": rows}).encode(), "here")["x"]
    assert found is dtype
    assert array.shape == (1, len(VALUES[dtype]))
    assert array.dtype == VALUES[dtype].dtype
    assert list(map(repr, array[0].tolist())) == list(map(repr, VALUES[dtype].tolist()))


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_half_precision_cannot_travel_as_json(dtype: DType) -> None:
    """Triton has no form for it."""
    with pytest.raises(UsageError, match="cannot travel as JSON"):
        json_request({"x": (np.zeros(1, np.float16 if dtype is DType.FLOAT16 else np.uint16), dtype)})


def test_a_string_that_is_no_text_cannot_travel_as_json() -> None:
    """JSON is UTF-8."""
    with pytest.raises(UsageError, match="not UTF-8"):
        json_request({"x": (np.array([b"\xff"], dtype=object), DType.STRING)})


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        (DType.BOOL, [1]),
        (DType.INT32, [1.5]),
        (DType.INT32, [True]),
        (DType.FLOAT32, ["1"]),
        (DType.STRING, [1]),
        (DType.UINT8, [256]),
        (DType.INT32, [1, 2]),
    ],
)
def test_a_json_value_that_is_none_of_its_type_is_unreadable(dtype: DType, data: list) -> None:
    """A client in another language would stumble over it."""
    body = {"outputs": [{"name": "y", "datatype": wire_type(dtype), "shape": [1], "data": data}]}
    with pytest.raises(WrongProtocol, match="unreadable JSON tensors"):
        json_tensors(json.dumps(body).encode(), "here")


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"outputs": [{"name": "y"}]}'])
def test_an_answer_of_another_form_is_unreadable(body: bytes) -> None:
    """One line, whatever it is."""
    with pytest.raises(WrongProtocol, match="here answered with unreadable JSON"):
        json_tensors(body, "here")


def rounded(rows: list) -> list:
    """A gateway that saves bytes."""
    return [{**row, "data": [round(value, 1) + 0.05 for value in row["data"]]} for row in rows]


def test_numbers_that_json_rounds_are_found(stage) -> None:
    """In binary form all is well."""
    stage.fake.said = rounded
    result = CHECKS["json"](stage.context())
    assert result.status == "fail"
    assert "not answered as in binary form: output 'y'" in result.detail


def test_an_unreadable_answer_as_json_fails(stage) -> None:
    """And so does a refusal."""
    stage.fake.said = lambda rows: [{**row, "data": "much"} for row in rows]
    assert "unreadable" in CHECKS["json"](stage.context()).detail

    def refuse(*args):
        raise InferenceRefused("no JSON here")

    stage.fake.infer_json = refuse
    assert "no JSON here" in CHECKS["json"](stage.context()).detail


def test_json_is_skipped_where_it_is_not_allowed(stage, make_stage, monkeypatch) -> None:
    """Half precision, too many values, no HTTP."""
    x, y = (TunedTensorSpec(n, DType.FLOAT16, ("batch", 4), (1, 4), (8, 4), 0) for n in "xy")
    half = make_stage(lambda inputs: {"y": inputs["x"]}, (x,), (y,))
    assert "'x' is float16" in CHECKS["json"](half.context()).detail
    context = stage.context()
    monkeypatch.setattr(transfers, "_MOST_VALUES", 3)
    assert "7 values are too many" in CHECKS["json"](context).detail
    context.clients = {"grpc": context.clients["grpc"]}
    assert "over HTTP only" in CHECKS["json"](context).detail


def test_bytes_that_shared_memory_gets_wrong_are_found(stage) -> None:
    """Over the wire all is well."""
    stage.fake.written = lambda data: data[4:] + data[:4]
    result = CHECKS["shared_memory"](stage.context())
    assert result.status == "fail"
    assert "over grpc, through shared memory: output 'y'" in result.detail


def test_memory_is_given_back_whatever_happens(stage) -> None:
    """The server knows no region afterwards."""

    def refuse(*args):
        raise InferenceRefused("not so")

    stage.fake.infer_shared = refuse
    assert CHECKS["shared_memory"](stage.context()).detail == "over grpc: not so"
    assert stage.fake.regions == {}


def test_an_output_that_was_not_written_is_found(stage) -> None:
    """The server answers, and says nothing of it."""
    stage.fake.infer_shared = lambda *args: ()
    assert "did not answer output 'y'" in CHECKS["shared_memory"](stage.context()).detail


def test_shared_memory_is_skipped_where_it_cannot_be(stage) -> None:
    """Another machine, a server that refuses, a server that is not ours."""
    context = stage.context()

    def refuse(*args):
        raise ServerUnreachable("unable to open shared memory region")

    stage.fake.share = refuse
    result = CHECKS["shared_memory"](context)
    assert (result.status, "unable to open" in result.detail) == ("skip", True)
    for client in context.clients.values():
        client.endpoint = replace(client.endpoint, host="far.example")
    assert CHECKS["shared_memory"](context).detail == "the server runs on another machine"
    context.own = False
    assert CHECKS["shared_memory"](context).status == "skip"
