"""From a network to the bytes of a plan: the builder's config, asked for by capability."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from aitune.errors import SourceError, UnavailableError, UsageError
from aitune.records.fingerprints import write_atomically
from aitune.records.plans import Profile
from aitune.tensorrt.cuda import compute_capability, device_problem
from aitune.tensorrt.library import (
    capability_names,
    flag,
    package_of,
    strongly_typed_only,
    takes_capability,
)
from aitune.tensorrt.messages import listening
from aitune.tensorrt.options import BuildOptions

__all__ = ["make_config", "resolve_capability", "serialize", "wants_strong_types"]

_FLAGS = {"fp16": "FP16", "bf16": "BF16"}
_HARDWARE = {"ampere_plus": "AMPERE_PLUS", "same_compute_capability": "SAME_COMPUTE_CAPABILITY"}


def wants_strong_types(options: BuildOptions) -> bool:
    """Whether every layer computes in the types the model declares."""
    return options.precision in ("model", "tf32")


def resolve_capability(trt: ModuleType, options: BuildOptions) -> str:
    """The GPU to build for.

    Raises:
        UnavailableError: If there is no GPU and the library cannot build for another machine.
        UsageError: If it cannot build for the one that was asked for.
    """
    asked = options.compute_capability
    if not takes_capability(trt):
        problem = device_problem()
        if problem:
            raise UnavailableError(
                f"{package_of(trt)} builds plans for the GPU that is here, and none can be used: {problem}",
                hint="build on a machine with the target GPU",
            )
        here = compute_capability()
        if asked not in (None, here):
            raise UsageError(f"{package_of(trt)} builds for the GPU that is here, {here}; {asked} was asked for")
        return here
    known = ", ".join(capability_names(trt))
    if asked is None:
        if device_problem():
            raise UsageError("there is no GPU here: name the one to build for", hint=f"compute_capability: {known}")
        asked = compute_capability()
    if asked not in capability_names(trt):
        raise UsageError(f"{package_of(trt)} {trt.__version__} builds for {known}, not for {asked!r}")
    return asked


def make_config(trt: ModuleType, builder: Any, options: BuildOptions, capability: str) -> Any:
    """The builder's config.

    Raises:
        UsageError: If the library cannot do what an option asks for.
    """
    config = builder.create_builder_config()
    if takes_capability(trt):
        config.num_compute_capabilities = 1
        config.set_compute_capability(getattr(trt.ComputeCapability, capability_names(trt)[capability]), 0)
    _set_precision(trt, config, options.precision)
    if options.workspace_bytes is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace_bytes)
    if options.optimization_level is not None:
        config.builder_optimization_level = options.optimization_level
    if options.version_compatible:
        config.set_flag(flag(trt, "BuilderFlag", "VERSION_COMPATIBLE", "a version-compatible plan"))
    if options.hardware_compatibility != "none":
        _set_hardware(trt, config, options.hardware_compatibility)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED  # or the inspector knows layer names only
    return config


def _set_precision(trt: ModuleType, config: Any, precision: str) -> None:
    if precision == "tf32":
        config.set_flag(flag(trt, "BuilderFlag", "TF32", "precision 'tf32'"))
        return
    config.clear_flag(flag(trt, "BuilderFlag", "TF32", "computing in full float32"))
    if precision == "model":
        return
    if strongly_typed_only(trt):
        raise UsageError(
            f"{package_of(trt)} {trt.__version__} takes precisions from the model, not from a flag",
            hint=f"make the ONNX model in {precision} and build it with precision 'model'",
        )
    config.set_flag(flag(trt, "BuilderFlag", _FLAGS[precision], f"precision {precision!r}"))


def _set_hardware(trt: ModuleType, config: Any, level: str) -> None:
    what = f"hardware compatibility {level!r}"
    wanted = flag(trt, "HardwareCompatibilityLevel", _HARDWARE[level], what)
    config.hardware_compatibility_level = wanted
    if config.hardware_compatibility_level != wanted:  # TensorRT-RTX only warns
        raise UsageError(f"{what} is not something that {package_of(trt)} {trt.__version__} can do")


def add_profiles(trt: ModuleType, builder: Any, config: Any, profiles: Sequence[Profile]) -> None:
    """Give the config its optimisation profiles.

    Raises:
        SourceError: If the library does not take one.
    """
    for index, profile in enumerate(profiles):
        made = builder.create_optimization_profile()
        for item in profile.inputs:
            set_range = made.set_shape_input if item.values else made.set_shape
            set_range(item.name, item.min, item.opt, item.max)
        with listening(trt) as heard:
            added = config.add_optimization_profile(made)
        if added != index:
            raise SourceError(f"TensorRT does not take optimisation profile {index}: {heard.last()}")


def serialize(
    trt: ModuleType, builder: Any, network: Any, config: Any, profiles: Sequence[Profile], cache: Path | None = None
) -> bytes:
    """The bytes of the plan.

    Args:
        trt: The library.
        builder: Its builder.
        network: What to build.
        config: As :func:`make_config` makes it.
        profiles: Optimisation profiles.
        cache: File with timings of earlier builds; written again when the build is done.

    Raises:
        SourceError: If the network cannot be built; the message is the library's last error.
        OSError: If the timing cache cannot be written.
    """
    add_profiles(trt, builder, config, profiles)
    if cache is not None:
        _load_timings(config, cache)
    with listening(trt) as heard:
        plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise SourceError(f"{package_of(trt)} {trt.__version__} cannot build the plan: {heard.last()}")
    if cache is not None:
        _store_timings(config, cache)
    return bytes(plan)


def _load_timings(config: Any, cache: Path) -> None:
    data = cache.read_bytes() if cache.exists() else b""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of RTX, which keeps no timings
        made = config.create_timing_cache(data)
        if not config.set_timing_cache(made, False):  # another library's or GPU's timings: start anew
            config.set_timing_cache(config.create_timing_cache(b""), False)


def _store_timings(config: Any, cache: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        data = bytes(config.get_timing_cache().serialize())
    cache.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(cache, data)
