"""What is measured on a GPU, on a machine that has none: lists of providers and sessions are made up here.

Whether the providers really run is for ``tests/gpu``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from onnx import TensorProto, helper

from aitune.errors import RecordError, UnavailableError, UsageError
from aitune.onnx.candidates import OnnxCandidate, candidates
from aitune.onnx.measuring import Measured
from aitune.onnx.providers import CONV_SEARCH, gpu_models, open_with, providers_for
from aitune.onnx.runtime import SETTING_KEYS, session_options
from aitune.onnx.session import OnnxRunner
from aitune.records.accelerators import GPU_ACCELERATOR, GpuAccelerator

CPU, CUDA, TENSORRT = "CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"
Write = Callable[..., Path]


@pytest.fixture
def mocked_providers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """ONNX Runtime says that it has these."""

    def have(*names: str) -> None:
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: list(names))

    return have


@pytest.fixture
def convolution(build: Write) -> Path:
    """A graph with a convolution."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, (1, 1, 1, 1), [2.0])
    shape = ("N", 1, 4, 4)
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    return build([node], [("x", TensorProto.FLOAT, shape)], [("y", TensorProto.FLOAT, shape)], [weight])


def named(path: Path, **options: Any) -> dict[str, OnnxCandidate]:
    """The candidates by name, in order."""
    return {one.name: one for one in candidates(path, device="cuda", **options)}


def test_mocked_cuda_alone_offers_no_tensorrt(relu: Write, mocked_providers: Callable[..., None]) -> None:
    """The provider is a candidate only where it is among those of ONNX Runtime."""
    mocked_providers(CUDA, CPU)
    assert list(named(relu())) == ["default"]
    assert list(named(relu(), precision=["fp32", "fp16"])) == ["default", "fp16"]


def test_mocked_tensorrt_is_a_candidate_beside_cuda(relu: Write, mocked_providers: Callable[..., None]) -> None:
    """In the model's own numbers by default, in float16 only where that is allowed, and with no file of its own."""
    mocked_providers(TENSORRT, CUDA, CPU)
    assert list(named(relu())) == ["default", "tensorrt"]
    found = named(relu(), precision=["fp32", "fp16"])
    assert list(found) == ["default", "tensorrt", "tensorrt-fp16", "fp16"]
    assert found["tensorrt"].settings == {GPU_ACCELERATOR: "tensorrt:fp32"}
    assert found["tensorrt-fp16"].settings == {GPU_ACCELERATOR: "tensorrt:fp16"}
    assert (found["tensorrt"].precision, found["tensorrt-fp16"].precision) == ("fp32", "fp16")
    assert {found[name].model_file for name in ("tensorrt", "tensorrt-fp16")} == {None}
    assert {one.device for one in found.values()} == {"cuda"}
    assert all(set(one.settings) <= set(SETTING_KEYS) for one in found.values())


def test_mocked_convolutions_are_also_searched_by_heuristics(
    convolution: Path, mocked_providers: Callable[..., None]
) -> None:
    """The one setting of CUDA that Triton carries and that makes a difference in speed; of no use without them."""
    mocked_providers(CUDA, CPU)
    found = named(convolution)
    assert list(found) == ["default", "conv-heuristic"]
    assert found["conv-heuristic"].settings == {CONV_SEARCH: "1"}


def test_mocked_tensorrt_is_tried_with_external_data_too(
    external: Write, mocked_providers: Callable[..., None]
) -> None:
    """It is a setting, not a file."""
    mocked_providers(TENSORRT, CUDA, CPU)
    assert list(named(external(), precision=["fp16"])) == ["default", "tensorrt", "tensorrt-fp16"]


def test_mocked_tensorrt_is_not_tried_where_a_config_could_not_say_it(
    build: Write, mocked_providers: Callable[..., None]
) -> None:
    """The provider's shapes separate names by ':' and ','."""
    mocked_providers(TENSORRT, CUDA, CPU)
    ports = [("serving:0", TensorProto.FLOAT, ("N", 4))], [("y", TensorProto.FLOAT, ("N", 4))]
    assert list(named(build([helper.make_node("Relu", ["serving:0"], ["y"])], *ports))) == ["default"]


def test_on_the_processor_no_provider_of_a_gpu_is_tried(relu: Write, mocked_providers: Callable[..., None]) -> None:
    """Whatever there is."""
    mocked_providers(TENSORRT, CUDA, CPU)
    assert not any(GPU_ACCELERATOR in one.settings for one in candidates(relu(), cores=2, precision=["fp32", "fp16"]))


def test_mocked_providers_are_asked_for_as_the_backend_asks() -> None:
    """Best first, with the options that Triton's backend makes of the same settings."""
    everything = (TENSORRT, CUDA, CPU)
    cuda = (CUDA, {CONV_SEARCH: "EXHAUSTIVE"})
    assert providers_for("cpu", {GPU_ACCELERATOR: "tensorrt:fp16"}, available=everything) == [CPU]
    assert providers_for("cuda", {}, available=everything) == [cuda, CPU]
    assert providers_for("cuda", {CONV_SEARCH: "1"}, available=everything)[0] == (CUDA, {CONV_SEARCH: "HEURISTIC"})
    single = providers_for("cuda", {GPU_ACCELERATOR: "tensorrt:fp32"}, available=everything)
    assert single == [(TENSORRT, {}), cuda, CPU]
    half = providers_for("cuda", {GPU_ACCELERATOR: "tensorrt:fp16"}, available=everything)
    assert half[0] == (TENSORRT, {"trt_fp16_enable": "1"})


def test_a_gpu_without_a_provider_is_one_line_and_exit_3(relu: Write) -> None:
    """What was asked for, what was found, and what to do; this ONNX Runtime really has none."""
    with pytest.raises(
        UnavailableError, match=r"'cuda' was asked for, and onnxruntime .* has no CUDA.*, only "
    ) as told:
        candidates(relu(), device="cuda")[0].open()
    assert told.value.hint == ("install onnxruntime-gpu instead of onnxruntime, or measure on the CPU (--device cpu)")
    assert told.value.exit_code == 3
    with pytest.raises(UnavailableError, match="has no TensorrtExecutionProvider, only CUDA"):
        providers_for("cuda", {GPU_ACCELERATOR: "tensorrt:fp32"}, available=(CUDA, CPU))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({CONV_SEARCH: "3"}, UsageError, "must be one of 0, 1, 2, got '3'"),
        ({GPU_ACCELERATOR: "openvino:fp32"}, RecordError, "cannot be 'openvino:fp32'"),
        ({GPU_ACCELERATOR: "tensorrt:int3"}, RecordError, "cannot be 'tensorrt:int3'"),
        ({GPU_ACCELERATOR: "tensorrt"}, RecordError, "cannot be 'tensorrt'"),
    ],
)
def test_settings_of_a_provider_make_sense(settings: dict[str, str], error: type[Exception], message: str) -> None:
    """What no server could do either is refused."""
    with pytest.raises(error, match=message):
        providers_for("cuda", settings, available=(TENSORRT, CUDA, CPU))


class MockedSession:
    """A session in which only some of the providers started."""

    def __init__(self, *running: str) -> None:
        self.running = running
        self.asked: dict[str, Any] = {}

    def __call__(self, model: str, options: Any, **asked: Any) -> MockedSession:
        """Remember what was asked for."""
        self.asked = asked
        return self

    def get_providers(self) -> list[str]:
        """What runs."""
        return list(self.running)


def test_a_mocked_provider_that_does_not_start_is_never_measured_as_if_it_did() -> None:
    """ONNX Runtime would go on with the rest in silence, at the start and later."""
    wanted = providers_for("cuda", {GPU_ACCELERATOR: "tensorrt:fp32"}, available=(TENSORRT, CUDA, CPU))
    session = MockedSession(TENSORRT, CUDA, CPU)
    assert open_with("m.onnx", None, wanted, new_session=session) is session
    assert session.asked == {"providers": wanted, "enable_fallback": 0}
    with pytest.raises(UnavailableError, match=f"{TENSORRT} was asked for, and did not start: .* went on with {CUDA}"):
        open_with("m.onnx", None, wanted, new_session=MockedSession(CUDA, CPU))


def test_settings_of_a_provider_do_nothing_on_the_processor(relu: Write) -> None:
    """As on a server: the same record serves on both (R244)."""
    settings = {GPU_ACCELERATOR: "tensorrt:fp16", CONV_SEARCH: "1", "intra_op_thread_count": "1"}
    assert session_options(settings).intra_op_num_threads == 1
    runner = OnnxRunner(relu(), settings)
    runner.close()


def test_what_is_measured_on_a_gpu_is_remembered_for_that_gpu(tmp_path: Path) -> None:
    """Its model is part of the key, and the record says where it was measured."""
    for number, model in enumerate(("NVIDIA A10", "NVIDIA L4")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "information").write_text(f"Model: \t\t {model}\nIRQ: 12\n", encoding="utf-8")
    assert gpu_models(tmp_path) == ("NVIDIA A10", "NVIDIA L4")
    assert gpu_models(tmp_path / "none") == ()
    common: dict[str, Any] = {"seconds": 1.0, "objective": "throughput", "p95_ms": None, "precision": ("fp32",),
                              "accuracy": None, "cache": False, "isolate": False}  # fmt: skip
    on_gpu, on_cpu = (Measured(tune=True, device=device, **common) for device in ("cuda", "cpu"))
    assert "gpus" in on_gpu.options()["facts"]
    assert "gpus" not in on_cpu.options()["facts"]
    assert (on_gpu.provenance(), on_cpu.provenance()) == ((("measured_on", "gpu"),), ())
    assert Measured(tune=False, device="cuda", **common).provenance() == ()


def test_an_accelerator_is_text_and_back() -> None:
    """The text is what a record keeps."""
    for precision in ("fp32", "fp16", "bf16"):
        one = GpuAccelerator(name="tensorrt", precision=precision)
        assert GpuAccelerator.read(str(one)) == one
