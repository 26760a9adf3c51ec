"""What a config says of a TensorRT plan, and of ONNX Runtime's TensorRT provider."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import handmade
import pytest
from handmade import rows, whole

from aitune.errors import RecordError, UsageError
from aitune.records import DType, TensorRTPlanArtifact, TunedTensorSpec
from aitune.records.plans import PlanFacts, PlanTensor, PlanVariant, Profile, ProfileRange
from aitune.triton.plan import Plan, PlanOptions, plan
from aitune.triton.plan_accelerator import AcceleratorOptions
from aitune.triton.rendering import message, render

IDS = TunedTensorSpec("ids", DType.INT32, ("batch", "sequence"), (1, 8), (8, 64), 0)
OUT = TunedTensorSpec("y", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4), 0)


def profile(low: int, high: int, *, first: int = 1) -> Profile:
    """Batches from ``first`` to ``high``."""
    return Profile(inputs=(ProfileRange(name="ids", min=(first, 8), opt=(low, 16), max=(high, 64)),))


def artifact(*profiles: Profile, **changes: Any) -> TensorRTPlanArtifact:
    """A plan of ``ids`` with these profiles."""
    facts = PlanFacts(
        builder="tensorrt",
        version="10.5.0.18",
        compute_capability="8.9",
        profiles=profiles or (profile(8, 8),),
        tensors=(PlanTensor(name="ids"), PlanTensor(name="y")),
    )
    return TensorRTPlanArtifact(
        path=Path("m.plan"),
        fingerprint="cd" * 32,
        inputs=(IDS,),
        outputs=(OUT,),
        evidence=handmade.evidence((IDS,)),
        plan=dataclasses.replace(facts, **changes),
    )


def planned(found: TensorRTPlanArtifact, **options: Any) -> Plan:
    """The plan of a config, rendered and held against its message."""
    made = plan(found, model_name="m", options=PlanOptions(**options))
    render(made)
    return made


def test_a_plan_is_named_by_platform_and_backend_and_runs_on_a_gpu() -> None:
    """The exact pair that core accepts (R55), and the one kind of instance (R250)."""
    config = message(planned(artifact()))
    assert (config.platform, config.backend) == ("tensorrt_plan", "tensorrt")
    assert config.instance_group[0].kind == config.instance_group[0].KIND_GPU


def test_profiles_are_bound_as_strings() -> None:
    """All of them, or those asked for."""
    two = artifact(profile(8, 8), profile(4, 8))
    assert list(message(planned(two)).instance_group[0].profile) == ["0", "1"]
    assert list(message(planned(two, profiles=(1,))).instance_group[0].profile) == ["1"]


def test_a_profile_that_is_not_there_is_refused() -> None:
    """R280 would stop the model on the server."""
    with pytest.raises(UsageError, match="profile 2 was asked for, the plan has 1"):
        planned(artifact(), profiles=(2,))


def test_the_batch_is_the_smallest_of_the_selected_profiles() -> None:
    """B36: what one profile does not hold fails request by request."""
    two = artifact(profile(8, 8), profile(4, 4))
    assert planned(two).max_batch_size == 4
    assert "Profile 1 of the plan holds 4" in planned(two).batching.reason
    assert planned(two, profiles=(0,)).max_batch_size == 8


def test_a_profile_that_takes_no_single_row_does_not_batch() -> None:
    """R294: Triton never pads a request."""
    found = planned(artifact(profile(8, 8, first=8)))
    assert (found.max_batch_size, found.batcher) == (0, None)
    assert "needs at least 8 rows" in found.batching.reason


def test_a_larger_batch_than_the_profiles_hold_is_refused() -> None:
    """The wish is not quietly made smaller."""
    with pytest.raises(UsageError, match="a batch of 8 was asked for"):
        planned(artifact(profile(4, 4)), max_batch_size=8)


def test_cuda_graphs_are_captured_for_one_row_and_the_largest_batch() -> None:
    """At the typical shape, without the batch; never when nobody asked."""
    made = planned(artifact(), cuda_graphs=True)
    assert made.engine is not None
    assert [graph.batch_size for graph in made.engine.graphs] == [1, 8]
    assert message(made).optimization.cuda.graphs
    assert not message(planned(artifact())).optimization.cuda.graphs


def test_no_graph_is_captured_outside_the_profiles() -> None:
    """The server would only log it."""
    narrow = Profile(inputs=(ProfileRange(name="ids", min=(1, 60), opt=(8, 64), max=(8, 64)),))
    made = planned(artifact(narrow), cuda_graphs=True)
    assert made.engine is not None
    assert (made.engine.graphs, made.engine.graph_note) == ((), "no profile holds the typical shape")


def test_several_plans_are_told_apart_by_the_gpu() -> None:
    """The artifact's own plan goes by the name it is published under."""
    variants = (
        PlanVariant(compute_capability="8.9", file="", version="10.5.0.18"),
        PlanVariant(compute_capability="9.0", file="model_sm90.plan", version="10.5.0.18"),
    )
    found = dataclasses.replace(
        artifact(), companions=(handmade.Companion(name="model_sm90.plan", fingerprint="0" * 64),)
    )
    assert found.plan is not None
    found = dataclasses.replace(found, plan=dataclasses.replace(found.plan, variants=variants))
    assert dict(message(planned(found)).cc_model_filenames) == {"8.9": "model.plan", "9.0": "model_sm90.plan"}


def test_an_unserved_release_is_told_while_publishing() -> None:
    """``--triton RELEASE`` says which images load the plan."""
    assert planned(artifact()).warnings == ()
    (warning,) = planned(artifact(), triton="24.08").warnings
    assert "24.08 has TensorRT 10.3.0.26" in warning
    assert "it loads in 24.10" in warning


def test_a_record_without_facts_says_so() -> None:
    """A record made by hand is rendered as it is, with a warning."""
    bare = dataclasses.replace(artifact(), plan=None)
    made = planned(bare, cuda_graphs=True)
    assert "does not say who built the plan" in made.warnings[0]
    assert made.engine is not None
    assert (made.engine.profiles, made.engine.graphs) == ((), ())


@pytest.mark.parametrize(
    ("dtype", "shape", "release", "message"),
    [
        (DType.INT64, (2,), "24.06", "from 24.07 on"),
        (DType.INT32, (), "24.10", "scalar that decides shapes"),
    ],
)
def test_shape_tensors_a_config_cannot_say_are_refused(
    dtype: DType, shape: tuple[int, ...], release: str, message: str
) -> None:
    """R84 and R270 would stop the model."""
    size = whole("size", dtype, *shape)
    found = dataclasses.replace(artifact(tensors=(PlanTensor(name="size", shape_tensor=True),)), inputs=(size,))
    with pytest.raises(RecordError, match=message):
        planned(found, triton=release)


def test_a_shape_tensor_is_marked_and_gets_no_warm_up() -> None:
    """Zeros are no shape; the warm-up would fail, which can end the server."""
    size = whole("size", DType.INT32, 2)
    found = dataclasses.replace(
        artifact(
            tensors=(PlanTensor(name="size", shape_tensor=True),),
            profiles=(Profile(inputs=(ProfileRange(name="size", min=(1, 1), opt=(1, 1), max=(4, 4), values=True),)),),
        ),
        inputs=(size,),
        evidence=handmade.evidence((size,), batched=False, reason="no rows"),
    )
    config = message(planned(found))
    assert config.input[0].is_shape_tensor
    assert not config.model_warmup


@pytest.mark.parametrize(
    ("dims", "release", "message"), [((8, 2, 2), "24.07", "from 24.08 on"), ((8, 2), "24.10", "Triton takes 3")]
)
def test_vectorised_layouts_a_config_cannot_say_are_refused(dims: tuple[int, ...], release: str, message: str) -> None:
    """R95, and servers that do not know the field."""
    spec = rows("x", DType.FLOAT16, *dims)
    facts = PlanFacts(builder="tensorrt", version="10.5.0.18", tensors=(PlanTensor(name="x", format="HWC8"),))
    found = dataclasses.replace(artifact(), inputs=(spec,), plan=facts)
    with pytest.raises(RecordError, match=message):
        planned(found, triton=release)


@pytest.mark.parametrize("options", [{"profiles": (0,)}, {"cuda_graphs": True}])
def test_an_onnx_model_has_neither_profiles_nor_graphs(options: dict[str, Any]) -> None:
    """An option that would do nothing is refused."""
    onnx = handmade.record([rows("x")], [rows("y")])
    with pytest.raises(UsageError, match="for TensorRT plans"):
        plan(onnx, model_name="m", options=PlanOptions(**options))


def accelerated(**options: Any) -> dict[str, str]:
    """Parameters of the accelerator of an ONNX model of ``ids``."""
    found = handmade.record([IDS], [OUT], proof=handmade.evidence((IDS,)))
    made = plan(found, model_name="m", options=PlanOptions(accelerator=AcceleratorOptions(name="tensorrt", **options)))
    render(made)
    assert made.accelerator is not None
    return dict(made.accelerator.parameters)


def test_the_accelerator_gets_its_shapes_from_the_contract() -> None:
    """Full shapes with the batch of the config: from one row to the largest batch."""
    found = accelerated()
    assert found["trt_profile_min_shapes"] == "ids:1x8"
    assert found["trt_profile_max_shapes"] == "ids:8x64"
    assert found["precision_mode"] == "FP32"
    assert "trt_engine_cache_path" not in found


def test_engines_of_other_weights_are_never_found() -> None:
    """The folder of the cache carries the fingerprint."""
    found = accelerated(cache="/cache", precision="fp16")
    assert found["trt_engine_cache_path"].startswith("/cache/m-")
    assert found["trt_timing_cache_path"] == found["trt_engine_cache_path"]


def test_fixed_shapes_need_no_profile() -> None:
    """The provider knows them from the model."""
    found = handmade.record([whole("x", DType.FLOAT32, 4)], [whole("y", DType.FLOAT32, 4)])
    options = PlanOptions(accelerator=AcceleratorOptions(name="tensorrt"))
    made = plan(found, model_name="m", options=options)
    assert made.accelerator is not None
    assert made.accelerator.parameters == (("precision_mode", "FP32"),)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "openvino"}, "accelerator must be one of"),
        ({"name": "tensorrt", "precision": "int3"}, "precision of an accelerator"),
        ({"name": "tensorrt", "cache": "cache"}, "absolute path"),
        ({"name": "tensorrt", "workspace_bytes": 0}, "at least 1"),
    ],
)
def test_choices_about_an_accelerator_make_sense(options: dict[str, Any], message: str) -> None:
    """Each is refused before anything is planned."""
    with pytest.raises(UsageError, match=message):
        AcceleratorOptions(**options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "cpu"}, "needs a GPU"),
        ({"accelerator": AcceleratorOptions(name="tensorrt", precision="bf16")}, "from 26.02 on"),
    ],
)
def test_an_accelerator_that_cannot_work_is_refused(changes: dict[str, Any], message: str) -> None:
    """A CPU host, or a server that does not know the precision."""
    options = {"accelerator": AcceleratorOptions(name="tensorrt"), **changes}
    with pytest.raises(UsageError, match=message):
        plan(handmade.record([IDS], [OUT]), model_name="m", options=PlanOptions(**options))


def test_a_plan_needs_no_accelerator() -> None:
    """It is one."""
    with pytest.raises(UsageError, match="for ONNX models"):
        planned(artifact(), accelerator=AcceleratorOptions(name="tensorrt"))


def test_a_name_that_the_provider_cannot_read_is_refused() -> None:
    """It separates shapes by ':' and ','."""
    spec = dataclasses.replace(IDS, name="serving:0")
    options = PlanOptions(accelerator=AcceleratorOptions(name="tensorrt"))
    with pytest.raises(UsageError, match="'serving:0' has ':'"):
        plan(handmade.record([spec], [OUT]), model_name="m", options=options)
