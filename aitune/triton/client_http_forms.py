"""The binary form of Triton's HTTP protocol, a JSON head and the bytes of each tensor; its JSON rows as records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aitune.triton.client_errors import WrongProtocol
from aitune.triton.client_records import ModelStatistics, SharedTensor, TensorMetadata, WireTensor

__all__ = [
    "HEADER_LENGTH",
    "Reply",
    "request_header",
    "shared_answer",
    "shared_request",
    "statistics_of",
    "tensor_metadata",
    "tensors",
]

HEADER_LENGTH = "Inference-Header-Content-Length"
"""Name of the header that says how long the JSON head is."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply.

    Attributes:
        status: HTTP status.
        headers: By lower-case name.
        body: All of it.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


def request_header(inputs: Sequence[WireTensor], outputs: Sequence[str]) -> bytes:
    """The JSON head of a request whose tensors follow as bytes."""
    header: dict[str, Any] = {
        "inputs": [
            {
                "name": tensor.name,
                "datatype": tensor.datatype,
                "shape": list(tensor.shape),
                "parameters": {"binary_data_size": len(tensor.data)},
            }
            for tensor in inputs
        ],
        "parameters": {"binary_data_output": True},
    }
    if outputs:
        header["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
    return json.dumps(header).encode()


def tensors(reply: Reply, url: str) -> tuple[WireTensor, ...]:
    """The tensors of a reply: a JSON head, then the bytes of each.

    Raises:
        WrongProtocol: If it has another form.
    """
    try:
        size = int(reply.headers.get(HEADER_LENGTH.lower(), len(reply.body)))
        head, rest = json.loads(reply.body[:size]), reply.body[size:]
        found = []
        for row in head.get("outputs", ()):
            nbytes = row["parameters"]["binary_data_size"]
            data, rest = rest[:nbytes], rest[nbytes:]
            found.append(WireTensor(name=row["name"], datatype=row["datatype"], shape=tuple(row["shape"]), data=data))
    except (ValueError, KeyError, TypeError) as error:
        raise WrongProtocol(f"{url} answered a request with something that is not Triton's binary form") from error
    return tuple(found)


def shared_request(inputs: Sequence[SharedTensor], outputs: Sequence[SharedTensor]) -> bytes:
    """A request that only says where its tensors lie."""

    def place(tensor: SharedTensor) -> dict[str, Any]:
        return {
            "shared_memory_region": tensor.region,
            "shared_memory_offset": tensor.offset,
            "shared_memory_byte_size": tensor.nbytes,
        }

    asked = [
        {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape), "parameters": place(tensor)}
        for tensor in inputs
    ]
    wanted = [{"name": tensor.name, "parameters": place(tensor)} for tensor in outputs]
    return json.dumps({"inputs": asked, "outputs": wanted}).encode()


def shared_answer(body: bytes, url: str) -> tuple[TensorMetadata, ...]:
    """What the answer to such a request says about its tensors.

    Raises:
        WrongProtocol: If it has another form.
    """
    try:
        return tuple(map(tensor_metadata, json.loads(body)["outputs"]))
    except (ValueError, KeyError, TypeError) as error:
        raise WrongProtocol(f"{url} answered a request through shared memory with something else") from error


def tensor_metadata(row: Mapping[str, Any]) -> TensorMetadata:
    """One row of the metadata."""
    return TensorMetadata(name=row["name"], datatype=row["datatype"], shape=tuple(int(size) for size in row["shape"]))


def statistics_of(row: Mapping[str, Any]) -> ModelStatistics:
    """One row of the statistics."""
    timing = row.get("inference_stats", {})
    return ModelStatistics(
        version=str(row.get("version", "")),
        inferences=int(row.get("inference_count", 0)),
        executions=int(row.get("execution_count", 0)),
        succeeded=int(timing.get("success", {}).get("count", 0)),
        failed=int(timing.get("fail", {}).get("count", 0)),
        batches=tuple(
            (int(item["batch_size"]), int(item["compute_infer"]["count"])) for item in row.get("batch_stats", ())
        ),
    )
