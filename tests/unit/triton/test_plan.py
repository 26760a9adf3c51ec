"""What a config decides, from the record and a few choices."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import handmade
import pytest
from handmade import rows, whole
from hypothesis import given
from strategies import tuned_specs

from aitune.errors import BatchingError, RecordError, RepositoryError, UsageError
from aitune.records import Artifact, DType, ONNXArtifact, TensorRTPlanArtifact, TunedTensorSpec
from aitune.records.artifact import Companion
from aitune.records.evidence import Trial
from aitune.triton.plan import PlanOptions, check_model_name, plan
from aitune.triton.plan_tensors import plan_tensor
from aitune.triton.rendering import message, render

X, Y = rows("x", DType.FLOAT32, 4), rows("y", DType.FLOAT32, 3)


def batched(**fields: object) -> ONNXArtifact:
    """An artifact that was proved to batch."""
    return handmade.record([X], [Y], proof=handmade.evidence([X], **fields))


def plan_file(*specs: TunedTensorSpec) -> TensorRTPlanArtifact:
    """A TensorRT plan with these tensors on both sides."""
    return TensorRTPlanArtifact(
        path=Path("m.plan"), fingerprint="ab" * 32, inputs=specs, outputs=specs, evidence=handmade.evidence(specs)
    )


@given(tuned_specs())
def test_dims_are_free_exactly_where_the_contract_is(spec: TunedTensorSpec) -> None:
    """A dim is -1 where the size is a symbol or unnamed, and the size itself elsewhere."""
    dims = plan_tensor(spec, batched=False).dims
    assert dims == (tuple(size if isinstance(size, int) else -1 for size in spec.shape) or (1,))


@pytest.mark.parametrize(
    ("spec", "is_batched", "dims", "reshape"),
    [
        (rows("x", DType.FLOAT32, 4), True, (4,), None),
        (rows("x", DType.FLOAT32, "n", 3), True, (-1, 3), None),
        (rows("x"), True, (1,), ()),  # rank 1: one value a row (R89, B10)
        (rows("x"), False, (-1,), None),
        (whole("x"), False, (1,), None),  # a scalar: no reshape without a batch (R85, B09)
        (whole("x", DType.FLOAT32, 2, "n"), False, (2, -1), None),
    ],
)
def test_dims_and_reshape(
    spec: TunedTensorSpec, is_batched: bool, dims: tuple[int, ...], reshape: tuple[int, ...] | None
) -> None:
    """The batch is left out of the dims, and what has no dims left says [1]."""
    found = plan_tensor(spec, batched=is_batched)
    assert (found.dims, found.reshape) == (dims, reshape)


def test_a_proved_batch_is_used() -> None:
    """The proof's sentence is the reason."""
    found = plan(batched(), model_name="m")
    assert found.max_batch_size == 8
    assert found.batching.reason == "Batching was proved: rows are independent at batch sizes 1, 3 and 8."
    assert found.warnings == ()


def test_a_refuted_batch_is_not_used() -> None:
    """Whatever the axes are called, the verdict decides, and its reason is kept."""
    found = plan(batched(batched=False, reason="output 'y' is coupled"), model_name="m")
    assert found.max_batch_size == 0
    assert found.batching.reason == "No batching: output 'y' is coupled."
    assert found.inputs[0].dims == (-1, 4)


def test_a_record_without_evidence_is_believed_with_one_warning() -> None:
    """It is rendered as it says, without warm-up."""
    found = plan(handmade.record([X], [Y]), model_name="m")
    assert found.max_batch_size == 8
    assert found.warnings == ("batching was not proved: the config follows the record, which has no evidence",)
    assert found.warmup.samples == ()


@pytest.mark.parametrize(
    ("inputs", "outputs", "reason"),
    [
        ([X], [whole("y", DType.FLOAT32, 3)], "tensor 'y' has no batch axis"),
        ([TunedTensorSpec("x", DType.FLOAT32, (4, "b"), (4, 1), (4, 8), 1)], [Y], "lie on axis 1"),
        ([TunedTensorSpec("x", DType.FLOAT32, (1, 4), (1, 4), (1, 4), 0)], [Y], "has 1 rows, always"),
        ([TunedTensorSpec("x", DType.FLOAT32, ("b", 4), (2, 4), (8, 4), 0)], [Y], "needs at least 2 rows"),
        ([], [Y], "the model has no inputs"),
    ],
)
def test_what_triton_cannot_batch_is_not_batched(
    inputs: list[TunedTensorSpec], outputs: list[TunedTensorSpec], reason: str
) -> None:
    """Triton batches axis 0 of every tensor, from one row on (R223, B03, B04, B11)."""
    found = plan(handmade.record(inputs, outputs), model_name="m")
    assert found.max_batch_size == 0
    assert reason in found.batching.reason


def test_the_smallest_maximum_is_the_batch() -> None:
    """No tensor is sent more rows than it was tuned for."""
    artifact = handmade.record([rows("x", most=8), rows("z", most=4)], [rows("y", most=8)])
    assert plan(artifact, model_name="m").max_batch_size == 4


@pytest.mark.parametrize(("asked", "expected"), [(4, 4), (0, 0), (8, 8)])
def test_less_may_be_asked_for(asked: int, expected: int) -> None:
    """A smaller batch, or none, is a choice."""
    found = plan(batched(), model_name="m", options=PlanOptions(max_batch_size=asked))
    assert found.max_batch_size == expected


def test_more_than_was_tuned_is_refused() -> None:
    """Nobody has tried it."""
    with pytest.raises(UsageError, match="a batch of 9 was asked for, the artifact was tuned up to 8"):
        plan(batched(), model_name="m", options=PlanOptions(max_batch_size=9))


def test_a_demanded_batch_that_is_not_there_is_a_verdict() -> None:
    """Exit code 1, with the reason of the proof."""
    with pytest.raises(BatchingError, match="a batch of 2 was asked for: no batching: output 'y' has no batch"):
        plan(batched(batched=False), model_name="m", options=PlanOptions(max_batch_size=2))


def test_the_batcher_is_left_out_where_it_cannot_pay() -> None:
    """With batches of one it only costs time (R60, B39)."""
    assert plan(batched(batched=False), model_name="m").batcher is None
    assert plan(batched(), model_name="m", options=PlanOptions(max_batch_size=1)).batcher is None


def test_the_batcher_says_what_it_cannot_merge_and_bounds_its_queue_on_request() -> None:
    """Free axes are named; a bound costs stalls of half a second on Triton 24.10, so it is a choice."""
    spec = rows("x", DType.FLOAT32, "length", 3)
    batcher = plan(handmade.record([spec], [Y], proof=handmade.evidence([spec])), model_name="m").batcher
    assert batcher is not None
    assert (batcher.preferred_batch_sizes, batcher.max_queue_delay_us, batcher.max_queue_size) == ((8,), 100, None)
    assert "'length'" in batcher.note
    bounded = plan(batched(), model_name="m", options=PlanOptions(max_queue_size=64))
    assert message(bounded).dynamic_batching.default_queue_policy.max_queue_size == 64
    assert "max_queue_size: 64" in render(bounded)
    assert "default_queue_policy" not in render(plan(batched(), model_name="m"))


def test_preferred_sizes_are_within_the_batch() -> None:
    """A larger one would be refused by the server (R59)."""
    options = PlanOptions(preferred_batch_sizes=(4, 16))
    with pytest.raises(UsageError, match="a preferred batch of 16 is larger than the largest batch, 8"):
        plan(batched(), model_name="m", options=options)


@pytest.mark.parametrize(("target", "kind"), [("auto", "KIND_AUTO"), ("cpu", "KIND_CPU"), ("gpu", "KIND_GPU")])
def test_the_target_pins_the_instances(target: str, kind: str) -> None:
    """One repository serves everywhere unless it is pinned."""
    found = plan(batched(), model_name="m", options=PlanOptions(target=target, instance_count=3))
    assert (found.kind, found.instance_count) == (kind, 3)


def test_a_plan_runs_on_a_gpu() -> None:
    """TensorRT takes nothing else (R250): auto means GPU, and cpu is refused."""
    assert plan(plan_file(X), model_name="m").kind == "KIND_GPU"
    with pytest.raises(UsageError, match="a TensorRT plan needs a GPU"):
        plan(plan_file(X), model_name="m", options=PlanOptions(target="cpu"))


@pytest.mark.parametrize(
    ("dtype", "release", "message"),
    [
        (DType.STRING, "24.10", "tensorrt backend does not take"),
        (DType.FLOAT64, "24.10", "tensorrt backend does not take"),
        (DType.INT64, "24.04", "from 24.05 on, not in 24.04"),
        (DType.BFLOAT16, "24.05", "from 24.06 on, not in 24.05"),
    ],
)
def test_a_plan_with_a_type_its_backend_does_not_take_is_refused(dtype: DType, release: str, message: str) -> None:
    """The table of §6.2, by release."""
    with pytest.raises(RecordError, match=message):
        plan(plan_file(rows("x", dtype, 4)), model_name="m", options=PlanOptions(triton=release))


def test_a_name_that_a_server_would_cut_is_refused() -> None:
    """Triton takes names as C strings: one with a NUL loads nowhere."""
    artifact = handmade.record([rows("a\0b", DType.FLOAT32, 4)], [Y])
    with pytest.raises(RecordError, match="NUL in its name"):
        plan(artifact, model_name="m")


def test_bfloat16_waits_for_its_release() -> None:
    """The ONNX Runtime backend takes it from 26.03 on (§5.2)."""
    artifact = handmade.record([rows("x", DType.BFLOAT16, 4)], [Y])
    with pytest.raises(RecordError, match=r"takes from 26\.03 on, not in 24\.10"):
        plan(artifact, model_name="m")
    assert plan(artifact, model_name="m", options=PlanOptions(triton="26.03")).release == "26.03"


def test_settings_are_the_tuned_ones_unless_chosen() -> None:
    """Tuned values go into parameters, a person's choice wins, and the graph level has a field of its own (R243)."""
    tuned = handmade.tuning(intra_op_thread_count="2", **{"optimization.graph.level": "2"})
    options = PlanOptions(settings=(("intra_op_thread_count", "4"), ("enable_mem_arena", "0")))
    found = plan(batched(tuning=tuned), model_name="m", options=options)
    assert found.settings == (("enable_mem_arena", "0"), ("intra_op_thread_count", "4"))
    assert found.graph_level == 2
    assert found.settings_reason.startswith("Measured for throughput: 1834/s")
    assert found.settings_reason.endswith("By request: intra_op_thread_count, enable_mem_arena.")


@pytest.mark.parametrize(
    "setting",
    [
        ("aitune.record.1", "x"),
        ("key", ""),
        ("", "x"),
        ("optimization.graph.level", "9"),
        ("intra_op_thread_count", "abc"),
        ("inter_op_thread_count", "1" * 12),
        ("execution_mode", "9"),
        ("enable_mem_arena", "maybe"),
        ("intra_op_threads_count", "4"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(setting: tuple[str, str]) -> None:
    """Empty and unreadable values end the load (§5.4, §10), the contract's key is taken, a typing error is ignored."""
    with pytest.raises(UsageError, match="setting"):
        plan(batched(), model_name="m", options=PlanOptions(settings=(setting,)))


@pytest.mark.parametrize(("wanted", "sizes"), [("none", []), ("small", [1]), ("full", [1, 8])])
def test_warm_up_is_zeros_of_the_typical_shape(wanted: str, sizes: list[int]) -> None:
    """One row, then the largest batch, never a -1 (R145)."""
    samples = plan(batched(), model_name="m", options=PlanOptions(warmup=wanted)).warmup.samples
    assert [sample.batch_size for sample in samples] == sizes
    assert {sample.dims for sample in samples} <= {((4,),)}


def test_warm_up_without_a_batch_still_runs_once() -> None:
    """A batch size of 0 would skip it (R144), and the dims are full."""
    scalar = whole("s", DType.INT64)
    artifact = handmade.record([X, scalar], [Y], proof=handmade.evidence([X, scalar], batched=False))
    (sample,) = plan(artifact, model_name="m").warmup.samples
    assert (sample.batch_size, sample.dims) == (1, ((1, 4), (1,)))


@pytest.mark.parametrize(
    ("domain", "reason"),
    [
        (handmade.domain(X, zeros_valid=False), "input 'x' was not seen to take zeros"),
        (dataclasses.replace(handmade.domain(X), name="other"), "nobody has tried values for input 'x'"),
        (dataclasses.replace(handmade.domain(X), typical_shape=(9, 4)), "outside its bounds"),
    ],
)
def test_a_warm_up_nobody_tried_is_left_out(domain: handmade.InputDomain, reason: str) -> None:
    """A warm-up that fails can end the server (§10, B47)."""
    found = plan(batched(inputs=(domain,)), model_name="m").warmup
    assert found.samples == ()
    assert reason in found.reason


def test_a_model_without_inputs_is_not_warmed_up() -> None:
    """There is nothing to send."""
    artifact = handmade.record([], [whole("y")], proof=handmade.evidence([]))
    assert "no inputs" in plan(artifact, model_name="m").warmup.reason


def test_a_lost_probe_is_a_warning() -> None:
    """A server alone then cannot prove what it serves, and a person should know."""
    probe = handmade.probe([X], [Y], count=5000)
    assert "golden probe does not fit" in plan(batched(probe=probe), model_name="m").warnings[0]


def test_random_answers_are_a_warning() -> None:
    """A person should hear that two equal requests get different answers; other reasons not to batch are no warning."""
    found = handmade.evidence([X], batched=False)
    assert found.batching is not None

    def warnings(check: str) -> tuple[str, ...]:
        trial = Trial(check=check, batch_sizes=(5,), tensor="y", passed=False, detail="they differ")
        batching = dataclasses.replace(found.batching, evidence=(trial,))
        proof = dataclasses.replace(found, batching=batching)
        return plan(handmade.record([X], [Y], proof=proof), model_name="m").warnings

    assert warnings("independence") == ()
    assert [text.partition(":")[0] for text in warnings("repeat")] == [
        "two equal requests get different answers in output 'y'"
    ]


def test_the_model_file_gives_way_to_a_companion() -> None:
    """A companion's name is fixed inside the model; the model's is not."""
    companions = (Companion(name="model.onnx", fingerprint="cd" * 32),)
    artifact = dataclasses.replace(batched(), path=Path("net.onnx"), companions=companions)
    assert plan(artifact, model_name="m").filename == "net.onnx"


def test_a_companion_may_not_be_called_like_our_files() -> None:
    """It would be overwritten."""
    artifact = dataclasses.replace(batched(), companions=(Companion(name="aitune.json", fingerprint="cd" * 32),))
    with pytest.raises(UsageError, match=r"companion 'aitune\.json' has the name"):
        plan(artifact, model_name="m")


def test_an_artifact_without_a_backend_is_refused() -> None:
    """Triton serves ONNX models and TensorRT plans here."""
    artifact = Artifact(path=Path("m"), fingerprint="ab" * 32, inputs=(X,), outputs=(Y,))
    with pytest.raises(UsageError, match="no backend for an artifact of format 'artifact'"):
        plan(artifact, model_name="m")


@pytest.mark.parametrize("name", ["m", "a.b-c_D9", "-dash", "0"])
def test_plain_names_are_taken(name: str) -> None:
    """Letters, digits, ``_``, ``-`` and ``.``."""
    check_model_name(name)


@pytest.mark.parametrize(
    "name", ["", ".hidden", "..", "a/b", "a b", "a;b", "é", "a\n", "aitune_history.jsonl", "x" * 201]
)
def test_names_that_trip_triton_are_refused(name: str) -> None:
    """R13, R30, B44: some would hang the server, some break URLs."""
    with pytest.raises(RepositoryError, match="a model cannot be called"):
        check_model_name(name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("target", "tpu"),
        ("warmup", "some"),
        ("triton", "19.01"),
        ("instance_count", 0),
        ("instance_count", True),
        ("max_batch_size", -1),
        ("max_queue_delay_us", -1),
        ("max_queue_size", 0),
        ("preferred_batch_sizes", (0,)),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(field: str, value: object) -> None:
    """B34: core takes counts of 0 or less as a default; we do not."""
    with pytest.raises(UsageError, match=r"must be|no Triton release"):
        PlanOptions(**{field: value})
