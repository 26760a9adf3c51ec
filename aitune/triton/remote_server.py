"""What every Triton that answers has in common, and one that runs already."""

from __future__ import annotations

from typing import Protocol

from aitune.triton import server_http
from aitune.triton.proved_by import Implementation, ProvedBy, implementation_of
from aitune.triton.server_http import ModelState

__all__ = ["RemoteServer", "Server"]


class Server(Protocol):
    """A Triton that answers.

    Attributes are addresses in the form ``HOST:PORT``; None where there is no such endpoint.
    """

    @property
    def http(self) -> str | None:
        """Where it speaks HTTP."""
        ...

    @property
    def grpc(self) -> str | None:
        """Where it speaks gRPC."""
        ...

    @property
    def metrics(self) -> str | None:
        """Where it gives metrics."""
        ...

    def models(self) -> tuple[ModelState, ...]:
        """Every model it sees, with the reasons of those that are not ready."""
        ...

    def proved_by(self) -> ProvedBy:
        """What stands behind its answers."""
        ...


class RemoteServer:
    """A server that runs already and is not ours to change.

    Args:
        http: Its HTTP address, ``HOST:PORT`` or a URL; the only one it is asked through.
        grpc: Its gRPC address, if known.
        metrics: Its metrics address, if known.
    """

    def __init__(self, http: str, *, grpc: str | None = None, metrics: str | None = None) -> None:
        self.http = http
        self.grpc = grpc
        self.metrics = metrics

    def models(self) -> tuple[ModelState, ...]:
        """Every model it sees, with the reasons of those that are not ready."""
        return server_http.repository_index(self.http)

    def proved_by(self) -> ProvedBy:
        """What stands behind its answers, told from the config of the first ONNX model that is ready."""
        found: Implementation | None = None
        for name in dict.fromkeys(model.name for model in self.models() if model.ready):
            config = server_http.model_config(self.http, name)
            found = implementation_of(backend=config.get("backend", ""), runtime=config.get("runtime", ""))
            if found is not None:
                break
        return ProvedBy(implementation=found, server=server_http.server_version(self.http))
