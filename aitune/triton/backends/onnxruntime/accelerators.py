"""Which execution providers a session gets, and which wishes for one are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .failures import LoadError
from .settings import boolean, integer, parameters_of

__all__ = ["providers_for"]

Provider = str | tuple[str, dict[str, str]]

_PRECISIONS = ("FP32", "FP16", "INT8")
_TENSORRT_INTEGERS = (
    "max_workspace_size_bytes",
    "trt_max_partition_iterations",
    "trt_min_subgraph_size",
    "trt_dla_core",
    "trt_builder_optimization_level",
    "trt_auxiliary_streams",
    "trt_ep_context_embed_mode",
)
_TENSORRT_BOOLEANS = (
    "int8_use_native_calibration_table",
    "trt_dla_enable",
    "trt_engine_cache_enable",
    "trt_dump_subgraphs",
    "trt_force_sequential_engine_build",
    "trt_context_memory_sharing_enable",
    "trt_layer_norm_fp32_fallback",
    "trt_timing_cache_enable",
    "trt_force_timing_cache",
    "trt_detailed_build_log",
    "trt_build_heuristics_enable",
    "trt_sparsity_enable",
    "trt_cuda_graph_enable",
    "trt_dump_ep_context_model",
)
_TENSORRT_TEXTS = (
    "int8_calibration_table_name",
    "trt_engine_cache_path",
    "trt_engine_cache_prefix",
    "trt_timing_cache_path",
    "trt_tactic_sources",
    "trt_extra_plugin_lib_paths",
    "trt_profile_min_shapes",
    "trt_profile_max_shapes",
    "trt_profile_opt_shapes",
    "trt_ep_context_file_path",
)
_TENSORRT_RENAMED = {
    "max_workspace_size_bytes": "trt_max_workspace_size",
    "int8_calibration_table_name": "trt_int8_calibration_table_name",
    "int8_use_native_calibration_table": "trt_int8_use_native_calibration_table",
}
_CUDA_BOOLEANS = ("do_copy_in_default_stream", "use_ep_level_unified_stream")
_CONV_SEARCH = {0: "EXHAUSTIVE", 1: "HEURISTIC", 2: "DEFAULT"}
_ARENA = {0: "kNextPowerOfTwo", 1: "kSameAsRequested"}


def providers_for(
    config: Mapping[str, Any], *, kind: str, device_id: int, available: tuple[str, ...]
) -> list[Provider]:
    """Execution providers for one instance, most wanted first.

    Args:
        config: The model's config.
        kind: ``"CPU"``, ``"GPU"`` or ``"MODEL"``, as Triton gives it to an instance.
        device_id: The GPU of a GPU instance.
        available: Providers of the installed ONNX Runtime. One that is wanted and legal but not in it is left out:
            the same repository then runs on what there is.

    Raises:
        LoadError: If an accelerator or one of its parameters is refused.
    """
    wanted = (config.get("optimization") or {}).get("execution_accelerators") or {}
    providers: list[Provider] = []
    if kind == "GPU":
        providers = _gpu_providers(config, wanted.get("gpu_execution_accelerator", ()), device_id)
    for accelerator in wanted.get("cpu_execution_accelerator", ()):
        if accelerator.get("name") != "openvino":
            raise _unknown(accelerator)
        providers.append(("OpenVINOExecutionProvider", {"device_type": "CPU"}))
    providers.append("CPUExecutionProvider")
    return [provider for provider in providers if _name(provider) in available]


def _gpu_providers(config: Mapping[str, Any], wanted: list[Mapping[str, Any]], device_id: int) -> list[Provider]:
    providers: list[Provider] = []
    cuda: dict[str, str] = {}
    for accelerator in wanted:
        given = {key: str(value) for key, value in (accelerator.get("parameters") or {}).items()}
        if accelerator.get("name") == "tensorrt":
            options = _tensorrt_options(given)
            providers.append(("TensorrtExecutionProvider", {**options, "device_id": str(device_id)}))
        elif accelerator.get("name") == "cuda":
            for key in _CUDA_BOOLEANS:
                boolean(given.get(key, "0"))
            cuda.update(given)
        else:
            raise _unknown(accelerator)
    # The deprecated keys win over the accelerator's, their defaults included, as in the C++ backend.
    cuda.update(_deprecated_cuda_options(parameters_of(config)))
    providers.append(("CUDAExecutionProvider", {**cuda, "device_id": str(device_id)}))
    return providers


def _tensorrt_options(given: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for key, value in given.items():
        if key == "precision_mode":
            if value not in _PRECISIONS:
                raise LoadError(f"unsupported precision mode '{value}' is requested")
            if value != "FP32":
                options[f"trt_{value.lower()}_enable"] = "1"
        elif key in _TENSORRT_INTEGERS:
            options[_TENSORRT_RENAMED.get(key, key)] = str(integer(value))
        elif key in _TENSORRT_BOOLEANS:
            options[_TENSORRT_RENAMED.get(key, key)] = "1" if boolean(value) else "0"
        elif key not in _TENSORRT_TEXTS:
            raise LoadError(f"unknown parameter '{key}' is provided for TensorRT Execution Accelerator")
        elif value:
            options[_TENSORRT_RENAMED.get(key, key)] = value
    return options


def _deprecated_cuda_options(parameters: Mapping[str, str]) -> dict[str, str]:
    search = integer(parameters.get("cudnn_conv_algo_search", "0"))
    if search not in _CONV_SEARCH:
        raise LoadError(f"unsupported cudnn_conv_algo_search value '{search}' is requested")
    strategy = integer(parameters.get("arena_extend_strategy", "0"))
    if strategy not in _ARENA:
        raise LoadError(f"unsupported arena_extend_strategy value '{strategy}' is requested")
    return {
        "cudnn_conv_algo_search": _CONV_SEARCH[search],
        "gpu_mem_limit": parameters.get("gpu_mem_limit", str(2**64 - 1)),
        "arena_extend_strategy": _ARENA[strategy],
        "do_copy_in_default_stream": parameters.get("do_copy_in_default_stream", "1"),
    }


def _unknown(accelerator: Mapping[str, Any]) -> LoadError:
    return LoadError(f"unknown Execution Accelerator '{accelerator.get('name', '')}' is requested")


def _name(provider: Provider) -> str:
    return provider if isinstance(provider, str) else provider[0]
