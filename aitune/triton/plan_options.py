"""What a person may decide about a config; everything else follows from the record."""

from __future__ import annotations

from dataclasses import dataclass

from aitune.errors import UsageError
from aitune.triton.plan_accelerator import AcceleratorOptions
from aitune.triton.plan_settings import check_setting
from aitune.triton.releases import DEFAULT_RELEASE, release

__all__ = ["PlanOptions"]

TARGETS = ("auto", "cpu", "gpu")
WARMUPS = ("none", "small", "full")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The choices of a publication.

    Attributes:
        target: ``"auto"`` serves on hosts with and without a GPU, ``"cpu"`` and ``"gpu"`` pin it.
        triton: Oldest Triton that must understand the config, e.g. ``"24.10"`` or ``"2.51.0"``.
        warmup: ``"none"``, ``"small"`` (one row) or ``"full"`` (one row, then the largest batch).
        instance_count: Copies of the model, per GPU or per host.
        max_batch_size: At most this, 0 for none; None for what the record allows.
        max_queue_delay_us: How long the server may wait for more requests to batch, in microseconds.
        max_queue_size: Requests that may wait; further ones are refused at once. None for no bound: with one, the
            batcher of Triton 24.10 was seen to sleep half a second now and then (scripts/bench_queue_bound).
        preferred_batch_sizes: Batch sizes to send off without waiting; the largest batch when empty.
        settings: (key, value) pairs for ``parameters``; they win over those that were tuned.
        overlays: Also write ``configs/cpu.pbtxt`` and ``configs/gpu.pbtxt`` for ``--model-config-name``.
        profiles: Optimisation profiles of a TensorRT plan to serve; all when empty.
        cuda_graphs: Capture CUDA graphs of a TensorRT plan at the typical shape.
        accelerator: Let ONNX Runtime build TensorRT engines on the server; None to run the model as it is.

    Raises:
        UsageError: If a value makes no sense.
    """

    target: str = "auto"
    triton: str = DEFAULT_RELEASE
    warmup: str = "full"
    instance_count: int = 1
    max_batch_size: int | None = None
    max_queue_delay_us: int = 100
    max_queue_size: int | None = None
    preferred_batch_sizes: tuple[int, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    overlays: bool = False
    profiles: tuple[int, ...] = ()
    cuda_graphs: bool = False
    accelerator: AcceleratorOptions | None = None

    def __post_init__(self) -> None:
        _choice("target", self.target, TARGETS)
        _choice("warmup", self.warmup, WARMUPS)
        release(self.triton)
        _range("instance_count", self.instance_count, 1, (1 << 31) - 1)
        _range("max_queue_delay_us", self.max_queue_delay_us, 0, (1 << 63) - 1)
        if self.max_batch_size is not None:
            _range("max_batch_size", self.max_batch_size, 0, (1 << 31) - 1)
        if self.max_queue_size is not None:
            _range("max_queue_size", self.max_queue_size, 1, (1 << 32) - 1)
        for size in self.preferred_batch_sizes:
            _range("preferred_batch_sizes", size, 1, (1 << 31) - 1)
        for key, value in self.settings:
            check_setting(key, value)


def _choice(field: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{field} must be one of {', '.join(known)}, got {value!r}")


def _range(field: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"{field} must be a whole number from {low} to {high}, got {value!r}")
