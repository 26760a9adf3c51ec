"""What a Triton server says and is told, as plain values, whatever protocol carried it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "IndexEntry",
    "ModelMetadata",
    "ModelStatistics",
    "ServerInfo",
    "SharedTensor",
    "TensorMetadata",
    "Transport",
    "WireTensor",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireTensor:
    """One tensor as it travels.

    Attributes:
        name: Name in the model.
        datatype: Triton's word on the wire, e.g. ``"FP32"`` or ``"BYTES"``.
        shape: Sizes, batch included.
        data: Row-major little-endian bytes; strings behind a 4-byte length each.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTensor:
    """One tensor that lies in memory shared with the server.

    Attributes:
        name: Name in the model.
        datatype: Triton's word on the wire; ``""`` for an output that is asked for.
        shape: Sizes, batch included; none for an output that is asked for.
        region: Name under which the server knows the memory.
        offset: Where in it the tensor begins, in bytes.
        nbytes: Its size.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    region: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Who answers.

    Attributes:
        name: ``"triton"``, if it is one.
        version: Number of the server, e.g. ``"2.51.0"``.
        extensions: Protocol extensions it claims.
    """

    name: str
    version: str
    extensions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMetadata:
    """One input or output as clients see it: reshaped, and with the batch axis as -1.

    Attributes:
        name: Name in the model.
        datatype: Triton's word on the wire, e.g. ``"FP32"``.
        shape: Sizes, -1 where free.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetadata:
    """What the metadata endpoint says about a model.

    Attributes:
        name: Name of the model.
        versions: Served versions.
        inputs: Inputs, in the server's order.
        outputs: Outputs, in the server's order.
    """

    name: str
    versions: tuple[str, ...]
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """One row of the repository index.

    Attributes:
        name: Name of the model.
        version: Version, ``""`` when nothing was loaded.
        state: ``"READY"``, ``"UNAVAILABLE"``, ``"LOADING"``, ``"UNLOADING"`` or ``""``.
        reason: Why it is unavailable.
    """

    name: str
    version: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatistics:
    """Counters of one version since it was loaded.

    Attributes:
        version: The version.
        inferences: Rows answered (a request of batch 3 counts 3).
        executions: Runs of the model.
        succeeded: Requests answered.
        failed: Requests answered with an error.
        batches: (batch size, executions) pairs, for sizes that occurred.
    """

    version: str
    inferences: int
    executions: int
    succeeded: int
    failed: int
    batches: tuple[tuple[int, int], ...]

    def since(self, before: ModelStatistics) -> ModelStatistics:
        """What was added after ``before``."""
        old = dict(before.batches)
        grown = ((size, count - old.get(size, 0)) for size, count in self.batches)
        return ModelStatistics(
            version=self.version,
            inferences=self.inferences - before.inferences,
            executions=self.executions - before.executions,
            succeeded=self.succeeded - before.succeeded,
            failed=self.failed - before.failed,
            batches=tuple((size, count) for size, count in grown if count),
        )


class Transport(Protocol):
    """One protocol: every call is one request, answered in time or with a typed error."""

    def live(self) -> bool:
        """Whether the server process answers."""
        ...

    def ready(self) -> bool:
        """Whether the server says it is ready."""
        ...

    def model_ready(self, name: str, version: str) -> bool:
        """Whether a version is loaded."""
        ...

    def server(self) -> ServerInfo:
        """Who answers."""
        ...

    def config(self, name: str, version: str) -> object:
        """The served config as a ``ModelConfig`` message."""
        ...

    def metadata(self, name: str, version: str) -> ModelMetadata:
        """The served tensors."""
        ...

    def statistics(self, name: str, version: str) -> tuple[ModelStatistics, ...]:
        """Counters, one entry a version."""
        ...

    def index(self) -> tuple[IndexEntry, ...]:
        """Every model the server knows."""
        ...

    def load(self, name: str, config: str | None) -> None:
        """Load or reload a model, with another config (JSON) if given."""
        ...

    def unload(self, name: str) -> None:
        """Unload a model."""
        ...

    def infer(
        self, name: str, version: str, inputs: Sequence[WireTensor], outputs: Sequence[str], timeout_s: float
    ) -> tuple[WireTensor, ...]:
        """Answers to one request; all outputs when none is named."""
        ...

    def infer_json(self, name: str, version: str, body: bytes, timeout_s: float) -> bytes:
        """The body of the answer to a request whose body is JSON.

        Raises:
            UsageError: If the protocol has no such form.
        """
        ...

    def share(self, region: str, key: str, nbytes: int) -> None:
        """Let the server open system shared memory."""
        ...

    def unshare(self, region: str) -> None:
        """Let it forget that memory."""
        ...

    def infer_shared(
        self,
        name: str,
        version: str,
        inputs: Sequence[SharedTensor],
        outputs: Sequence[SharedTensor],
        timeout_s: float,
    ) -> tuple[TensorMetadata, ...]:
        """One request through shared memory; what was written there, by output."""
        ...

    def close(self) -> None:
        """Close every connection."""
        ...
