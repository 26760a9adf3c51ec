"""``parameters`` and execution accelerators of the ONNX Runtime backend (sections 5.4 and 5.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aitune.triton.check.edits import replace_value
from aitune.triton.check.finding import Finding
from aitune.triton.check.model import Model
from aitune.triton.check.tree import Node

__all__ = ["accelerators", "boolean", "integer", "libraries", "parameters"]

_TRUE = ("true", "on", "1")
_FALSE = ("false", "off", "0")
_INT = (-(2**31), 2**31 - 1)

_INTEGERS = {"intra_op_thread_count": "R231", "inter_op_thread_count": "R232", "execution_mode": "R233"}
_BOOLEANS = {"enable_mem_arena": "R234", "enable_mem_pattern": "R235"}
_GPU_CHOICES = {"cudnn_conv_algo_search": ("R238", (0, 1, 2)), "arena_extend_strategy": ("R240", (0, 1))}
_TRT_INTEGERS = (
    "trt_max_partition_iterations", "trt_min_subgraph_size", "trt_dla_core", "trt_builder_optimization_level",
    "trt_auxiliary_streams",
)  # fmt: skip
_TRT_BOOLEANS = (
    "int8_use_native_calibration_table", "trt_dla_enable", "trt_engine_cache_enable", "trt_dump_subgraphs",
    "trt_force_sequential_engine_build", "trt_context_memory_sharing_enable", "trt_layer_norm_fp32_fallback",
    "trt_timing_cache_enable", "trt_force_timing_cache", "trt_detailed_build_log", "trt_build_heuristics_enable",
    "trt_sparsity_enable", "trt_cuda_graph_enable",
)  # fmt: skip
_TRT_TEXTS = (
    "int8_calibration_table_name", "trt_engine_cache_path", "trt_engine_cache_prefix", "trt_timing_cache_path",
    "trt_tactic_sources", "trt_extra_plugin_lib_paths", "trt_profile_min_shapes", "trt_profile_max_shapes",
    "trt_profile_opt_shapes",
)  # fmt: skip
_TRT_CONTEXT = {
    "trt_ep_context_embed_mode": "integer",
    "trt_dump_ep_context_model": "boolean",
    "trt_ep_context_file_path": "text",
}


def integer(text: str) -> int | None:
    """The number C++ ``stoi`` reads: leading blanks and trailing garbage are tolerated; None when there is none."""
    found = re.match(r"\s*([+-]?)0*([0-9]{1,1000})", text)  # far more digits than any number in range has
    return int("".join(found.groups())) if found else None


def boolean(text: str) -> bool | None:
    """The truth value the backend reads, in any case; None when it is none."""
    word = text.lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _value(entry: Node) -> str:
    holder = entry.message("value")
    return holder.text("string_value") if holder is not None else ""


def parameters(model: Model) -> Iterator[Finding]:
    """R231 to R241: values that the backend cannot read stop the model."""
    on_gpu = "KIND_GPU" in model.group_kinds()
    for key, entry in model.config.map("parameters").items():
        name, text = str(key), _value(entry)
        if name in _INTEGERS:
            yield from _integer_parameter(model, entry, name, text)
        elif name in _BOOLEANS and boolean(text) is None:
            yield _bad(model, entry, _BOOLEANS[name], f"{name}: failed to convert {text!r} to boolean", "true or false")
        elif name in _GPU_CHOICES and on_gpu:
            rule, allowed = _GPU_CHOICES[name]
            if integer(text) not in allowed:
                yield _bad(model, entry, rule, f"unsupported {name} value {text!r}", f"one of {allowed}")
        elif name == "gpu_mem_limit" and on_gpu and integer(text) is None:
            yield _bad(model, entry, "R239", f"{name}: {text!r} is not a number of bytes", "a whole number")
        elif name == "do_copy_in_default_stream" and on_gpu and text not in ("0", "1"):
            yield _bad(model, entry, "R241", f"{name}: {text!r} is refused by ONNX Runtime", "0 or 1")


def _integer_parameter(model: Model, entry: Node, name: str, text: str) -> Iterator[Finding]:
    value, rule = integer(text), _INTEGERS[name]
    if value is None:
        yield _bad(model, entry, rule, f"{name}: failed to convert {text!r} to integral number", "a whole number")
    elif not _INT[0] <= value <= _INT[1]:
        yield _bad(model, entry, rule, f"{name}: {value} is beyond 32 bits, which aborts the server", "a small number")
    elif name == "execution_mode" and value not in (0, 1):
        message = f"invalid configuration value provided: expected values for {name} are 0 or 1 but got {value}"
        holder = entry.message("value")
        edits = replace_value(model.source, holder, "string_value", '"0"') if holder is not None else ()
        yield model.error(rule, holder or entry, "string_value", message, 'string_value: "0"', edits)


def _bad(model: Model, entry: Node, rule: str, message: str, wanted: str) -> Finding:
    holder = entry.message("value")
    return model.error(rule, holder or entry, "string_value", message, wanted)


def accelerators(model: Model) -> Iterator[Finding]:
    """R244 to R248: accelerators exist in the build, and know their parameters."""
    optimization = model.config.message("optimization")
    holder = optimization.message("execution_accelerators") if optimization is not None else None
    if holder is None:
        return
    for node in holder.messages("cpu_execution_accelerator"):
        name = node.text("name")
        if name not in model.options.accelerators:
            message = f"unknown Execution Accelerator {name!r} is requested"
            if name == "openvino":
                message += "; it exists only where the backend was built with OpenVINO"
            yield model.error("R246", node, "name", message, "remove the accelerator")
    if "KIND_GPU" not in model.group_kinds():
        return
    for node in holder.messages("gpu_execution_accelerator"):
        name = node.text("name")
        if name == "tensorrt":
            yield from _tensorrt_parameters(model, node)
        elif name == "cuda" and model.has("onnx_cuda_accelerator"):
            yield from _cuda_parameters(model, node)
        else:
            yield model.error(
                "R245", node, "name", f"unknown Execution Accelerator {name!r} is requested", '"tensorrt"'
            )


def _tensorrt_parameters(model: Model, node: Node) -> Iterator[Finding]:
    for key, entry in node.map("parameters").items():
        name, text = str(key), entry.text("value")
        kind = _tensorrt_kind(model, name)
        fault = ""
        if not kind:
            fault = f"unknown parameter {name!r} is provided for TensorRT Execution Accelerator"
        elif name == "precision_mode":
            modes = ("FP32", "FP16", "INT8", *(("BF16",) if model.has("onnx_tensorrt_bf16") else ()))
            fault = "" if text in modes else f"unsupported precision mode {text!r}; modes are {', '.join(modes)}"
        elif kind == "boolean" and boolean(text) is None:
            fault = f"{name}: failed to convert {text!r} to boolean"
        elif kind in ("integer", "unsigned"):
            value = integer(text)
            if value is None or (kind == "unsigned" and value < 0):
                fault = f"{name}: failed to convert {text!r} to integral number"
        if fault:
            yield model.error("R247", entry, "value key", fault)


def _tensorrt_kind(model: Model, name: str) -> str:
    if name == "precision_mode":
        return "text"
    if name == "max_workspace_size_bytes":
        return "unsigned"
    for names, kind in ((_TRT_INTEGERS, "integer"), (_TRT_BOOLEANS, "boolean"), (_TRT_TEXTS, "text")):
        if name in names:
            return kind
    return _TRT_CONTEXT.get(name, "") if model.has("onnx_tensorrt_ep_context") else ""


def _cuda_parameters(model: Model, node: Node) -> Iterator[Finding]:
    for key, entry in node.map("parameters").items():
        boolean_keys = ("do_copy_in_default_stream", "use_ep_level_unified_stream")
        if key in boolean_keys and boolean(entry.text("value")) is None:
            message = f"{key}: failed to convert {entry.text('value')!r} to boolean"
            yield model.error("R248", entry, "value", message, 'value: "true"')


def libraries(model: Model) -> Iterator[Finding]:
    """R249: custom-op libraries are loaded by the system's loader, which knows nothing of the model directory."""
    holder = model.config.message("model_operations")
    for name in holder.texts("op_library_filename") if holder is not None else ():
        if name.startswith("/"):
            message = f"custom-op library {name} is a file of the server's host: whether it loads is not checked"
            yield model.warning("R249", holder, "op_library_filename", message)
        else:
            message = f"failed to load library {name}: the loader looks for it neither in the model nor in the version"
            yield model.error("R249", holder, "op_library_filename", message, "give its absolute path on the server")
