"""Parameters and accelerators, read as the C++ backend reads them."""

from __future__ import annotations

from typing import Any

import onnxruntime
import pytest

from aitune.triton.backends.onnxruntime.accelerators import providers_for
from aitune.triton.backends.onnxruntime.failures import LoadError
from aitune.triton.backends.onnxruntime.settings import boolean, integer, read_settings

ALL = ("TensorrtExecutionProvider", "CUDAExecutionProvider", "OpenVINOExecutionProvider", "CPUExecutionProvider")
LEVELS = onnxruntime.GraphOptimizationLevel


def with_parameters(**values: str) -> dict[str, Any]:
    """A config with parameters; two underscores stand for a dot."""
    return {"parameters": {key.replace("__", "."): {"string_value": value} for key, value in values.items()}}


def with_accelerator(place: str, name: str, **parameters: str) -> dict[str, Any]:
    """A config with one execution accelerator."""
    entry = {"name": name, "parameters": parameters}
    return {"optimization": {"execution_accelerators": {f"{place}_execution_accelerator": [entry]}}}


def providers(config: dict[str, Any], *, kind: str = "GPU", available: tuple[str, ...] = ALL) -> list[Any]:
    """providers_for on device 1."""
    return providers_for(config, kind=kind, device_id=1, available=available)


@pytest.mark.parametrize(("text", "value"), [("4", 4), ("  -2", -2), ("3 threads", 3), ("+7x", 7), ("\t010", 10)])
def test_integers_are_read_as_stoi_does(text: str, value: int) -> None:
    """Blanks before and anything after do not matter."""
    assert integer(text) == value


@pytest.mark.parametrize("text", ["", "auto", " ", "-", "x4", "2147483648", "-99999999999"])
def test_what_is_no_32_bit_number_is_refused(text: str) -> None:
    """The C++ backend refuses words, and aborts on numbers that are too large; that is a refusal here too."""
    with pytest.raises(LoadError, match=f"failed to convert '{text}' to integral number"):
        integer(text)


@pytest.mark.parametrize(("text", "value"), [("TRUE", True), ("on", True), ("1", True), ("Off", False), ("0", False)])
def test_booleans_have_three_spellings_each(text: str, value: bool) -> None:
    """In any case."""
    assert boolean(text) is value


@pytest.mark.parametrize("text", ["", "yes", "2", "t"])
def test_other_booleans_are_refused(text: str) -> None:
    """The message quotes the value."""
    with pytest.raises(LoadError, match=f"failed to convert '{text}' to boolean"):
        boolean(text)


def test_no_parameters_are_onnx_runtimes_defaults() -> None:
    """All optimisations, sequential, threads as it likes, no run options."""
    settings = read_settings({})
    options = settings.options
    assert options.graph_optimization_level == LEVELS.ORT_ENABLE_ALL
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (0, 0)
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    assert settings.run_options is None


def test_every_parameter_reaches_the_session() -> None:
    """Threads, mode, arena, pattern, allocator and shrinkage."""
    settings = read_settings(
        with_parameters(
            intra_op_thread_count="3",
            inter_op_thread_count="-1",
            execution_mode="1",
            enable_mem_arena="off",
            enable_mem_pattern="0",
            session__use_device_allocator_for_initializers="1",
            memory__enable_memory_arena_shrinkage="cpu:0",
            nobody_knows="x",
        )
    )
    options = settings.options
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (3, 0)
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert not options.enable_cpu_mem_arena
    assert not options.enable_mem_pattern
    assert options.get_session_config_entry("session.use_device_allocator_for_initializers") == "1"
    assert settings.run_options.get_run_config_entry("memory.enable_memory_arena_shrinkage") == "cpu:0"


@pytest.mark.parametrize("key", ["intra_op_thread_count", "inter_op_thread_count", "execution_mode"])
def test_a_word_for_a_number_is_refused(key: str) -> None:
    """Also an empty value."""
    with pytest.raises(LoadError, match="integral number"):
        read_settings(with_parameters(**{key: ""}))


@pytest.mark.parametrize("key", ["enable_mem_arena", "enable_mem_pattern"])
def test_a_word_for_a_truth_value_is_refused(key: str) -> None:
    """Neither true nor false."""
    with pytest.raises(LoadError, match="boolean"):
        read_settings(with_parameters(**{key: "maybe"}))


def test_there_are_two_execution_modes() -> None:
    """The message says which."""
    with pytest.raises(LoadError, match="Expected values for execution_mode are 0 or 1 but got 2"):
        read_settings(with_parameters(execution_mode="2"))


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (-1, LEVELS.ORT_ENABLE_BASIC),
        (0, LEVELS.ORT_ENABLE_ALL),
        (1, LEVELS.ORT_ENABLE_EXTENDED),
        (2, LEVELS.ORT_DISABLE_ALL),
        (99, LEVELS.ORT_ENABLE_ALL),
    ],
)
def test_graph_levels_have_their_own_order(level: int, expected: Any) -> None:
    """2 switches everything off; numbers without a meaning are never refused."""
    made = read_settings({"optimization": {"graph": {"level": level}}}).options
    assert made.graph_optimization_level == expected


def test_a_cpu_instance_runs_on_the_cpu() -> None:
    """Whatever is installed; a GPU accelerator is not even read."""
    assert providers({}, kind="CPU") == ["CPUExecutionProvider"]
    assert providers(with_accelerator("gpu", "nonsense"), kind="CPU") == ["CPUExecutionProvider"]
    assert providers({}, kind="MODEL") == ["CPUExecutionProvider"]


def test_a_gpu_instance_wants_cuda_then_the_cpu() -> None:
    """With the deprecated keys' defaults, on its own device; without CUDA in ONNX Runtime the CPU does it."""
    (name, options), last = providers({})
    assert (name, last) == ("CUDAExecutionProvider", "CPUExecutionProvider")
    assert options["device_id"] == "1"
    assert options["cudnn_conv_algo_search"] == "EXHAUSTIVE"
    assert providers({}, available=("CPUExecutionProvider",)) == ["CPUExecutionProvider"]


def test_deprecated_keys_win_over_the_cuda_accelerators() -> None:
    """Their defaults included; keys they do not know are passed on."""
    config = with_accelerator("gpu", "cuda", arena_extend_strategy="kSameAsRequested", prefer_nhwc="1")
    config |= with_parameters(cudnn_conv_algo_search="2")
    (_, options), _ = providers(config)
    assert options["arena_extend_strategy"] == "kNextPowerOfTwo"
    assert options["cudnn_conv_algo_search"] == "DEFAULT"
    assert options["prefer_nhwc"] == "1"


@pytest.mark.parametrize("key", ["cudnn_conv_algo_search", "arena_extend_strategy"])
def test_deprecated_keys_have_a_range(key: str) -> None:
    """Only on a GPU instance."""
    config = with_parameters(**{key: "7"})
    assert providers(config, kind="CPU")
    with pytest.raises(LoadError, match=f"unsupported {key} value '7'"):
        providers(config)


def test_tensorrt_comes_first_with_its_own_names() -> None:
    """Typed values are read, empty texts are dropped, precisions become switches."""
    config = with_accelerator(
        "gpu",
        "tensorrt",
        precision_mode="FP16",
        max_workspace_size_bytes="1073741824",
        trt_engine_cache_enable="true",
        trt_engine_cache_path="",
        trt_timing_cache_path="/t",
    )
    (name, options), *_ = providers(config)
    assert name == "TensorrtExecutionProvider"
    assert options == {
        "trt_fp16_enable": "1",
        "trt_max_workspace_size": "1073741824",
        "trt_engine_cache_enable": "1",
        "trt_timing_cache_path": "/t",
        "device_id": "1",
    }


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("precision_mode", "FP8", "unsupported precision mode 'FP8'"),
        ("trt_magic", "1", "unknown parameter 'trt_magic' is provided for TensorRT"),
        ("trt_dla_core", "x", "integral number"),
        ("trt_dla_enable", "x", "boolean"),
    ],
)
def test_tensorrts_parameters_are_checked(key: str, value: str, message: str) -> None:
    """Unknown keys and malformed values."""
    with pytest.raises(LoadError, match=message):
        providers(with_accelerator("gpu", "tensorrt", **{key: value}))


def test_cudas_booleans_are_checked() -> None:
    """Two of its keys."""
    with pytest.raises(LoadError, match="boolean"):
        providers(with_accelerator("gpu", "cuda", do_copy_in_default_stream="perhaps"))


@pytest.mark.parametrize(("place", "kind"), [("gpu", "GPU"), ("cpu", "GPU"), ("cpu", "CPU")])
def test_an_unknown_accelerator_is_refused(place: str, kind: str) -> None:
    """CPU accelerators are read for every instance, and names are case-sensitive."""
    with pytest.raises(LoadError, match="unknown Execution Accelerator 'OpenVINO' is requested"):
        providers(with_accelerator(place, "OpenVINO"), kind=kind)


def test_openvino_is_used_where_it_is_built_in() -> None:
    """Before the plain CPU provider; left out where it is not."""
    config = with_accelerator("cpu", "openvino")
    assert providers(config, kind="CPU")[0] == ("OpenVINOExecutionProvider", {"device_type": "CPU"})
    assert providers(config, kind="CPU", available=("CPUExecutionProvider",)) == ["CPUExecutionProvider"]
