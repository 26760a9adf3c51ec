"""What a config makes the server allocate: counted as the server counts it, and nothing said about usual sizes."""

from __future__ import annotations

import pytest

from .conftest import Repository

CONFIG = """backend: "python"
max_batch_size: %s
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }
"""
PY = {"1/model.py": "class TritonPythonModel:\n    pass\n"}
CPU = "instance_group { kind: KIND_CPU }\n"
STATE = "sequence_batching { state { dims: %s initial_state { name: 'i' dims: %s zero_data: true } } }"
WARM = "model_warmup { batch_size: 1 inputs { key: 'x' value { data_type: TYPE_FP32 dims: %s zero_data: true } } }"


def told(repository: Repository, size: int, text: str, **options: str) -> list[tuple[str, str, str]]:
    """Severity, field and message of what A7 says."""
    repository.model(CONFIG % size + text, files=PY)
    report = repository.check(**options)
    return [(one.severity, one.field, one.message) for one in report if one.rule == "A7"]


@pytest.mark.parametrize("text", ["", "dynamic_batching { }", "dynamic_batching { priority_levels: 4000000000 "
                                  "default_priority_level: 1 }"])  # fmt: skip
def test_a_huge_batch_without_sequences_costs_nothing(repository: Repository, text: str) -> None:
    """Observed: 2147483647 loads in no time, with the dynamic batcher too."""
    assert told(repository, 2147483647, text) == []


@pytest.mark.parametrize("text", ["sequence_batching { }", "sequence_batching { oldest { } }",
                                  "sequence_batching { oldest { max_candidate_sequences: 100000 } }"])  # fmt: skip
def test_usual_numbers_of_sequences_are_fine(repository: Repository, text: str) -> None:
    """With the oldest strategy the largest batch plays no part once the number of sequences is given."""
    assert told(repository, 2147483647 if "max_candidate" in text else 1024, text) == []


@pytest.mark.parametrize("text", ["", "max_candidate_sequences: 0", "max_candidate_sequences: -1"])
def test_the_largest_batch_stands_for_a_number_of_sequences_that_is_not_given(
    repository: Repository, text: str
) -> None:
    """Observed: the oldest strategy then has as many slots as the direct one."""
    [(severity, field, _)] = told(repository, 2147483647, f"sequence_batching {{ oldest {{ {text} }} }}")
    assert (severity, field) == ("error", "max_batch_size")


def test_the_message_tells_memory_and_time(repository: Repository) -> None:
    """The numbers are those that were measured: 768 bytes and 0.7 µs a slot."""
    [(severity, field, message)] = told(repository, 2147483647, "sequence_batching { direct { } }" + CPU)
    assert (severity, field) == ("error", "max_batch_size")
    assert "1.5 TiB of memory and 25 minutes" in message
    [(severity, field, message)] = told(
        repository, 8, "sequence_batching { oldest { max_candidate_sequences: 4000000 } }" + CPU
    )
    assert (severity, field) == ("warning", "sequence_batching.oldest.max_candidate_sequences")
    assert "2.7 GiB of memory and 3 seconds" in message


def test_every_instance_has_slots_of_its_own(repository: Repository) -> None:
    """Groups, their counts and their GPUs multiply; passive instances have slots too."""
    text = "sequence_batching { }"
    assert told(repository, 1_000_000, text + CPU) == []
    assert told(repository, 1_000_000, text + CPU + CPU.replace("kind", "passive: true kind"))
    assert told(repository, 1_000_000, text + CPU.replace("kind", "count: 2 kind"))
    assert told(repository, 1_000_000, text + "instance_group { kind: KIND_GPU }", target="gpu:2")
    assert told(repository, 1_000_000, text + "instance_group { kind: KIND_GPU gpus: [ 0 ] }", target="gpu:2") == []


def test_onnxruntime_has_two_cpu_instances_by_default(repository: Repository) -> None:
    """R182: a group without a count, and no group at all."""
    for group in ("", CPU):
        config = CONFIG.replace("python", "onnxruntime").replace("[ -1 ]", "[ 4 ]") % 1_000_000
        repository.model(config + "sequence_batching { }" + group)
        assert "A7" in {one.rule for one in repository.check()}


def test_an_initial_state_is_counted_in_64_bits(repository: Repository) -> None:
    """Observed: 2^62 numbers of four bytes are no bytes at all and load; half of that kills the server."""
    for dims, expected in (("[ 4611686018427387904 ]", []), ("[ 4294967296, 4294967296 ]", []), ("[ 2 ]", []),
                           ("[ 2305843009213693951 ]", ["error"])):  # fmt: skip
        assert [one for one, _, _ in told(repository, 8, STATE % (dims, dims))] == expected


@pytest.mark.parametrize(("count", "expected"), [("8", []), ("-1", []), ("1000", ["warning"]),
                                                 ("2147483647", ["error"])])  # fmt: skip
def test_threads_of_a_session_are_counted(repository: Repository, count: str, expected: list[str]) -> None:
    """ONNX Runtime makes as many as it is told to."""
    text = f"parameters {{ key: 'intra_op_thread_count' value {{ string_value: '{count}' }} }}"
    repository.model(CONFIG.replace("python", "onnxruntime").replace("[ -1 ]", "[ 4 ]") % 8 + text)
    assert [one.severity for one in repository.check() if one.rule == "A7"] == expected


def test_a_passive_group_warms_nothing_up(repository: Repository) -> None:
    """R118: its samples are neither made nor run."""
    text = WARM % "[ 1000000000000 ]"
    assert told(repository, 8, text)
    assert told(repository, 8, text + CPU.replace("kind", "passive: true kind")) == []


def test_sizes_that_no_float_holds_are_told(repository: Repository) -> None:
    """A product of many dims has thousands of digits."""
    many = f"[ {', '.join(['9223372036854775807'] * 50)} ]"
    assert "1 ZiB" in told(repository, 8, WARM % many)[0][2]


def test_a_plan_shares_one_thread_a_gpu(repository: Repository) -> None:
    """Many instances of a TensorRT model are dear, and no more."""
    config = CONFIG.replace("python", "tensorrt") % 8 + "instance_group { kind: KIND_GPU count: 5000000 }"
    repository.model(config, files={"1/model.plan": b"ftrt...."})
    assert ("A7", "warning") in {(one.rule, one.severity) for one in repository.check(target="gpu")}
