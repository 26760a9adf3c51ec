"""The TensorRT library as a module that is handed around, and what this one of it can do.

TensorRT 10 takes precisions as flags of the builder, 11 and TensorRT-RTX take them from the model; RTX builds without a
GPU if it is told for which one. All that is asked of the module itself, never concluded from its version.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from aitune.errors import MissingDependencyError, UnavailableError, UsageError

__all__ = [
    "PACKAGES",
    "capability_names",
    "flag",
    "has_flag",
    "load_tensorrt",
    "package_of",
    "strongly_typed_only",
    "takes_capability",
]

PACKAGES = ("tensorrt", "tensorrt_rtx")
_MODULES = {"tensorrt": ("tensorrt",), "tensorrt_rtx": ("tensorrt_rtx", "tensorrt_rtx_bindings")}
_EXTRAS = {"tensorrt": "tensorrt", "tensorrt_rtx": "tensorrt-rtx"}


def load_tensorrt(package: str = "tensorrt") -> ModuleType:
    """The library's Python module.

    Args:
        package: ``"tensorrt"``, or ``"tensorrt_rtx"``, whose plans exercise the same builder but are not for Triton.

    Raises:
        MissingDependencyError: If it is not installed.
        UnavailableError: If it is, and its shared libraries cannot be loaded.
        UsageError: If there is no such package.
    """
    if package not in PACKAGES:
        raise UsageError(f"the TensorRT package must be one of {', '.join(PACKAGES)}, got {package!r}")
    missing: ModuleNotFoundError | None = None
    for name in _MODULES[package]:
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            missing = error
        except (ImportError, OSError) as error:
            reason = " ".join(str(error).split())
            raise UnavailableError(
                f"{name!r} is installed, but its libraries cannot be loaded: {reason}",
                hint="install its libraries package and an NVIDIA driver, or use NVIDIA's container",
            ) from error
    raise MissingDependencyError(package, extra=_EXTRAS[package]) from missing


def package_of(trt: ModuleType) -> str:
    """``"tensorrt"`` or ``"tensorrt_rtx"``."""
    return "tensorrt_rtx" if "rtx" in trt.__name__ else "tensorrt"


def has_flag(trt: ModuleType, kind: str, name: str) -> bool:
    """Whether an enum of the library has a member, e.g. ``("BuilderFlag", "FP16")``."""
    return hasattr(getattr(trt, kind, None), name)


def flag(trt: ModuleType, kind: str, name: str, what: str) -> object:
    """A member of an enum.

    Args:
        trt: The library.
        kind: Name of the enum.
        name: Name of the member.
        what: What it is needed for, for the message.

    Raises:
        UsageError: If this library has none of that name.
    """
    if not has_flag(trt, kind, name):
        raise UsageError(f"{what} is not something that {package_of(trt)} {trt.__version__} can do")
    return getattr(getattr(trt, kind), name)


def strongly_typed_only(trt: ModuleType) -> bool:
    """Whether the library takes every precision from the model (TensorRT 11, TensorRT-RTX)."""
    return not has_flag(trt, "BuilderFlag", "FP16")


def takes_capability(trt: ModuleType) -> bool:
    """Whether a plan can be built for a GPU that is not here."""
    return hasattr(getattr(trt, "IBuilderConfig", None), "set_compute_capability")


def capability_names(trt: ModuleType) -> dict[str, str]:
    """The compute capabilities it can build for: ``{"8.9": "SM89", "12.0": "SM120", …}``."""
    members = getattr(getattr(trt, "ComputeCapability", None), "__members__", {})
    numbers = {name: name.removeprefix("SM") for name in members if name.startswith("SM")}
    return {f"{text[:-1]}.{text[-1]}": name for name, text in numbers.items() if text.isdecimal()}
