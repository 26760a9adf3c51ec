"""What the checker assumes about the server that will load the repository."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypedDict

from aitune.errors import UsageError
from aitune.records.interface import Interface
from aitune.triton.releases import DEFAULT_RELEASE, Release, release

__all__ = ["DEFAULT_BACKENDS", "CheckOptions", "Options", "ReadInterface", "options_of"]

ReadInterface: TypeAlias = Callable[[Path], Interface]

DEFAULT_BACKENDS = frozenset(
    {
        "dali",
        "fil",
        "onnxruntime",
        "openvino",
        "python",
        "pytorch",
        "tensorflow",
        "tensorrt",
        "tensorrtllm",
        "vllm",
    }
)
"""Backends of NVIDIA's images; TensorFlow left them in 25.03."""


_TARGET = re.compile(r"cpu|gpu(?::([1-9][0-9]{0,3}))?")
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
        texts: Texts to take instead of those on the disk, by file name relative to the repository.
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
    texts: Mapping[str, str] = field(default_factory=dict)

    def has_backend(self, name: str) -> bool:
        """Whether the server brings the backend."""
        if name == "tensorflow" and self.release.has("tensorflow_removed"):
            return False
        return name in self.backends


class CheckOptions(TypedDict, total=False):
    """Keyword arguments of `check_repository`; its docstring tells them."""

    target: str
    gpus: Iterable[int]
    triton: str
    strict: bool
    read_interface: ReadInterface | None
    model_config_name: str
    backends: Iterable[str]
    accelerators: Iterable[str]
    default_max_batch_size: int
    models: Iterable[str]
    select: Iterable[str]
    ignore: Iterable[str]
    texts: Mapping[str, str]


def options_of(given: CheckOptions) -> Options:
    """The server that the arguments of `check_repository` describe.

    Raises:
        UsageError: If the target is none, or no release is called so.
    """
    target = given.get("target", "cpu")
    found = _TARGET.fullmatch(target)
    if found is None:
        raise UsageError(f"target must be cpu, gpu or gpu:N, got {target!r}", hint="for example gpu:2")
    usable = tuple(given.get("gpus", ())) or tuple(range(int(found.group(1) or 1)))
    return Options(
        release=release(given.get("triton", DEFAULT_RELEASE)),
        strict=given.get("strict", False),
        gpus=() if target == "cpu" else usable,
        backends=frozenset(given.get("backends", DEFAULT_BACKENDS)),
        accelerators=frozenset(given.get("accelerators", ())),
        model_config_name=given.get("model_config_name", ""),
        default_max_batch_size=given.get("default_max_batch_size", 4),
        read_interface=given.get("read_interface"),
        texts=given.get("texts", {}),
    )
