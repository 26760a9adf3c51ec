"""What a server holds, against a Triton in memory: config, record, metadata and fingerprint."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aitune.records import DType, TunedTensorSpec
from aitune.triton.checks_live import CHECKS
from aitune.triton.client_errors import EndpointRestricted, InferenceRefused


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_is_content_with_what_is_right(name, stage, tmp_path) -> None:
    """No check complains about a model that is served as it was recorded."""
    stage.keep_samples(tmp_path)
    result = CHECKS[name](stage.context())
    assert (result.name, result.status) == (name, "pass"), result


def test_a_model_that_is_not_ready_fails(stage) -> None:
    """Each protocol is asked."""
    stage.fake.ready_answer = False
    assert "not ready over grpc, http" in CHECKS["ready"](stage.context()).detail


def test_a_changed_config_is_shown_field_by_field(stage) -> None:
    """The line gives both values."""
    stage.fake.config.dynamic_batching.max_queue_delay_microseconds = 12345
    result = CHECKS["config"](stage.context())
    assert result.status == "fail"
    assert "served '12345'" in result.detail


def test_a_hand_edited_config_is_a_warning(stage) -> None:
    """What is served is what lies there, but it is not what was published."""
    stage.published = replace(stage.published, edits=("max_batch_size: 4, expected 8",))
    result = CHECKS["config"](stage.context())
    assert result.status == "warn"
    assert "edited after publication: max_batch_size: 4" in result.detail


def test_without_a_repository_the_config_is_compared_with_nothing(stage) -> None:
    """A skip says why."""
    stage.published = None
    assert CHECKS["config"](stage.context()).status == "skip"


def test_a_restricted_endpoint_is_a_skip_with_its_reason(stage) -> None:
    """The operator closed it, so nobody can tell."""

    def closed(metadata):
        raise EndpointRestricted("the metadata is restricted")

    stage.fake.metadata_change = closed
    result = CHECKS["metadata"](stage.context())
    assert result.status == "skip"
    assert "is restricted" in result.detail


def test_a_record_that_got_lost_fails(stage) -> None:
    """The parameters were cleaned."""
    stage.fake.config.parameters.clear()
    assert CHECKS["record"](stage.context()).status == "fail"


def test_a_record_of_other_weights_is_named(stage) -> None:
    """Fingerprints are shown short."""
    stage.published = replace(stage.published, artifact=replace(stage.artifact, fingerprint="b" * 64))
    result = CHECKS["record"](stage.context())
    assert result.status == "fail"
    assert "bbbbbbbbbbbb published, aaaaaaaaaaaa served" in result.detail


def test_a_record_with_other_bounds_is_told_by_its_field(stage) -> None:
    """The line names tensor and field."""
    wider = TunedTensorSpec("x", DType.FLOAT32, ("batch", 4), (1, 4), (16, 4), 0)
    stage.published = replace(stage.published, artifact=replace(stage.artifact, inputs=(wider,)))
    assert "input 'x': max_shape (16, 4) published, (8, 4) served" in CHECKS["record"](stage.context()).detail


def test_a_record_with_another_verdict_is_told(stage, retold) -> None:
    """Even where tensors and fingerprint agree."""
    stage.published = replace(stage.published, artifact=retold(stage.artifact, probe=None))
    assert "batching verdict or probe differ" in CHECKS["record"](stage.context()).detail


def test_a_record_can_be_read_from_the_server_alone(stage) -> None:
    """No repository is needed."""
    stage.published = None
    result = CHECKS["record"](stage.context())
    assert (result.status, result.detail) == ("pass", "read from the server: aaaaaaaaaaaa")


def test_a_record_that_is_gone_from_the_repository_is_a_warning(stage) -> None:
    """The server still has its contract, but the proof of the repository is lost."""
    stage.published = replace(stage.published, artifact=None, record_trouble="1/aitune.json is not there")
    result = CHECKS["record"](stage.context())
    assert result.status == "warn"
    assert "1/aitune.json is not there" in result.detail


def metadata_mutants():
    """Ways for metadata to differ, with what must be said."""

    def first(rows, **fields):
        return (replace(rows[0], **fields), *rows[1:])

    return {
        "another type": (
            lambda m: replace(m, outputs=first(m.outputs, datatype="FP64")),
            "dtype float32 published, float64",
        ),
        "a size off by one": (lambda m: replace(m, outputs=first(m.outputs, shape=(-1, 4))), "sizes"),
        "no batch axis": (lambda m: replace(m, inputs=first(m.inputs, shape=(4,))), "sizes"),
        "an unknown type": (lambda m: replace(m, inputs=first(m.inputs, datatype="INT4")), "no element type"),
        "another name": (
            lambda m: replace(m, inputs=first(m.inputs, name="z")),
            "'z' is served, but not in the contract",
        ),
        "a missing output": (lambda m: replace(m, outputs=()), "is in the contract, but not served"),
        "another version": (lambda m: replace(m, versions=("7",)), "version 1 is not among the served 7"),
    }


@pytest.mark.parametrize("name", metadata_mutants())
def test_metadata_that_differs_fails(name, stage) -> None:
    """Every field of every tensor counts."""
    change, words = metadata_mutants()[name]
    stage.fake.metadata_change = change
    result = CHECKS["metadata"](stage.context())
    assert result.status == "fail"
    assert words in result.detail


@pytest.mark.parametrize(("size", "status"), [(16, "fail"), (4, "warn"), (0, "warn")])
def test_another_batch_size_is_told(size: int, status: str, stage) -> None:
    """A larger batch than the proved one is wrong, a smaller one only slow."""
    config = stage.fake.config
    if size == 0:
        config.ClearField("dynamic_batching")
        for tensor in (*config.input, *config.output):
            tensor.dims.insert(0, -1)
    config.max_batch_size = size
    result = CHECKS["metadata"](stage.context())
    assert result.status == status
    assert f"max_batch_size {size} is served, 8 was tuned" in result.detail


def test_other_weights_are_found_out(stage) -> None:
    """The config claims one thing, the answers prove another."""
    stage.fake.model = lambda inputs: {"y": inputs["x"] @ np.ones((4, 3), np.float32)}
    context = stage.context()
    result = CHECKS["fingerprint"](context)
    assert result.status == "fail"
    assert "claimed aaaaaaaaaaaa, but other weights answer" in result.detail
    assert context.proved == ""


def test_a_stale_version_is_named(stage, tmp_path) -> None:
    """An older record matches the answers."""

    def old(inputs):
        return {"y": inputs["x"] @ np.ones((4, 3), np.float32)}

    from aitune.numerics import make_probe

    probe = make_probe(old, stage.artifact.inputs, stage.artifact.outputs, stage.artifact.evidence.inputs)
    sibling = replace(stage.artifact, fingerprint="c" * 64, evidence=replace(stage.artifact.evidence, probe=probe))
    stage.published = replace(stage.published, siblings={"0": sibling, "1": stage.artifact})
    stage.fake.model = old
    context = stage.context()
    assert "but version 0 (cccccccccccc) answers" in CHECKS["fingerprint"](context).detail
    assert context.proved == "c" * 64


def test_a_probe_that_is_refused_proves_nothing(stage) -> None:
    """The refusal is part of the answer."""
    stage.fake.change = lambda answer, inputs: (_ for _ in ()).throw(InferenceRefused("no"))
    assert "the probe was refused: no" in CHECKS["fingerprint"](stage.context()).detail


def test_a_probe_answered_in_another_type_proves_nothing(stage) -> None:
    """Types are compared before numbers."""
    stage.fake.change = lambda answer, inputs: {"y": answer["y"].astype(np.float64)}
    assert "is float64, recorded float32" in CHECKS["fingerprint"](stage.context()).detail


def test_without_a_probe_nothing_is_proved(stage, retold) -> None:
    """A skip, with what is claimed."""
    stage.published = replace(stage.published, artifact=retold(stage.artifact, probe=None))
    stage.fake.config.parameters.clear()
    result = CHECKS["fingerprint"](stage.context())
    assert (result.status, "no golden probe" in result.detail) == ("skip", True)
