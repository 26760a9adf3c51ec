"""The reader of config texts: Triton's verdict, and positions."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aitune.triton.check.source import Source, decode, printable
from aitune.triton.check.textproto import parse
from aitune.triton.releases import release
from aitune.triton.schema import model_config


def verdict(text: str) -> bool:
    """What protobuf says."""
    try:
        text_format.Parse(text, model_config().ModelConfig())
    except (text_format.ParseError, UnicodeError, ValueError):
        return False
    return True


@pytest.mark.parametrize(
    ("rule", "text", "at", "fix"),
    [
        ("R14", "max_batchsize: 8", "max_batchsize", "max_batch_size"),
        ("R14", "nonsense_field { a: [ 1, { b: 'c' } ] } name: 'm'", "nonsense_field", ""),
        ("R14", "nonsense_field: 'a' 'b' name: 'm'", "nonsense_field", ""),
        ("R14", "nonsense_field: -3 name: 'm'", "nonsense_field", ""),
        ("R15", 'name: "a" name: "b"', "name", ""),
        ("R15", "optimization { } optimization { }", "optimization", ""),
        ("R16", "dynamic_batching { } sequence_batching { }", "sequence_batching", "keep one of them"),
        ("R16", "model_warmup { inputs { key: 'a' value { zero_data: false random_data: true } } }", "random_data",
         "keep one of them"),
        ("R17", "input { data_type: fp32 }", "fp32", "TYPE_FP32"),
        ("R17", 'input { data_type: "TYPE_FP32" }', '"TYPE_FP32"', "TYPE_FP32"),
        ("R17", "instance_group { kind: 3000000000 }", None, ""),
        ("R19", "max_batch_size: 8.0", "8.0", "8"),
        ("R19", 'max_batch_size: "8"', '"8"', "8"),
        ("R19", "max_batch_size: 2147483648", "2147483648", ""),
        ("R19", "version_policy { latest { num_versions: -1 } }", "-1", ""),
        ("R19", "max_batch_size: ${N}", "${N}", ""),
        ("R19", "max_batch_size: {{ n }}", "{{ n }}", ""),
        ("R19", "max_batch_size: MAX", "MAX", ""),
        ("R19", "sequence_batching { direct { minimum_slot_utilization: 0x1 } }", "0x1", ""),
        ("R20", "response_cache { enable: TRUE }", "TRUE", "true"),
        ("R20", "response_cache { enable: 2 }", "2", ""),
        ("R21", "input { dims: [ 3 4 ] }", "4", ","),
        ("R21", "input { dims: [ 3, 4, ] }", ",", "remove the comma"),
        ("R22", "name: m", "m", '"m"'),
        ("R22", "name: \u201cm\u201d", "\u201cm\u201d", '"m"'),
        ("R22", 'name: "m', '"m', '"m"'),
        ("R22", 'name: "m\nplatform: "x"\n', '"m', '"m"'),
        ("R22", "name: 'a\\q'", "'a\\q'", "write a backslash as \\\\"),
        ("R23", "\ufeffname: 'm'", "\ufeff", "save the file as UTF-8 without a byte order mark"),
        ("R23", "name: 'm'\x00", "\x00", "remove it"),
        ("R23", "// hello\nname: 'm'", "//", "#"),
        ("R23", '{ "name": "m" }', "{", ""),
        ("R23", "4: 8", "4", ""),
        ("R23", "max_batch_size 8", "max_batch_size", "max_batch_size:"),
        ("R23", "max_batch_size = 8", "=", ":"),
        ("R23", "input { name: 'x'", "{", "add a }"),
        ("R23", "input { dims: [ 1", "[", "]"),
        ("R23", "name: 'm' }", "}", ""),
        ("R23", "input: 'x'", "'x'", ""),
        ("R23", "name:", "", ""),
        ("R23", "parameters: 'x'", "'x'", ""),
        ("R24", "parameters { key: 'a' value: '1' }", "'1'", "value: { string_value: '1' }"),
    ],
)  # fmt: skip
def test_a_fault_is_found_where_it_stands(rule: str, text: str, at: str | None, fix: str) -> None:
    """Rule, place and correction of every kind of fault."""
    problems = parse(text).problems
    assert problems, text
    first = problems[0]
    if at is not None:
        assert (first.rule, text[first.span[0] : first.span[1]], first.fix) == (rule, at, fix)
    assert text in STRICTER or not verdict(text)


STRICTER = ("name: 'a\\q'",)
"""What protobuf for C++, inside the server, refuses and protobuf for Python lets pass."""


def test_all_faults_of_a_text_are_found_in_one_run() -> None:
    """A fault whose meaning is clear does not hide the next."""
    text = 'nme: "m"\nmax_batch_size 8\ninput { name: x data_type: FP32 dims: [ 1 2 3, ] }\n'
    assert [problem.rule for problem in parse(text).problems] == ["R14", "R23", "R22", "R17", "R21", "R21", "R21"]


def test_edits_turn_a_bad_text_into_a_good_one() -> None:
    """Carried out together, the corrections leave nothing to refuse."""
    text = "max_batchsize 8,\ninput { name: x data_type: FP32 dims: [ 1 2, ] }\n// end\nresponse_cache { enable: yes }"
    edits = sorted(edit for problem in parse(text).problems for edit in problem.edits)
    for edit in reversed(edits):
        text = text[: edit.start] + edit.text + text[edit.end :]
    assert verdict(text), text
    assert not parse(text).problems


def test_fields_newer_than_the_release_are_refused() -> None:
    """R14 and R17 depend on the target."""
    text = "model_metrics { } input { data_type: TYPE_BF16 }"
    assert [p.rule for p in parse(text, release("22.04")).problems] == ["R14", "R17"]
    assert [p.rule for p in parse(text, release("24.10")).problems] == ["R14"]
    assert not parse(text, release("24.11")).problems
    wide = f"dynamic_batching {{ priority_levels: {2**40} }}"
    assert parse(wide, release("23.06")).problems
    assert not parse(wide, release("23.07")).problems


def test_values_are_read() -> None:
    """Numbers in three notations, truth values, escapes, joined texts, maps, defaults."""
    config = parse(
        "max_batch_size: 0x10 input { dims: [ 010, -1 ] dims: 3 optional: t } name: 'a' \"b\\x63\\u00e9\\n\""
        "parameters { key: 'k' value < string_value: 'v' > } instance_group { kind: 1 }"
        "sequence_batching { direct { minimum_slot_utilization: -1.5e-1f } }"
    ).config
    tensor, group = config.messages("input")[0], config.messages("instance_group")[0]
    direct = config.messages("sequence_batching")[0].messages("direct")[0]
    assert (config.number("max_batch_size"), config.text("name"), tensor.numbers("dims")) == (
        16,
        "abc\u00e9\n",
        (8, -1, 3),
    )
    assert (tensor.flag("optional"), group.choice("kind"), tensor.choice("data_type")) == (
        True,
        "KIND_GPU",
        "TYPE_INVALID",
    )
    assert direct.real("minimum_slot_utilization") == -0.15
    assert config.map("parameters")["k"].messages("value")[0].text("string_value") == "v"
    assert config.map("parameters")["k"].path == 'parameters["k"]'
    assert tensor.path == "input[0]"


def test_bytes_that_are_not_utf8_survive() -> None:
    """Triton accepts Latin-1 in comments and texts; nothing of the file is lost."""
    data = b"# caf\xe9\nname: 'm\xe9'  # x\r\n"
    source = Source("c", decode(data))
    assert not parse(source.text).problems
    assert source.to_bytes == data
    assert source.line(1) == "# caf\N{REPLACEMENT CHARACTER}"
    assert source.position(8) == (2, 2)
    assert printable("a\tb\x07") == "a b\N{REPLACEMENT CHARACTER}"


def test_binary_and_utf16_are_told() -> None:
    """R23, with what to do."""
    for data in ('name: "m"'.encode("utf-16"), b"\x00\x01\x02", b"\x7fELF\x02\x01"):
        assert parse(decode(data)).problems[0].rule == "R23"


WORDS = st.sampled_from(
    ["name", "input", "dims", "data_type", "max_batch_size", "optional", "reshape", "shape", "parameters", "key",
     "value", "string_value", "dynamic_batching", "sequence_batching", "{", "}", "<", ">", "[", "]", ":", ",", ";",
     "8", "-1", "0x8", "010", "09", "8.0", "1e5", ".5", "-", "true", "TRUE", "t", "TYPE_FP32", "FP32", '"a"', "'b'",
     '"', "# c\n", "\n", "99999999999", "inf", "kind", "instance_group", "KIND_CPU", "all", "version_policy"]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(WORDS, max_size=24))
@example(["dims", ":", "[", "]"])
@example(["max_batch_size", ":", "0", "max_batch_size", ":", "4"])
def test_the_verdict_is_protobuf_s(words: list[str]) -> None:
    """On any sequence of words the reader accepts exactly what protobuf accepts."""
    text = " ".join(words)
    assert (not parse(text).problems) == verdict(text), text


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    """Any file gives a verdict, and positions inside the text."""
    text = decode(data)
    for problem in parse(text).problems:
        assert 0 <= problem.span[0] <= problem.span[1] <= len(text) + 1
        Source("c", text).position(problem.span[0])
