"""Triton over gRPC, on tritonclient's generated messages and stub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import grpc
from google.protobuf import text_format
from tritonclient.grpc import service_pb2, service_pb2_grpc

from aitune.errors import ServerError, UsageError
from aitune.triton.client_diagnosis import diagnose
from aitune.triton.client_errors import (
    SLOW,
    AccessDenied,
    EndpointRestricted,
    InferenceRefused,
    ModelAbsent,
    ServerTimeout,
    ServerUnreachable,
    WrongProtocol,
)
from aitune.triton.client_records import (
    IndexEntry,
    ModelMetadata,
    ModelStatistics,
    ServerInfo,
    SharedTensor,
    TensorMetadata,
    WireTensor,
)
from aitune.triton.endpoint import Endpoint, Tls
from aitune.triton.schema import model_config

__all__ = ["GrpcTransport"]

_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
)
# Ours are the statuses that gRPC itself makes when it has no answer; Triton uses UNAVAILABLE for a full queue, too.
_NO_ANSWER = ("failed to connect", "Socket closed", "Connection reset", "Broken pipe", "GOAWAY", "recvmsg", "handshake")


class GrpcTransport:
    """One server over gRPC.

    Args:
        endpoint: Where it listens.
        timeout_s: Seconds a request may take.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._metadata = tuple((name.lower(), value) for name, value in endpoint.headers)
        if endpoint.tls is None:
            self._channel = grpc.insecure_channel(endpoint.address, options=_OPTIONS)
        else:
            self._channel = grpc.secure_channel(endpoint.address, _credentials(endpoint.tls), options=_OPTIONS)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    def live(self) -> bool:
        """Whether the server process answers."""
        return bool(self._call(self._stub.ServerLive, service_pb2.ServerLiveRequest()).live)

    def ready(self) -> bool:
        """Whether the server says it is ready."""
        return bool(self._call(self._stub.ServerReady, service_pb2.ServerReadyRequest()).ready)

    def model_ready(self, name: str, version: str) -> bool:
        """Whether a version is loaded."""
        request = service_pb2.ModelReadyRequest(name=name, version=version)
        return bool(self._call(self._stub.ModelReady, request).ready)

    def server(self) -> ServerInfo:
        """Who answers."""
        found = self._call(self._stub.ServerMetadata, service_pb2.ServerMetadataRequest())
        return ServerInfo(name=found.name, version=found.version, extensions=tuple(found.extensions))

    def config(self, name: str, version: str) -> object:
        """The served config as a ``ModelConfig`` message."""
        request = service_pb2.ModelConfigRequest(name=name, version=version)
        found = self._call(self._stub.ModelConfig, request).config
        # The very class of aitune.triton.schema, so that messages of both protocols and of files compare.
        message: object = text_format.Parse(text_format.MessageToString(found), model_config().ModelConfig())
        return message

    def metadata(self, name: str, version: str) -> ModelMetadata:
        """The served tensors."""
        found = self._call(self._stub.ModelMetadata, service_pb2.ModelMetadataRequest(name=name, version=version))
        return ModelMetadata(
            name=found.name,
            versions=tuple(found.versions),
            inputs=tuple(map(_tensor_metadata, found.inputs)),
            outputs=tuple(map(_tensor_metadata, found.outputs)),
        )

    def statistics(self, name: str, version: str) -> tuple[ModelStatistics, ...]:
        """Counters, one entry a version."""
        request = service_pb2.ModelStatisticsRequest(name=name, version=version)
        return tuple(map(_statistics, self._call(self._stub.ModelStatistics, request).model_stats))

    def index(self) -> tuple[IndexEntry, ...]:
        """Every model the server knows."""
        found = self._call(self._stub.RepositoryIndex, service_pb2.RepositoryIndexRequest())
        return tuple(
            IndexEntry(name=row.name, version=row.version, state=row.state, reason=row.reason) for row in found.models
        )

    def load(self, name: str, config: str | None) -> None:
        """Load or reload a model, with another config (JSON) if given."""
        request = service_pb2.RepositoryModelLoadRequest(model_name=name)
        if config is not None:
            request.parameters["config"].string_param = config
        self._call(self._stub.RepositoryModelLoad, request)

    def unload(self, name: str) -> None:
        """Unload a model."""
        self._call(self._stub.RepositoryModelUnload, service_pb2.RepositoryModelUnloadRequest(model_name=name))

    def infer(
        self, name: str, version: str, inputs: Sequence[WireTensor], outputs: Sequence[str], timeout_s: float
    ) -> tuple[WireTensor, ...]:
        """Answers to one request; all outputs when none is named."""
        request = service_pb2.ModelInferRequest(model_name=name, model_version=version)
        for tensor in inputs:
            request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
            request.raw_input_contents.append(tensor.data)
        for output in outputs:
            request.outputs.add(name=output)
        reply = self._call(self._stub.ModelInfer, request, timeout_s=timeout_s, refused=InferenceRefused)
        if len(reply.raw_output_contents) != len(reply.outputs):
            raise WrongProtocol(f"{self._endpoint.url} answered without raw tensors", hint="is this a Triton server?")
        return tuple(
            WireTensor(name=row.name, datatype=row.datatype, shape=tuple(row.shape), data=data)
            for row, data in zip(reply.outputs, reply.raw_output_contents, strict=True)
        )

    def infer_json(self, name: str, version: str, body: bytes, timeout_s: float) -> bytes:
        """Nothing: gRPC has no such form.

        Raises:
            UsageError: Always.
        """
        raise UsageError("JSON tensors travel over HTTP only", hint="give the address of the HTTP port")

    def share(self, region: str, key: str, nbytes: int) -> None:
        """Let the server open system shared memory."""
        request = service_pb2.SystemSharedMemoryRegisterRequest(name=region, key=key, offset=0, byte_size=nbytes)
        self._call(self._stub.SystemSharedMemoryRegister, request)

    def unshare(self, region: str) -> None:
        """Let it forget that memory."""
        request = service_pb2.SystemSharedMemoryUnregisterRequest(name=region)
        self._call(self._stub.SystemSharedMemoryUnregister, request)

    def infer_shared(
        self,
        name: str,
        version: str,
        inputs: Sequence[SharedTensor],
        outputs: Sequence[SharedTensor],
        timeout_s: float,
    ) -> tuple[TensorMetadata, ...]:
        """One request through shared memory; what was written there, by output."""
        request = service_pb2.ModelInferRequest(model_name=name, model_version=version)
        for tensor in inputs:
            _put_place(request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape), tensor)
        for tensor in outputs:
            _put_place(request.outputs.add(name=tensor.name), tensor)
        reply = self._call(self._stub.ModelInfer, request, timeout_s=timeout_s, refused=InferenceRefused)
        return tuple(map(_tensor_metadata, reply.outputs))

    def close(self) -> None:
        """Close every connection."""
        self._channel.close()

    def _call(
        self,
        method: Callable[..., Any],
        request: object,
        *,
        timeout_s: float | None = None,
        refused: type[ServerError] = ServerError,
    ) -> Any:
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            return method(request, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._failure(error, timeout_s, refused) from error
        except ValueError as error:  # what grpc raises once the channel is closed
            raise ServerUnreachable(f"the connection to {self._endpoint.url} is closed") from error

    def _failure(self, error: grpc.RpcError, timeout_s: float, refused: type[ServerError]) -> ServerError:
        """The typed form of a status that is not OK."""
        code, text, url = error.code(), " ".join((error.details() or "").split()), self._endpoint.url
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return ServerTimeout(f"no answer from {url} within {timeout_s:g} s", hint=SLOW)
        if code is grpc.StatusCode.UNAVAILABLE and any(phrase in text for phrase in _NO_ANSWER):
            return diagnose(self._endpoint, text)
        if "is restricted, expecting header" in text:
            return EndpointRestricted(f"an API of {url} is restricted: {text}", hint="give the header with --header")
        if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            return AccessDenied(f"{url} denied access: {text}", hint="give credentials with --header")
        if code is grpc.StatusCode.NOT_FOUND:
            return ModelAbsent(f"{url}: {text}", hint="check the name and the version")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return WrongProtocol(f"{url} speaks gRPC, but is no Triton: {text}", hint="check host and port")
        if refused is InferenceRefused:
            return InferenceRefused(text)
        return refused(f"{url} refused the request: {text}")


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    if not tls.verify:
        raise UsageError("gRPC cannot leave out the check of the server's certificate", hint="trust it with --tls-ca")
    try:
        pieces = [None if path is None else path.read_bytes() for path in (tls.ca, tls.key, tls.certificate)]
    except OSError as error:
        raise UsageError(f"a TLS file cannot be read: {error}") from error
    return grpc.ssl_channel_credentials(*pieces)


def _put_place(row: Any, tensor: SharedTensor) -> None:
    row.parameters["shared_memory_region"].string_param = tensor.region
    row.parameters["shared_memory_offset"].int64_param = tensor.offset
    row.parameters["shared_memory_byte_size"].int64_param = tensor.nbytes


def _tensor_metadata(row: Any) -> TensorMetadata:
    return TensorMetadata(name=row.name, datatype=row.datatype, shape=tuple(row.shape))


def _statistics(row: Any) -> ModelStatistics:
    return ModelStatistics(
        version=row.version,
        inferences=row.inference_count,
        executions=row.execution_count,
        succeeded=row.inference_stats.success.count,
        failed=row.inference_stats.fail.count,
        batches=tuple((item.batch_size, item.compute_infer.count) for item in row.batch_stats),
    )
