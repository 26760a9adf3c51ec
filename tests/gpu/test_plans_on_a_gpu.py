"""Plans on a machine with a GPU: loaded, run, proved, measured. Nothing here was run where there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from aitune.errors import SourceError
from aitune.records import ONNXArtifact
from aitune.tensorrt import BuildOptions, PlanRunner, build, describe, tune
from aitune.tensorrt.cuda import Stream, compute_capability

pytestmark = pytest.mark.gpu
Make = Callable[..., ONNXArtifact]


def test_the_gpu_says_its_compute_capability() -> None:
    """Two numbers with a dot."""
    major, _, minor = compute_capability().partition(".")
    assert major.isdecimal()
    assert minor.isdecimal()


def test_bytes_come_back_from_the_device() -> None:
    """Host to device to host, and the memory is freed."""
    stream = Stream()
    sent = np.arange(1000, dtype=np.float32)
    back = np.zeros_like(sent)
    address = stream.memory("x", sent.nbytes)
    stream.send(address, sent.ctypes.data, sent.nbytes)
    stream.fetch(back.ctypes.data, address, back.nbytes)
    stream.wait()
    stream.close()
    stream.close()
    np.testing.assert_array_equal(back, sent)


def test_a_plan_is_proved_on_the_gpu_it_was_built_on(trt: ModuleType, artifact: Make, tmp_path: Path) -> None:
    """Batching is proved on the plan itself, and its answer is the ONNX model's."""
    source = artifact()
    plan = build(source, trt=trt, workspace=tmp_path / "plan")
    assert plan.max_batch_size == source.max_batch_size
    assert plan.plan is not None
    assert plan.plan.compute_capability == compute_capability()
    assert plan.evidence is not None
    assert plan.evidence.batching is not None
    assert plan.evidence.batching.proved
    assert "ONNX model" not in plan.evidence.batching.reason
    assert any("agrees with the golden probe" in note for note in plan.evidence.notes)


def test_the_engine_is_inspected(trt: ModuleType, artifact: Make, tmp_path: Path) -> None:
    """Its layers, as the library describes them, are kept as provenance."""
    plan = build(artifact(), trt=trt, workspace=tmp_path / "plan")
    assert plan.evidence is not None
    assert "Layers" in json.loads(dict(plan.evidence.provenance)["engine"])


def test_the_engine_describes_itself_as_the_record_does(trt: ModuleType, artifact: Make, tmp_path: Path) -> None:
    """Names, types and fixed sizes; free axes have no name in an engine."""
    plan = build(artifact(), trt=trt, workspace=tmp_path / "plan")
    found = describe(plan.path, trt=trt)
    assert found.source == "tensorrt"
    assert [(port.name, port.dtype) for port in found.inputs] == [(spec.name, spec.dtype) for spec in plan.inputs]
    assert [port.shape for port in found.outputs] == [(None, 3)]


def test_a_plan_without_a_record_is_proved_by_running_it(trt: ModuleType, artifact: Make, tmp_path: Path) -> None:
    """SOURCE model.plan: tensors and bounds come from the engine and its profiles."""
    plan = build(artifact(), trt=trt, workspace=tmp_path / "plan")
    found = tune(plan.path, trt=trt, tune=False, workspace=tmp_path / "again")
    assert found.max_batch_size == 8
    assert [(spec.min_shape, spec.max_shape) for spec in found.inputs] == [((1, 4), (8, 64))]


def test_a_runner_answers_like_the_model(trt: ModuleType, artifact: Make, tmp_path: Path) -> None:
    """Several batch sizes and lengths, each within the profile."""
    plan = build(artifact(), trt=trt, workspace=tmp_path / "plan")
    table = (np.arange(60, dtype=np.float32).reshape(20, 3) - 30) / 11
    runner = PlanRunner(plan.path, trt)
    for rows, length in [(1, 4), (3, 17), (8, 64)]:
        ids = np.arange(rows * length, dtype=np.int64).reshape(rows, length) % 20
        np.testing.assert_allclose(runner.run({"ids": ids})["y"], table[ids].mean(axis=1), rtol=1e-4, atol=1e-5)
    runner.close()


def test_a_request_outside_the_profile_is_refused(trt: ModuleType, artifact: Make, tmp_path: Path) -> None:
    """In our words, before the library is asked."""
    plan = build(artifact(), trt=trt, workspace=tmp_path / "plan")
    runner = PlanRunner(plan.path, trt)
    with pytest.raises(SourceError, match="no optimisation profile of the plan holds ids"):
        runner.run({"ids": np.zeros((1, 65), np.int64)})
    runner.close()


def test_several_profiles_serve_their_part(trt: ModuleType, artifact: Make, tmp_path: Path) -> None:
    """Each length is answered by the profile that holds it."""
    options = BuildOptions(splits={"sequence": (16,)})
    plan = build(artifact(), trt=trt, options=options, workspace=tmp_path / "plan")
    runner = PlanRunner(plan.path, trt)
    for length in (4, 16, 17, 64):
        assert runner.run({"ids": np.zeros((2, length), np.int64)})["y"].shape == (2, 3)
    runner.close()


def test_a_damaged_plan_does_not_load(trt: ModuleType, artifact: Make, tmp_path: Path) -> None:
    """One line with the library's last error."""
    plan = build(artifact(), trt=trt, workspace=tmp_path / "plan")
    damaged = tmp_path / "damaged" / "model.plan"
    damaged.parent.mkdir()
    damaged.write_bytes(plan.path.read_bytes()[:-100])
    with pytest.raises(SourceError, match=r"does not load plan 'model\.plan'"):
        PlanRunner(damaged, trt)
