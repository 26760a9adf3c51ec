"""How a worker and the one who started it talk: a line of JSON, then the bytes of its tensors.

Tensors travel as Triton carries them (:mod:`aitune.numerics.wire`), so that strings and BFLOAT16 do too. Nothing is
ever unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

from aitune.errors import SourceError
from aitune.numerics import Array, from_wire, to_wire
from aitune.records import DType

__all__ = ["Frame", "read_frame", "write_frame"]

Typed = Mapping[str, tuple[Array, DType]]


class Frame:
    """One message.

    Attributes:
        head: What is said, as JSON has it.
        tensors: Arrays by name.
    """

    def __init__(self, head: dict[str, Any], tensors: dict[str, Array]) -> None:
        self.head = head
        self.tensors = tensors


def write_frame(stream: IO[bytes], head: Mapping[str, Any], tensors: Typed | None = None) -> None:
    """Send a message.

    Raises:
        OSError: If nobody listens any more.
    """
    payloads = {name: to_wire(array, dtype) for name, (array, dtype) in (tensors or {}).items()}
    listed = [
        {"name": name, "dtype": dtype.value, "shape": list(array.shape), "bytes": len(payloads[name])}
        for name, (array, dtype) in (tensors or {}).items()
    ]
    stream.write(json.dumps({**head, "tensors": listed}).encode() + b"\n")
    for payload in payloads.values():
        stream.write(payload)
    stream.flush()


def read_frame(stream: IO[bytes]) -> Frame | None:
    """Receive a message; None when the other side is gone.

    Raises:
        SourceError: If what comes is no message.
    """
    line = stream.readline()
    if not line:
        return None
    try:
        head = json.loads(line)
        listed = head.pop("tensors")
    except (ValueError, KeyError, AttributeError) as error:
        raise SourceError(f"a worker wrote something that is no message: {line[:80]!r}") from error
    tensors = {}
    for item in listed:
        data = stream.read(item["bytes"])
        if len(data) != item["bytes"]:
            return None
        tensors[item["name"]] = from_wire(data, DType(item["dtype"]), tuple(item["shape"]))
    return Frame(head, tensors)
