"""A client for Triton that is the same over gRPC and HTTP: typed answers, typed errors, never a hang.

Tensors are numpy arrays with their :class:`~aitune.records.DType` (see :mod:`aitune.numerics.wire` for the dtypes that
numpy lacks); they travel in binary form, as JSON only
where that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from aitune.errors import ServerError, UsageError
from aitune.numerics.dtypes import Array
from aitune.numerics.wire import from_wire, to_wire
from aitune.records import DType
from aitune.triton.client_errors import InferenceRefused, ModelAbsent, ModelNotReady, WrongProtocol
from aitune.triton.client_http import HttpTransport
from aitune.triton.client_json import json_request, json_tensors
from aitune.triton.client_records import (
    IndexEntry,
    ModelMetadata,
    ModelStatistics,
    ServerInfo,
    SharedTensor,
    TensorMetadata,
    Transport,
    WireTensor,
)
from aitune.triton.datatypes import dtype_of_wire, wire_type
from aitune.triton.endpoint import Endpoint

__all__ = ["DEFAULT_TIMEOUT_S", "Client", "Tensor", "connect"]

DEFAULT_TIMEOUT_S = 30.0
_NOT_READY = "is not at ready state"

Tensor = tuple[Array, DType]
"""An array and the element type its bits stand for."""


class Client:
    """One server over one protocol; safe to share between threads.

    Args:
        transport: What carries the requests; :func:`connect` picks it.
        endpoint: Where the server listens.
        timeout_s: Seconds one request may take.
    """

    def __init__(self, transport: Transport, endpoint: Endpoint, timeout_s: float) -> None:
        self._transport = transport
        self.endpoint = endpoint
        self.timeout_s = timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def protocol(self) -> str:
        """``"grpc"`` or ``"http"``."""
        return self.endpoint.protocol

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def live(self) -> bool:
        """Whether the server process answers."""
        return self._transport.live()

    def ready(self) -> bool:
        """Whether the server says it is ready."""
        return self._transport.ready()

    def model_ready(self, name: str, version: str = "") -> bool:
        """Whether a version (the newest when empty) is loaded."""
        return self._transport.model_ready(name, version)

    def server(self) -> ServerInfo:
        """Who answers."""
        return self._transport.server()

    def config(self, name: str, version: str = "") -> object:
        """The config as the server holds it: a ``ModelConfig`` message of :mod:`aitune.triton.schema`.

        Raises:
            ServerError: One of :mod:`aitune.triton.client_errors`.
        """
        try:
            return self._transport.config(name, version)
        except ModelAbsent as error:
            raise self._explained(name, version, error) from error

    def metadata(self, name: str, version: str = "") -> ModelMetadata:
        """The tensors as clients see them."""
        try:
            return self._transport.metadata(name, version)
        except ModelAbsent as error:
            raise self._explained(name, version, error) from error

    def statistics(self, name: str, version: str) -> ModelStatistics:
        """Counters of one version since it was loaded."""
        found = {entry.version: entry for entry in self._transport.statistics(name, version)}
        if version not in found:
            raise ModelAbsent(f"{self.endpoint.url} has no statistics of {name!r} version {version}")
        return found[version]

    def index(self) -> tuple[IndexEntry, ...]:
        """Every model the server knows, with the reason for each that it could not load."""
        return self._transport.index()

    def load(self, name: str, *, config: str | None = None) -> None:
        """Load or reload a model; explicit mode only.

        Args:
            name: Name of the model.
            config: JSON of a config to use instead of the one in the repository.
        """
        self._transport.load(name, config)

    def unload(self, name: str) -> None:
        """Unload a model; explicit mode only."""
        self._transport.unload(name)

    def infer_wire(
        self,
        name: str,
        version: str,
        inputs: Iterable[WireTensor],
        outputs: Sequence[str] = (),
        *,
        timeout_s: float | None = None,
    ) -> tuple[WireTensor, ...]:
        """Answer to one request as it travels; nothing is checked on the way out, so that bad requests can be sent.

        Raises:
            InferenceRefused: If the server said no; the message is its own.
            ServerError: One of :mod:`aitune.triton.client_errors`.
        """
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        try:
            return self._transport.infer(name, version, tuple(inputs), outputs, timeout_s)
        except ModelAbsent as error:
            raise self._explained(name, version, error) from error
        except InferenceRefused as error:
            if _NOT_READY in error.message:  # Triton has no status of its own for it
                raise self._explained(name, version, error) from error
            raise

    def infer_typed(
        self,
        name: str,
        version: str,
        inputs: Mapping[str, Tensor],
        outputs: Sequence[str] = (),
        *,
        timeout_s: float | None = None,
    ) -> dict[str, Tensor]:
        """Arrays and the element types that the server says they have, by output."""
        request = [
            WireTensor(name=key, datatype=wire_type(dtype), shape=array.shape, data=to_wire(array, dtype))
            for key, (array, dtype) in inputs.items()
        ]
        answers = self.infer_wire(name, version, request, outputs, timeout_s=timeout_s)
        return {tensor.name: self._decoded(tensor) for tensor in answers}

    def infer(
        self,
        name: str,
        version: str,
        inputs: Mapping[str, Tensor],
        outputs: Sequence[str] = (),
        *,
        timeout_s: float | None = None,
    ) -> dict[str, Array]:
        """Arrays by output; all outputs when none is named."""
        answers = self.infer_typed(name, version, inputs, outputs, timeout_s=timeout_s)
        return {key: array for key, (array, _) in answers.items()}

    def infer_json(self, name: str, version: str, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """As :meth:`infer_typed`, with tensors as JSON in both directions; HTTP only.

        Raises:
            UsageError: Over gRPC, for an element type that JSON has no form for, and for a string that is not UTF-8.
        """
        body = self._transport.infer_json(name, version, json_request(inputs), self.timeout_s)
        return json_tensors(body, self.endpoint.url)

    def share(self, region: str, key: str, nbytes: int) -> None:
        """Let the server open system shared memory of this machine."""
        self._transport.share(region, key, nbytes)

    def unshare(self, region: str) -> None:
        """Let it forget that memory."""
        self._transport.unshare(region)

    def infer_shared(
        self, name: str, version: str, inputs: Sequence[SharedTensor], outputs: Sequence[SharedTensor]
    ) -> tuple[TensorMetadata, ...]:
        """One request through shared memory; see :mod:`aitune.triton.client_shared`."""
        return self._transport.infer_shared(name, version, inputs, outputs, self.timeout_s)

    def _decoded(self, tensor: WireTensor) -> Tensor:
        try:
            dtype = dtype_of_wire(tensor.datatype)
            return from_wire(tensor.data, dtype, tensor.shape), dtype
        except UsageError as error:
            raise WrongProtocol(
                f"{self.endpoint.url} answered with an unreadable tensor {tensor.name!r}: {error}"
            ) from error

    def _explained(self, name: str, version: str, error: ServerError) -> ServerError:
        """Absent, or present and not loaded? The index tells, where it may be read."""
        try:
            rows = [row for row in self.index() if row.name == name and row.version in ("", version or row.version)]
        except ServerError:
            return error
        if not rows or any(row.state == "READY" for row in rows):
            return error
        reason = next((row.reason for row in rows if row.reason), f"state {rows[0].state or 'not loaded'}")
        return ModelNotReady(f"model {name!r} is not ready at {self.endpoint.url}: {' '.join(reason.split())}")


def connect(endpoint: Endpoint, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> Client:
    """A client for an endpoint; nothing is sent yet.

    Args:
        endpoint: Where the server listens.
        timeout_s: Seconds one request may take.
    """
    if endpoint.protocol == "http":
        return Client(HttpTransport(endpoint, timeout_s), endpoint, timeout_s)
    from aitune.triton.client_grpc import GrpcTransport  # costs a third of a second: only who speaks gRPC pays

    return Client(GrpcTransport(endpoint, timeout_s), endpoint, timeout_s)
