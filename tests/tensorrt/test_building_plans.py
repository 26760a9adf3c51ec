"""Plans from ONNX artifacts with the real builder of TensorRT-RTX."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from onnx import TensorProto, helper

from aitune.errors import ArtifactIntegrityError, SourceError, UnavailableError, UsageError
from aitune.records import DType, ONNXArtifact
from aitune.records.plans import Profile, ProfileRange, read_plan_header
from aitune.tensorrt import BuildOptions, build, building, cuda, device_problem
from aitune.tensorrt.library import capability_names, strongly_typed_only, takes_capability

from .conftest import convolution_file, linear_file, save, sequence_file, value

pytestmark = pytest.mark.tensorrt
Make = Callable[..., ONNXArtifact]
Options = Callable[..., BuildOptions]


def test_a_model_becomes_a_plan_with_its_contract(
    trt: ModuleType, artifact: Make, options: Options, tmp_path: Path
) -> None:
    """Tensors and bounds are the model's; the profile is the contract's; the header says who wrote it."""
    source = artifact(linear_file)
    plan = build(source, trt=trt, options=options(), workspace=tmp_path / "plan")
    assert plan.path == tmp_path / "plan" / "model.plan"
    plan.verify()
    assert (plan.inputs, plan.outputs, plan.max_batch_size) == (source.inputs, source.outputs, source.max_batch_size)
    assert plan.plan is not None
    assert (plan.plan.builder, plan.plan.compute_capability) == ("tensorrt_rtx", "8.9")
    (item,) = plan.plan.profiles[0].inputs
    assert (item.min, item.max) == ((1, 4), (8, 4))
    header = read_plan_header(plan.path)
    assert (header.builder, header.version) == ("tensorrt_rtx", trt.__version__)


def test_free_axes_beside_the_batch_get_their_range(
    trt: ModuleType, artifact: Make, options: Options, tmp_path: Path
) -> None:
    """Smallest and largest from the contract, the best one the typical length at the largest batch."""
    shapes = {"min_shapes": {"ids": (1, 4)}, "opt_shapes": {"ids": (2, 16)}, "max_shapes": {"ids": (8, 64)}}
    plan = build(artifact(sequence_file, **shapes), trt=trt, options=options(), workspace=tmp_path / "plan")
    assert plan.plan is not None
    (item,) = plan.plan.profiles[0].inputs
    assert (item.min, item.opt, item.max) == ((1, 4), (8, 16), (8, 64))


def test_several_profiles_split_a_range(trt: ModuleType, artifact: Make, options: Options, tmp_path: Path) -> None:
    """The builder takes every part as a profile of its own."""
    source = artifact(sequence_file, min_shapes={"ids": (1, 4)}, max_shapes={"ids": (8, 64)})
    plan = build(source, trt=trt, options=options(splits={"sequence": (8, 32)}), workspace=tmp_path / "plan")
    assert plan.plan is not None
    assert [profile.inputs[0].max for profile in plan.plan.profiles] == [(8, 8), (8, 32), (8, 64)]


def test_a_convolution_becomes_a_plan(trt: ModuleType, artifact: Make, options: Options, tmp_path: Path) -> None:
    """Images with a dynamic batch."""
    plan = build(artifact(convolution_file), trt=trt, options=options(), workspace=tmp_path / "plan")
    assert plan.max_batch_size == 8
    layers = json.loads(dict(plan.evidence.provenance)["layers"]) if plan.evidence else {}
    assert layers["CONVOLUTION"] == 2


def test_external_data_is_read(trt: ModuleType, artifact: Make, options: Options, tmp_path: Path) -> None:
    """The parser finds the weights beside the model."""
    source = artifact(lambda path: linear_file(path, external="weights.bin"))
    assert source.companions
    build(source, trt=trt, options=options(), workspace=tmp_path / "plan").verify()


def test_the_record_says_that_the_plan_was_not_run(
    trt: ModuleType, artifact: Make, options: Options, tmp_path: Path
) -> None:
    """What was proved on the ONNX model is carried over and marked; no warm-up is claimed to be safe."""
    if not device_problem():
        pytest.skip("there is a GPU here: the plan is run, which tests/gpu covers")
    source = artifact(linear_file)
    plan = build(source, trt=trt, options=options(), workspace=tmp_path / "plan")
    evidence = plan.evidence
    assert evidence is not None
    assert source.evidence is not None
    assert evidence.batching is not None
    assert evidence.batching.reason.endswith("(proved on the ONNX model the plan was built from)")
    assert not any(domain.zeros_valid for domain in evidence.inputs)
    assert "was not run here" in evidence.notes[0]
    assert evidence.probe == source.evidence.probe
    assert evidence.samples is not None
    assert (plan.path.parent / evidence.samples.name).is_file()
    provenance = dict(evidence.provenance)
    assert provenance["source_identity"] == source.identity
    assert provenance["tensorrt_rtx"] == trt.__version__
    assert provenance["engine"] == "not inspected: no GPU"


def test_another_precision_keeps_no_answers(trt: ModuleType, artifact: Make, options: Options, tmp_path: Path) -> None:
    """tf32 rounds: the answers of the ONNX model are not the plan's."""
    if not device_problem():
        pytest.skip("there is a GPU here: the plan is run, which tests/gpu covers")
    plan = build(artifact(linear_file), trt=trt, options=options(precision="tf32"), workspace=tmp_path / "plan")
    assert plan.evidence is not None
    assert (plan.evidence.probe, plan.evidence.samples) == (None, None)


def test_every_node_that_stops_the_parser_is_named(
    trt: ModuleType, options: Options, artifact: Make, tmp_path: Path
) -> None:
    """Index, name, operator and the library's own words, in one line."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"], name="first"),
        helper.make_node("Cast", ["a"], ["y"], to=TensorProto.FLOAT),
    ]

    def write(path: Path) -> Path:
        return save(path, nodes, [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, [1, "m"])])

    source = artifact(write, min_shapes={"x": (1,)}, max_shapes={"x": (4,)})
    with pytest.raises(SourceError, match=r"cannot build 'model.onnx': node 0 'first' \(NonZero\): .*plugin") as caught:
        build(source, trt=trt, options=options(), workspace=tmp_path / "plan")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "plan").glob("*")) if (tmp_path / "plan").exists() else True


def test_a_type_that_the_library_would_change_is_refused(
    trt: ModuleType, options: Options, artifact: Make, tmp_path: Path
) -> None:
    """It parses float64 and makes float32 of it without a word."""

    def write(path: Path) -> Path:
        node = helper.make_node("Add", ["x", "x"], ["y"])
        return save(path, [node], [value("x", TensorProto.DOUBLE, ["b"])], [value("y", TensorProto.DOUBLE, ["b"])])

    with pytest.raises(SourceError, match="tensor 'x' is float64, which TensorRT does not take"):
        build(artifact(write), trt=trt, options=options(), workspace=tmp_path / "plan")


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.INT32, TensorProto.BOOL, TensorProto.INT64])
def test_types_come_back_as_they_were(
    trt: ModuleType, options: Options, artifact: Make, tmp_path: Path, kind: int
) -> None:
    """What the network says of its tensors is what the record says."""

    def write(path: Path) -> Path:
        node = helper.make_node("Concat", ["x", "x"], ["y"], axis=1)
        return save(path, [node], [value("x", kind, ["batch", 2])], [value("y", kind, ["batch", 4])])

    plan = build(artifact(write), trt=trt, options=options(), workspace=tmp_path / "plan")
    assert plan.inputs[0].dtype is plan.outputs[0].dtype
    assert plan.inputs[0].dtype in (DType.FLOAT16, DType.INT32, DType.BOOL, DType.INT64)


def test_a_shape_tensor_is_recognised_and_gets_a_range_of_values(
    trt: ModuleType, options: Options, artifact: Make, tmp_path: Path
) -> None:
    """Its profile holds values, not sizes."""

    def write(path: Path) -> Path:
        node = helper.make_node("Expand", ["x", "size"], ["y"])
        inputs = [value("x", TensorProto.FLOAT, [1, 1]), value("size", TensorProto.INT64, [2])]
        return save(path, [node], inputs, [value("y", TensorProto.FLOAT, ["p", "q"])])

    samples = [{"x": [[1.0]], "size": [2, 3]}, {"x": [[2.0]], "size": [4, 3]}]
    plan = build(artifact(write, samples=samples), trt=trt, options=options(), workspace=tmp_path / "plan")
    assert plan.plan is not None
    assert plan.plan.tensor("size").shape_tensor
    item = next(item for item in plan.plan.profiles[0].inputs if item.name == "size")
    assert (item.values, item.min, item.max) == (True, (2, 2), (4, 4))


def test_a_vectorised_layout_can_be_asked_for(
    trt: ModuleType, options: Options, artifact: Make, tmp_path: Path
) -> None:
    """The network takes it, and the record says so."""
    asked = options(formats={"image": "HWC"})
    plan = build(artifact(convolution_file), trt=trt, options=asked, workspace=tmp_path / "plan")
    assert plan.plan is not None
    assert plan.plan.tensor("image").format == "HWC"
    assert plan.plan.tensor("logits").linear


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"formats": {"z": "CHW32"}}, "'z', which is no input or output"),
        ({"formats": {"x": "ABC"}}, "format of tensor 'x' must be one of LINEAR"),
        ({"precision": "fp16"}, "takes precisions from the model, not from a flag"),
        ({"hardware_compatibility": "ampere_plus"}, "hardware compatibility 'ampere_plus' is not something"),
        ({"compute_capability": "9.9"}, "builds for 7.5, 8.0, .* not for '9.9'"),
        ({"splits": {"sequence": (2,)}}, "no input has an axis 'sequence'"),
        (
            {"profiles": (Profile(inputs=(ProfileRange(name="z", min=(1,), opt=(1,), max=(1,)),)),)},
            "profile 0 needs a range for every input",
        ),
    ],
)
def test_what_the_library_cannot_do_is_refused_before_it_builds(
    trt: ModuleType, options: Options, artifact: Make, tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    """Asked by capability; each says what was asked and what there is."""
    with pytest.raises(UsageError, match=message):
        build(artifact(linear_file), trt=trt, options=options(**given), workspace=tmp_path / "plan")


def test_a_gpu_must_be_named_where_there_is_none(trt: ModuleType, artifact: Make, tmp_path: Path) -> None:
    """The hint lists those that can be built for."""
    if not device_problem():
        pytest.skip("there is a GPU here: the plan is built for it")
    with pytest.raises(UsageError, match="name the one to build for") as caught:
        build(artifact(linear_file), trt=trt, workspace=tmp_path / "plan")
    assert "8.9" in caught.value.hint


def test_profiles_of_ones_own_are_taken(trt: ModuleType, options: Options, artifact: Make, tmp_path: Path) -> None:
    """They go into the record as they are."""
    own = Profile(inputs=(ProfileRange(name="x", min=(1, 4), opt=(2, 4), max=(4, 4)),))
    plan = build(artifact(linear_file), trt=trt, options=options(profiles=(own,)), workspace=tmp_path / "plan")
    assert plan.plan is not None
    assert plan.plan.profiles == (own,)


def test_a_profile_the_builder_refuses_is_said_in_its_words(
    trt: ModuleType, options: Options, artifact: Make, tmp_path: Path
) -> None:
    """The network fixes the second axis to 4."""
    own = Profile(inputs=(ProfileRange(name="x", min=(1, 5), opt=(2, 5), max=(4, 5)),))
    with pytest.raises(SourceError, match=r"(TensorRT|tensorrt_rtx)"):
        build(artifact(linear_file), trt=trt, options=options(profiles=(own,)), workspace=tmp_path / "plan")


def test_options_reach_the_builder(trt: ModuleType, options: Options, artifact: Make, tmp_path: Path) -> None:
    """Workspace, level and timings are accepted together; the cache file is written and read again."""
    cache = tmp_path / "cache" / "timings.bin"
    asked = options(workspace_bytes=1 << 28, optimization_level=1, timing_cache=cache)
    for _ in range(2):
        build(artifact(linear_file), trt=trt, options=asked, workspace=tmp_path / "plan").verify()
    assert cache.is_file()


def test_what_the_builder_says_when_it_gives_up_is_told(
    trt: ModuleType, options: Options, artifact: Make, tmp_path: Path
) -> None:
    """A version-compatible plan carries a lean runtime, which TensorRT-RTX does not bring."""
    with pytest.raises(SourceError, match=r"cannot build the plan: .*libnvinfer_lean"):
        build(artifact(linear_file), trt=trt, options=options(version_compatible=True), workspace=tmp_path / "plan")


def test_other_timings_are_replaced(trt: ModuleType, options: Options, artifact: Make, tmp_path: Path) -> None:
    """A cache that the library does not take is started anew, not an error."""
    cache = tmp_path / "timings.bin"
    cache.write_bytes(b"not timings")
    build(artifact(linear_file), trt=trt, options=options(timing_cache=cache), workspace=tmp_path / "plan")
    assert cache.read_bytes() != b"not timings"


def test_a_changed_model_is_not_built(trt: ModuleType, options: Options, artifact: Make, tmp_path: Path) -> None:
    """The bytes must be those that were proved."""
    source = artifact(linear_file)
    source.path.write_bytes(source.path.read_bytes() + b"\0")
    with pytest.raises(ArtifactIntegrityError, match="not the recorded file"):
        build(source, trt=trt, options=options(), workspace=tmp_path / "plan")


def test_a_record_of_another_model_is_found_out(
    trt: ModuleType, options: Options, artifact: Make, tmp_path: Path
) -> None:
    """Names as the library sees them must be the record's."""
    import dataclasses

    source = artifact(linear_file)
    other = dataclasses.replace(source, outputs=(dataclasses.replace(source.outputs[0], name="z"),))
    with pytest.raises(SourceError, match="TensorRT sees the outputs 'y', the record has 'z'"):
        build(other, trt=trt, options=options(), workspace=tmp_path / "plan")


def test_the_library_is_asked_what_it_can_do(trt: ModuleType) -> None:
    """TensorRT-RTX takes precisions from the model and builds for named GPUs."""
    assert strongly_typed_only(trt)
    assert takes_capability(trt)
    assert capability_names(trt)["8.9"] == "SM89"
    assert capability_names(trt)["12.0"] == "SM120"


def test_without_its_libraries_tensorrt_is_missing_in_one_line() -> None:
    """The package of the GPU machine is not installed here, which is exit 3 with advice."""
    code = (
        "import sys; sys.modules['tensorrt'] = None\n"
        "from aitune.tensorrt import load_tensorrt\n"
        "from aitune.errors import MissingDependencyError\n"
        "try:\n    load_tensorrt()\nexcept MissingDependencyError as error:\n    print(error, '|', error.hint)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "'tensorrt' is not installed | install it with: pip install 'aitune-triton[tensorrt]'"


def test_a_plan_without_record_and_gpu_is_not_described(
    trt: ModuleType, options: Options, artifact: Make, tmp_path: Path
) -> None:
    """Nobody can load it here; the error says why and what to do."""
    from aitune.tensorrt import describe

    if not device_problem():
        pytest.skip("there is a GPU here: the engine is asked, which tests/gpu covers")
    plan = build(artifact(linear_file), trt=trt, options=options(), workspace=tmp_path / "plan")
    with pytest.raises(UnavailableError, match="has no record beside it, and cannot be loaded here") as caught:
        describe(plan.path)
    assert "aitune.json" in caught.value.hint


def test_the_cuda_runtime_says_why_there_is_no_gpu() -> None:
    """It is installed with the library, and answers without a driver."""
    from aitune.tensorrt.cuda import Stream, compute_capability

    problem = device_problem()
    if not problem:
        pytest.skip("there is a GPU here")
    assert "\n" not in problem
    for call in (compute_capability, Stream):
        with pytest.raises(UnavailableError, match="no GPU can be used here"):
            call()


def test_a_call_that_fails_is_told_in_the_words_of_cuda() -> None:
    """The runtime's own sentence for the status, in one line."""
    runtime = cuda._runtime()
    assert isinstance(runtime, ctypes.CDLL)
    cuda._check(runtime, 0)
    with pytest.raises(UnavailableError, match=r"^CUDA says: out of memory$"):
        cuda._check(runtime, 2)


def test_where_a_gpu_is_it_need_not_be_named(trt: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library can build for another one and takes the one that is here."""
    monkeypatch.setattr(building, "device_problem", lambda: "")
    monkeypatch.setattr(building, "compute_capability", lambda: "8.9")
    assert building.resolve_capability(trt, BuildOptions()) == "8.9"


def test_a_plan_does_not_run_without_a_gpu(trt: ModuleType, options: Options, artifact: Make, tmp_path: Path) -> None:
    """A candidate that cannot be opened says so in one line, as any runtime does."""
    from aitune.tensorrt import PlanCandidate

    if not device_problem():
        pytest.skip("there is a GPU here: the plan runs, which tests/gpu covers")
    plan = build(artifact(linear_file), trt=trt, options=options(), workspace=tmp_path / "plan")
    candidate = PlanCandidate(plan.path, trt)
    assert (candidate.name, dict(candidate.settings), candidate.precision) == ("tensorrt", {}, "fp32")
    with pytest.raises(UnavailableError, match="no GPU can be used here"):
        candidate.open()


def test_the_library_itself_refuses_to_load_a_plan_without_a_driver(
    trt: ModuleType, options: Options, artifact: Make, tmp_path: Path
) -> None:
    """Its last error, in one line."""
    from aitune.tensorrt.engine import open_engine

    if not device_problem():
        pytest.skip("there is a GPU here: the plan is loaded, which tests/gpu covers")
    plan = build(artifact(linear_file), trt=trt, options=options(), workspace=tmp_path / "plan")
    with pytest.raises(SourceError, match=r"does not load plan 'model\.plan': .*cudaError 35"):
        open_engine(trt, plan.path.read_bytes(), plan.path.name)
