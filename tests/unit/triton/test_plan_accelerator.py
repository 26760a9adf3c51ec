"""A winner that was measured in ONNX Runtime's TensorRT provider is served in it, unless a person says otherwise."""

from __future__ import annotations

import dataclasses
from typing import Any

import handmade
import pytest
from handmade import rows

from aitune.errors import RecordError, UsageError
from aitune.records import DType, ONNXArtifact
from aitune.records.accelerators import GPU_ACCELERATOR
from aitune.records.codec import Document, dumps_document, loads_document
from aitune.records.evidence import Tried, Tuning
from aitune.triton.plan import Plan, PlanOptions, plan
from aitune.triton.plan_accelerator import AcceleratorOptions
from aitune.triton.rendering import message, render

IDS = rows("ids", DType.INT64, "sequence")


def won(setting: str = "tensorrt:fp16", **more: str) -> ONNXArtifact:
    """The record of a model whose winner has this accelerator."""
    tuning = Tuning(
        objective="latency",
        winner="it",
        reason="2 ms against 5 ms",
        settings=((GPU_ACCELERATOR, setting), *more.items()),
        candidates=(Tried(name="default"), Tried(name="it", precision="fp16")),
    )
    proof = handmade.evidence((IDS,), tuning=tuning)
    return handmade.record((IDS,), [rows("y")], proof=proof)


def planned(artifact: ONNXArtifact | None = None, **options: Any) -> Plan:
    """The plan, and its text says the same as its message."""
    found = plan(artifact or won(), model_name="m", options=PlanOptions(**options))
    render(found)
    return found


def parameters(found: Plan) -> dict[str, str]:
    """Those of the accelerator."""
    assert found.accelerator is not None
    return dict(found.accelerator.parameters)


def test_a_winner_is_rendered_as_an_accelerator_with_what_was_measured() -> None:
    """Not as a parameter, which the backend would ignore in silence; shapes come from the contract."""
    found = planned(target="gpu")
    (accelerator,) = message(found).optimization.execution_accelerators.gpu_execution_accelerator
    assert accelerator.name == "tensorrt"
    assert accelerator.parameters["precision_mode"] == "FP16"
    assert accelerator.parameters["trt_profile_max_shapes"].startswith("ids:8x")
    assert GPU_ACCELERATOR not in message(found).parameters
    text = render(found)
    assert "# Measured for latency: 2 ms against 5 ms." in text
    assert text.count("Measured for latency") == 1
    assert "nobody proved these answers" not in text
    assert found.kind == "KIND_GPU"
    assert found.warnings == ()


def test_other_settings_of_the_winner_keep_their_comment() -> None:
    """Where there are any."""
    text = render(planned(won(cudnn_conv_algo_search="1"), target="gpu"))
    assert text.count("# Measured for latency") == 2
    assert 'key: "cudnn_conv_algo_search"' in text
    assert "By request: a." in planned(target="gpu", settings=(("a", "b"),)).settings_reason
    assert "Measured" not in planned(target="gpu", settings=(("a", "b"),)).settings_reason


def test_on_any_host_a_note_says_where_it_was_measured() -> None:
    """KIND_AUTO takes the accelerator on a host with a GPU and ignores it on another (R244)."""
    found = planned()
    assert found.kind == "KIND_AUTO"
    assert parameters(found)["precision_mode"] == "FP16"
    (warning,) = found.warnings
    assert warning.startswith("'tensorrt:fp16' was measured on a GPU: on a host without one")
    assert warning.endswith("--target gpu pins it")


def test_a_cpu_target_does_not_get_it() -> None:
    """It would be ignored there; the person is told that nobody measured this."""
    found = planned(target="cpu")
    assert found.accelerator is None
    assert not message(found).HasField("optimization")
    assert found.warnings == ("'tensorrt:fp16' was measured on a GPU, and the target is cpu: it is served without, as "
                              "nobody measured it",)  # fmt: skip


def test_what_a_person_asks_for_goes_first_and_is_not_called_measured() -> None:
    """The difference is told; a comment about other numbers would be a lie."""
    found = planned(accelerator=AcceleratorOptions(name="tensorrt", precision="fp32"), target="gpu")
    assert parameters(found)["precision_mode"] == "FP32"
    assert "Measured" not in render(found)
    assert found.warnings == ("'tensorrt:fp16' was measured, 'tensorrt:fp32' is served by request, and was not",)


def test_a_cache_can_be_given_to_what_won() -> None:
    """Without a word about precision, that of the winner stays."""
    found = planned(accelerator=AcceleratorOptions(name="tensorrt", cache="/cache"), target="gpu")
    assert parameters(found)["precision_mode"] == "FP16"
    assert parameters(found)["trt_engine_cache_path"].startswith("/cache/m-")
    assert "# Measured for latency: 2 ms against 5 ms." in render(found)
    assert found.warnings == ()


def test_a_winner_on_cuda_is_noted_too() -> None:
    """Its settings may do nothing without a GPU, but its batch was found on one."""
    inputs = (rows("x"),)
    proof = handmade.evidence(inputs, tuning=handmade.tuning(), provenance=(("measured_on", "gpu"),))
    artifact = handmade.record(inputs, [rows("y")], proof=proof)
    assert planned(artifact, target="gpu").warnings == ()
    assert planned(artifact).warnings[0].startswith("candidates were measured on a GPU: on a host without one")
    assert "the target is cpu" in planned(artifact, target="cpu").warnings[0]


def test_records_without_the_setting_are_planned_as_before() -> None:
    """Old ones, and those of a processor."""
    inputs = (rows("x"),)
    old = handmade.record(
        inputs, [rows("y")], proof=handmade.evidence(inputs, tuning=handmade.tuning(execution_mode="1"))
    )
    found = planned(old)
    assert (found.accelerator, found.warnings) == (None, ())
    assert found.settings == (("execution_mode", "1"),)
    assert planned(handmade.record(inputs, [rows("y")])).accelerator is None


def test_a_setting_that_nobody_knows_is_passed_on_and_a_bad_accelerator_refused() -> None:
    """As every unknown key is, and as a bad graph level is."""
    assert ("from.the.future", "1") in planned(won(**{"from.the.future": "1"}), target="gpu").settings
    with pytest.raises(RecordError, match="cannot be 'migraphx:fp32'"):
        planned(won("migraphx:fp32"))


def test_the_setting_survives_the_json_of_the_record() -> None:
    """As plain text among the others."""
    artifact = won()
    text = dumps_document(Document(artifact=artifact))
    back = loads_document(text, artifact.path.parent).artifact
    assert back.evidence == artifact.evidence
    assert back.evidence is not None
    assert back.evidence.tuning is not None
    assert back.evidence.tuning.precision == "fp16"


def test_a_record_that_does_not_list_its_winner_computes_in_its_own_numbers() -> None:
    """As records of the first versions do not."""
    assert handmade.tuning().precision == "fp32"
    assert (
        dataclasses.replace(handmade.tuning(), candidates=(Tried(name="other", precision="int8"),)).precision == "fp32"
    )


def test_the_setting_is_no_parameter_that_a_person_gives() -> None:
    """There is an option for it."""
    with pytest.raises(UsageError, match="is not given as a parameter") as told:
        PlanOptions(settings=((GPU_ACCELERATOR, "tensorrt:fp32"),))
    assert told.value.hint == "use --accelerator tensorrt"
