"""Which execution providers a session gets: those of the device, best first, as Triton's backend asks for them.

ONNX Runtime goes on in silence with what is left when a provider is listed and does not start (a library of CUDA or
TensorRT that is missing); what was measured would then be something else. So a session is held to what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime

from aitune.errors import UnavailableError, UsageError
from aitune.records.accelerators import GPU_ACCELERATOR, GpuAccelerator

__all__ = ["CONV_SEARCH", "PROVIDER_KEYS", "available_providers", "gpu_models", "has_cuda", "has_tensorrt",
           "open_with", "providers_for"]  # fmt: skip

CONV_SEARCH = "cudnn_conv_algo_search"
PROVIDER_KEYS = (GPU_ACCELERATOR, CONV_SEARCH)
"""Settings about a provider, not about the session; on the CPU they do nothing, as on a server (R238, R244)."""
_CPU, _CUDA, _TENSORRT = "CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"
_SEARCHES = {"0": "EXHAUSTIVE", "1": "HEURISTIC", "2": "DEFAULT"}
_GPUS = Path("/proc/driver/nvidia/gpus")

Provider = str | tuple[str, dict[str, str]]
NewSession = Callable[..., Any]


def available_providers() -> tuple[str, ...]:
    """Providers that this ONNX Runtime was built with."""
    return tuple(onnxruntime.get_available_providers())


def has_cuda() -> bool:
    """Whether this ONNX Runtime runs on NVIDIA GPUs."""
    return _CUDA in available_providers()


def has_tensorrt() -> bool:
    """Whether it can hand graphs to TensorRT."""
    return _TENSORRT in available_providers()


def providers_for(
    device: str, settings: Mapping[str, str], *, available: Collection[str] | None = None
) -> list[Provider]:
    """Providers with their options, best first; what has no kernel in one is left to the next.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        settings: Settings of a candidate, of which :data:`PROVIDER_KEYS` count.
        available: What this ONNX Runtime has; asked of it by default.

    Raises:
        UnavailableError: If it has no such device or accelerator.
        UsageError: If a setting has a bad value.
    """
    found: list[Provider] = [_CPU]
    if device != "cpu":
        found.insert(0, (_CUDA, _cuda_options(settings)))
        if GPU_ACCELERATOR in settings:
            found.insert(0, (_TENSORRT, _tensorrt_options(GpuAccelerator.read(settings[GPU_ACCELERATOR]))))
    had = available_providers() if available is None else tuple(available)
    missing = [name for name in map(_name, found) if name not in had]
    if missing:
        raise UnavailableError(
            f"device {device!r} was asked for, and onnxruntime {onnxruntime.__version__} has no {missing[0]}, "
            f"only {', '.join(had)}",
            hint="install onnxruntime-gpu instead of onnxruntime, or measure on the CPU (--device cpu)",
        )
    return found


def open_with(
    model: str | bytes, options: Any, providers: Sequence[Provider], *, new_session: NewSession | None = None
) -> Any:
    """A session that runs on these providers and on nothing else.

    Args:
        model: Path or bytes of the model.
        options: ``onnxruntime.SessionOptions``.
        providers: What :func:`providers_for` said.
        new_session: Makes the session; ``onnxruntime.InferenceSession`` by default.

    Raises:
        UnavailableError: If the first provider did not start.
        Exception: Whatever ONNX Runtime raises when it refuses the model.
    """
    make = onnxruntime.InferenceSession if new_session is None else new_session
    session = make(model, options, providers=list(providers), enable_fallback=0)
    running = session.get_providers()
    wanted = _name(providers[0])
    if wanted not in running:
        raise UnavailableError(
            f"{wanted} was asked for, and did not start: ONNX Runtime went on with {', '.join(running)}",
            hint="install the CUDA and TensorRT libraries that this onnxruntime-gpu needs, or measure on the CPU",
        )
    return session


def gpu_models(folder: Path = _GPUS) -> tuple[str, ...]:
    """The models of the NVIDIA GPUs of this machine, as the driver names them; none where there is no driver.

    Args:
        folder: Where the driver lists them.
    """
    found = []
    for path in sorted(folder.glob("*/information")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        found += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return tuple(found)


def _name(provider: Provider) -> str:
    return provider if isinstance(provider, str) else provider[0]


def _cuda_options(settings: Mapping[str, str]) -> dict[str, str]:
    value = settings.get(CONV_SEARCH, "0")  # what the backend says where nobody else does
    if value not in _SEARCHES:
        raise UsageError(f"{CONV_SEARCH} must be one of {', '.join(_SEARCHES)}, got {value!r}")
    return {CONV_SEARCH: _SEARCHES[value]}


def _tensorrt_options(accelerator: GpuAccelerator) -> dict[str, str]:
    """What the backend makes of ``precision_mode``; shapes are those that are sent, for bounds are not known yet."""
    return {} if accelerator.precision == "fp32" else {f"trt_{accelerator.precision}_enable": "1"}
