"""Repositories that were made to hang or break the checker: it ends soon, with a verdict."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from aitune.errors import UsageError
from aitune.records import ONNXArtifact
from aitune.triton.check.source import Source
from aitune.triton.check.textproto import parse

from .conftest import Repository
from .test_record import CONFIG, contract, write

SOON_S = 20.0
STEP = (
    "step {{ model_name: '{model}' model_version: -1 input_map {{ key: 'x' value: '{read}' }} "
    "output_map {{ key: 'y' value: '{written}' }} }}\n"
)


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    """What takes a fraction of a second here took minutes when work grew with the square of the input."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SOON_S


def rules(repository: Repository, **options: bool) -> list[str]:
    """What is said."""
    return [one.rule for one in repository.check(**options)]


@pytest.mark.parametrize("number", ["1" * 5000, "0x" + "f" * 5000, "01" + "0" * 5000, "-" + "9" * 5000])
def test_a_number_of_thousands_of_digits_is_out_of_range(repository: Repository, number: str) -> None:
    """R19: Python refuses to convert so many digits."""
    repository.model(CONFIG.replace("8", number, 1))
    [finding] = repository.check()
    assert finding.rule == "R19"
    assert len(finding.message) < 200


@pytest.mark.parametrize(("number", "rule"), [("9" * 5000, "R231"), ("0" * 5000 + "8", "")])
def test_a_number_in_a_text_has_thousands_of_digits(repository: Repository, number: str, rule: str) -> None:
    """Parameters are texts, and so are the names of profiles."""
    entry = f"parameters {{ key: 'intra_op_thread_count' value {{ string_value: '{number}' }} }}"
    repository.model(CONFIG + entry)
    assert rules(repository)[:1] == ([rule] if rule else [])
    group = f"instance_group {{ kind: KIND_GPU profile: '{number}' }}"
    repository.model(CONFIG.replace("onnxruntime", "tensorrt") + group, "t", {"1/model.plan": b"ftrt...."})
    repository.check(target="gpu")


@pytest.mark.parametrize("number", ["0x" + "0" * 5000 + "8", "0" * 5000 + "10"])
def test_leading_zeros_do_not_count(number: str) -> None:
    """A hexadecimal and an octal eight."""
    assert parse(f"max_batch_size: {number}").config.number("max_batch_size") == 8


def test_a_pipe_in_place_of_the_model_is_not_opened(repository: Repository) -> None:
    """R211: whoever opens it waits for ever, a server too."""
    repository.model(CONFIG, files={"1/x": ""})
    os.mkfifo(repository.root / "m/1/model.onnx")
    assert rules(repository) == ["R211"]


def test_a_pipe_in_place_of_the_record_is_not_opened(repository: Repository) -> None:
    """A2: it counts as lost."""
    repository.model(CONFIG + contract())
    os.mkfifo(repository.root / "m/1/aitune.json")
    assert rules(repository) == ["A2"]


@pytest.mark.parametrize("text", ['{"schema_version":' + "1" * 6000 + "}", "[" * 100_000])
def test_a_record_that_python_cannot_read_is_a_warning(repository: Repository, text: str) -> None:
    """A2: too many digits, or nested too deeply."""
    repository.model(CONFIG, files={"1/model.onnx": b"onnx", "1/aitune.json": text})
    assert rules(repository) == ["A2"]


def test_a_contract_that_is_nested_too_deeply_claims_nothing(repository: Repository) -> None:
    """A4 compares what can be read."""
    write(repository, ONNXArtifact, b"onnx", None)
    deep = f"parameters {{ key: 'aitune.record.1' value {{ string_value: '{'[' * 100_000}' }} }}"
    repository.file("m/config.pbtxt", CONFIG + deep)
    assert rules(repository) == []


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "1" * 6000, "\udcff"])
def test_a_list_that_cannot_be_read_is_a_warning(repository: Repository, text: str) -> None:
    """A6: the same of aitune-check.toml."""
    repository.model(CONFIG)
    repository.file("aitune-check.toml", text.encode("utf-8", "surrogateescape"))
    assert rules(repository) == ["A6"]


@pytest.mark.parametrize(
    "target", ["gpu:\N{SUPERSCRIPT TWO}", "gpu:1000000000", "gpu:0", "gpu:", "cpu:1", "gpu:-1", ""]
)
def test_a_target_that_is_none_is_refused(repository: Repository, target: str) -> None:
    """Digits of other scripts, and more GPUs than a host has, among them."""
    with pytest.raises(UsageError, match="target must be cpu, gpu or gpu:N"):
        repository.check(target=target)


@pytest.mark.parametrize("given", [{"select": ["R"]}, {"ignore": ["R1,R9999"]}, {"models": ["m", "n"]},
                                   {"models": ["["]}])  # fmt: skip
def test_names_of_nothing_do_not_pass_for_good(repository: Repository, given: dict[str, list[str]]) -> None:
    """A slip in a rule or a model would otherwise silence everything."""
    repository.model(CONFIG.replace("[ 4 ]", "[ 5 ]"))
    with pytest.raises(UsageError, match="is called"):
        repository.check(**given)


def test_a_list_with_a_rule_that_does_not_exist_is_told(repository: Repository) -> None:
    """A6: it silences nothing."""
    repository.model(CONFIG)
    repository.file("aitune-check.toml", '[[ignore]]\nmodel = "m"\nrule = "R999"\nreason = "slip"\n')
    assert rules(repository) == ["A6"]


def test_thousands_of_gpus_are_one_finding(repository: Repository) -> None:
    """R112: some of them are named."""
    repository.model(CONFIG + f"instance_group {{ kind: KIND_GPU gpus: {list(range(20_000))} }}")
    [finding] = [one for one in repository.check() if one.rule == "R112"]
    assert "0, 1, 2, 3, 4, 5, 6, 7 and 19992 more" in finding.message


def test_a_line_is_made_printable_once(repository: Repository) -> None:
    """Thousands of findings may stand in one long line."""
    source = Source("m", "a" * 100)
    assert source.line(1) is source.line(1)
    repository.model(CONFIG.replace("\n", " ") + "output { name: '' } " * 5000)
    assert set(rules(repository)) >= {"R82"}


def test_a_long_chain_of_ensembles_falls_at_once(repository: Repository) -> None:
    """R134: the last member is missing, and all three hundred know."""
    head = (
        'platform: "ensemble"\ninput { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }\n'
        'output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }\n'
    )
    for number in range(300):
        step = STEP.format(model=f"m{number + 1}", read="x", written="y")
        repository.model(f"{head}ensemble_scheduling {{ {step} }}", f"m{number}", {"1/x": ""})
    assert sorted(rules(repository)) == ["R132", *["R134"] * 299]


@pytest.mark.parametrize("backwards", [False, True])
def test_an_ensemble_of_a_thousand_steps_is_followed(repository: Repository, backwards: bool) -> None:
    """In any order of the steps."""
    repository.model(CONFIG)
    steps = [STEP.format(model="m", read=f"t{number}", written=f"t{number + 1}") for number in range(1000)]
    ends = CONFIG.partition("\n")[2].replace('"x"', '"t0"').replace('"y"', '"t1000"')
    scheduling = "ensemble_scheduling {" + "".join(reversed(steps) if backwards else steps) + "}"
    repository.model('platform: "ensemble"\n' + ends + scheduling, "e", {"1/x": ""})
    assert rules(repository) == []


@pytest.mark.parametrize("text", ["${", "{{", "{%", "$"])
def test_openings_of_placeholders_are_no_placeholders(repository: Repository, text: str) -> None:
    """R22: a hundred thousand of them that are never closed."""
    repository.model(CONFIG + f'parameters {{ key: "k" value {{ string_value: "{text * 100_000}" }} }}')
    assert rules(repository) == []


def test_thousands_of_inputs_are_read(repository: Repository) -> None:
    """Their labels are counted on, not anew for each."""
    text = "input { name: 'x' data_type: TYPE_FP32 dims: 4 }\n" * 5000
    assert [node.label for node in parse(text).config.messages("input")][-1] == "input[4999]"
    text = "input [ { name: 'a' }, { name: 'b' } ] output { } input { name: 'c' }"
    assert [node.path for node in parse(text).config.messages("input")] == ["input[0]", "input[1]", "input[2]"]
