"""What the checker assumes about the server that will load the repository."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from aitune.records.interface import Interface
from aitune.triton.releases import DEFAULT_RELEASE, Release, release

__all__ = ["DEFAULT_BACKENDS", "Options", "ReadInterface"]

ReadInterface: TypeAlias = Callable[[Path], Interface]

DEFAULT_BACKENDS = frozenset({"dali", "fil", "onnxruntime", "openvino", "python", "pytorch", "tensorflow", "tensorrt"})
"""Backends of NVIDIA's image; TensorFlow left it in 25.03."""


_DEFAULT = release(DEFAULT_RELEASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The server, as far as its verdict depends on it.

    Attributes:
        release: Which Triton.
        strict: Started with ``--disable-auto-complete-config``.
        gpus: Ids of the usable GPUs; none on a CPU host.
        backends: Names of the installed backends.
        accelerators: CPU execution accelerators that the ONNX Runtime backend was built with.
        agents: Repository agents that are installed.
        model_config_name: Value of ``--model-config-name``, ``""`` for none.
        default_max_batch_size: What a backend may take when a model batches and the config says 0.
        read_interface: Reads what a model file declares; None when nothing on this machine can.
    """

    release: Release = _DEFAULT
    strict: bool = False
    gpus: tuple[int, ...] = ()
    backends: frozenset[str] = DEFAULT_BACKENDS
    accelerators: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset({"checksum"})
    model_config_name: str = ""
    default_max_batch_size: int = 4
    read_interface: ReadInterface | None = None

    def has_backend(self, name: str) -> bool:
        """Whether the server brings the backend."""
        if name == "tensorflow" and self.release.has("tensorflow_removed"):
            return False
        return name in self.backends
