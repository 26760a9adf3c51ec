"""What stood behind a result: which server, and which ONNX Runtime backend in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Implementation", "ProvedBy", "implementation_of"]

Implementation = Literal["aitune-python", "nvidia-cpp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedBy:
    """The software that gave an answer.

    Attributes:
        implementation: The ONNX Runtime backend; None when the server serves no ONNX model to tell from.
        server: Version of tritonserver, e.g. ``"2.51.0"``.
        onnxruntime: Version of ONNX Runtime; None when it cannot be known from outside.

    >>> ProvedBy(implementation="aitune-python", server="2.51.0", onnxruntime="1.32.0").to_json()["server"]
    '2.51.0'
    """

    implementation: Implementation | None
    server: str
    onnxruntime: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """The form that goes into JSON documents."""
        return {"implementation": self.implementation, "server": self.server, "onnxruntime": self.onnxruntime}


def implementation_of(*, backend: str, runtime: str) -> Implementation | None:
    """Which ONNX Runtime backend serves a model, from two fields of its config as the server reports it.

    Triton itself writes ``runtime: "model.py"`` for a backend written in Python, whatever the file said.

    >>> implementation_of(backend="onnxruntime", runtime="model.py")
    'aitune-python'
    """
    if backend != "onnxruntime":
        return None
    return "aitune-python" if runtime == "model.py" else "nvidia-cpp"
