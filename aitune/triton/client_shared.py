"""Requests whose tensors lie in system shared memory: only their place travels."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

from aitune.errors import ServerError
from aitune.numerics.wire import from_wire, to_wire
from aitune.triton.client import Client, Tensor
from aitune.triton.client_errors import SharedMemoryRefused, WrongProtocol
from aitune.triton.client_records import SharedTensor, TensorMetadata
from aitune.triton.datatypes import dtype_of_wire, wire_type

__all__ = ["infer_shared"]

_PATIENCE_S = 5.0
_FOLDER = Path("/dev/shm")  # noqa: S108  # where the system keeps it; nothing is written there by path


def infer_shared(
    client: Client, name: str, version: str, inputs: Mapping[str, Tensor], output_bytes: Mapping[str, int]
) -> dict[str, Tensor]:
    """The answer to one request through memory that is shared with the server for as long as the request takes.

    Args:
        client: A server on this machine.
        name: The model.
        version: Its version.
        inputs: Arrays and their element types, as clients send them.
        output_bytes: Size on the wire of each output that is wanted.

    Raises:
        SharedMemoryRefused: If this system has no such memory, or the server cannot reach it.
        ServerError: As other requests do.
    """
    data = {key: to_wire(array, dtype) for key, (array, dtype) in inputs.items()}
    size = sum(map(len, data.values())) + sum(output_bytes.values())
    # The view goes first: memory cannot be closed while somebody looks into it.
    with _region(client, size) as memory, memoryview(memory.buf or b"") as view:
        offset, asked, wanted = 0, [], []
        for key, (array, dtype) in inputs.items():
            view[offset : offset + len(data[key])] = data[key]
            asked.append(_place(key, wire_type(dtype), array.shape, memory, offset, len(data[key])))
            offset += len(data[key])
        for key, nbytes in output_bytes.items():
            wanted.append(_place(key, "", (), memory, offset, nbytes))
            offset += nbytes
        rows = {row.name: row for row in client.infer_shared(name, version, asked, wanted)}
        missing = [place.name for place in wanted if place.name not in rows]
        if missing:
            raise WrongProtocol(f"{client.endpoint.url} did not answer output {missing[0]!r}")
        return {place.name: _read(view, place, rows[place.name]) for place in wanted}


def _read(view: memoryview, place: SharedTensor, row: TensorMetadata) -> Tensor:
    dtype = dtype_of_wire(row.datatype)
    return from_wire(bytes(view[place.offset : place.offset + place.nbytes]), dtype, row.shape), dtype


def _place(
    name: str, datatype: str, shape: tuple[int, ...], memory: SharedMemory, offset: int, nbytes: int
) -> SharedTensor:
    return SharedTensor(name=name, datatype=datatype, shape=shape, region=memory.name, offset=offset, nbytes=nbytes)


def _forget(client: Client, region: str) -> None:
    """Let the server close a region; its last answer may be here before the server has let go of the request."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            client.unshare(region)
        except ServerError as error:
            if "in use" not in error.message or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


@contextmanager
def _region(client: Client, nbytes: int) -> Iterator[SharedMemory]:
    """Memory that the server knows, under the same name on both sides; forgotten and freed after the block."""
    if not _FOLDER.is_dir():
        raise SharedMemoryRefused(f"this system has no {str(_FOLDER)!r} to share memory through")
    memory = SharedMemory(name=f"aitune_{secrets.token_hex(8)}", create=True, size=max(nbytes, 1))
    try:
        try:
            client.share(memory.name, f"/{memory.name}", memory.size)
        except ServerError as error:
            raise SharedMemoryRefused(f"the server does not take our shared memory: {error}") from error
        try:
            yield memory
        finally:
            _forget(client, memory.name)
    finally:
        memory.close()
        memory.unlink()
