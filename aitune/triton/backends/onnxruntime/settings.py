"""The config's ``parameters`` and optimisation level, read as the C++ backend reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnxruntime

from .failures import LoadError

__all__ = ["Settings", "boolean", "integer", "parameters_of", "read_settings"]

_LEVELS = {
    -1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
_MODES = {0: onnxruntime.ExecutionMode.ORT_SEQUENTIAL, 1: onnxruntime.ExecutionMode.ORT_PARALLEL}
_DEVICE_ALLOCATOR = "session.use_device_allocator_for_initializers"
_SHRINKAGE = "memory.enable_memory_arena_shrinkage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a session is made and run.

    Attributes:
        options: For the session.
        run_options: For every run; None where the defaults do.
    """

    options: Any
    run_options: Any = None


def parameters_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The config's parameters as plain text by key."""
    found = config.get("parameters") or {}
    return {key: str(value.get("string_value", "")) for key, value in found.items()}


def integer(text: str) -> int:
    """A number as C++ ``stoi`` reads it: blanks before it and anything after it do not matter.

    Raises:
        LoadError: If the text does not start with a number, or the number does not fit 32 bits.

    >>> integer(" 4 threads")
    4
    """
    found = re.match(r"[ \t\n\v\f\r]*([+-]?[0-9]+)", text)
    if found is None:
        raise LoadError(f"failed to convert '{text}' to integral number")
    value = int(found[1])
    if not -(2**31) <= value < 2**31:
        raise LoadError(f"failed to convert '{text}' to integral number: it does not fit 32 bits")
    return value


def boolean(text: str) -> bool:
    """A truth value: true, on, 1 or false, off, 0, in any case.

    Raises:
        LoadError: If it is none of these.
    """
    lowered = text.lower()
    if lowered in ("true", "on", "1"):
        return True
    if lowered in ("false", "off", "0"):
        return False
    raise LoadError(f"failed to convert '{text}' to boolean")


def read_settings(config: Mapping[str, Any]) -> Settings:
    """Session and run options for a model's config.

    Raises:
        LoadError: If a parameter has a value that the C++ backend refuses.
    """
    parameters = parameters_of(config)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = _LEVELS.get(
        _graph_level(config), onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    )
    _set_threads(options, parameters)
    if "enable_mem_arena" in parameters:
        options.enable_cpu_mem_arena = boolean(parameters["enable_mem_arena"])
    if "enable_mem_pattern" in parameters:
        options.enable_mem_pattern = boolean(parameters["enable_mem_pattern"])
    if _DEVICE_ALLOCATOR in parameters:
        options.add_session_config_entry(_DEVICE_ALLOCATOR, parameters[_DEVICE_ALLOCATOR])
    return Settings(options=options, run_options=_run_options(parameters))


def _graph_level(config: Mapping[str, Any]) -> int:
    graph = (config.get("optimization") or {}).get("graph") or {}
    return int(graph.get("level", 0))


def _set_threads(options: Any, parameters: Mapping[str, str]) -> None:
    options.intra_op_num_threads = max(integer(parameters.get("intra_op_thread_count", "0")), 0)
    options.inter_op_num_threads = max(integer(parameters.get("inter_op_thread_count", "0")), 0)
    mode = integer(parameters.get("execution_mode", "0"))
    if mode not in _MODES:
        raise LoadError(
            f"Invalid configuration value provided. Expected values for execution_mode are 0 or 1 but got {mode}"
        )
    options.execution_mode = _MODES[mode]


def _run_options(parameters: Mapping[str, str]) -> Any:
    if _SHRINKAGE not in parameters:
        return None
    run_options = onnxruntime.RunOptions()
    run_options.add_run_config_entry(_SHRINKAGE, parameters[_SHRINKAGE])
    return run_options
