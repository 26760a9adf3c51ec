"""Configs in other formats, their differences, and what a server makes of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format, text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from aitune.errors import RepositoryError, UsageError
from aitune.triton.check.convert import convert, diff_configs, format_differences, show
from aitune.triton.check.dump import to_json, to_pbtxt, to_yaml
from aitune.triton.check.grammar import ENUMS, INTEGERS, MESSAGES, MessageType
from aitune.triton.check.plain import from_json
from aitune.triton.check.textproto import parse
from aitune.triton.check.tree import Node
from aitune.triton.check.yaml_text import from_yaml
from aitune.triton.releases import RELEASES
from aitune.triton.schema import model_config

from .conftest import Repository

COMMENTED = """# head
name: "m"  # the name
max_batch_size: 0x8
# inputs
input [
  # first
  {
    name: 'x' # rows
    data_type: TYPE_FP32, dims: [ -1, 4 ]
    # end of x
  },
  { name: "z" data_type: TYPE_INT64 dims: 1 dims: 2 reshape { } }
]
parameters { key: "a" value { string_value: "q\\"\\n#1" } } # par
metric_tags { key: "t" value: "v" }
dynamic_batching { priority_queue_policy { key: 2 value { timeout_action: DELAY } } } # dyn
# foot
"""
CANONICAL = """# head
name: "m"  # the name
max_batch_size: 8
# inputs
# first
input {
  name: "x"  # rows
  data_type: TYPE_FP32
  dims: [ -1, 4 ]
  # end of x
}
input {
  name: "z"
  data_type: TYPE_INT64
  dims: [ 1, 2 ]
  reshape { }
}
parameters {  # par
  key: "a"
  value {
    string_value: "q\\"\\n#1"
  }
}
metric_tags {
  key: "t"
  value: "v"
}
dynamic_batching {  # dyn
  priority_queue_policy {
    key: 2
    value {
      timeout_action: DELAY
    }
  }
}
# foot
"""
YAML = """# head
name: "m"  # the name
max_batch_size: 8
# inputs
# first
input:
  - name: "x"  # rows
    data_type: TYPE_FP32
    dims: [-1, 4]
    # end of x
  - name: "z"
    data_type: TYPE_INT64
    dims: [1, 2]
    reshape: {}
parameters:
  "a":  # par
    string_value: "q\\"\\n#1"
metric_tags:
  "t": "v"
dynamic_batching:  # dyn
  priority_queue_policy:
    "2":
      timeout_action: DELAY
# foot
"""


def write(folder: Path, name: str, text: str) -> Path:
    """A file."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_config_becomes_canonical_text(tmp_path: Path) -> None:
    """Comments go with their fields; doing it again changes nothing."""
    assert convert(write(tmp_path, "c.pbtxt", COMMENTED), "pbtxt") == CANONICAL
    assert convert(write(tmp_path, "d.pbtxt", CANONICAL), "pbtxt") == CANONICAL


def test_a_config_becomes_yaml_and_comes_back(tmp_path: Path) -> None:
    """With its comments, both ways."""
    assert convert(write(tmp_path, "c.pbtxt", COMMENTED), "yaml") == YAML
    assert convert(write(tmp_path, "c.yaml", YAML), "yaml") == YAML
    assert convert(write(tmp_path, "c.yml", YAML), "pbtxt") == CANONICAL


def test_a_config_becomes_json_and_comes_back(tmp_path: Path) -> None:
    """JSON has no comments; its values are those of Triton's endpoints."""
    text = convert(write(tmp_path, "c.pbtxt", COMMENTED), "json")
    assert json.loads(text)["parameters"] == {"a": {"string_value": 'q"\n#1'}}
    back = convert(write(tmp_path, "c.json", text), "pbtxt")
    assert parse(back).config.messages("input")[1].numbers("dims") == (1, 2)
    assert "#" not in back.replace("#1", "")


def test_json_of_the_server_is_understood() -> None:
    """Numbers as texts, either spelling of names, enums in any case or by number."""
    tensor = '{"name": "x", "data_type": "type_fp32", "dims": ["4"]}'
    config = from_json(f'{{"maxBatchSize": "8", "input": [{tensor}], "optimization": {{"priority": 1}}}}', "c")
    assert (config.number("max_batch_size"), config.messages("input")[0].choice("data_type")) == (8, "TYPE_FP32")
    assert config.messages("optimization")[0].choice("priority") == "PRIORITY_MAX"


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not JSON"), ('{"max_batch_size": ' + "1" * 6000 + "}", "is not JSON"),
     ("[" * 100_000, "is not JSON"), ("[]", "must be an object"), ('{"x": 1}', "unknown field 'x'"),
     ('{"input": {}}', "must be a list"), ('{"parameters": []}', "must be an object"),
     ('{"max_batch_size": 1.5}', "whole number"), ('{"max_batch_size": true}', "whole number"),
     ('{"name": 1}', "of type string"), ('{"input": [{"data_type": "FP32"}]}', "one of TYPE_INVALID"),
     ('{"response_cache": {"enable": "yes"}}', "of type bool"),
     ('{"sequence_batching": {"direct": {"minimum_slot_utilization": "x"}}}', "of type float")],
)  # fmt: skip
def test_json_that_is_no_config_is_refused(text: str, message: str) -> None:
    """The message says where and what."""
    with pytest.raises(RepositoryError, match=message):
        from_json(text, "c")


def test_a_whole_number_that_no_float_holds_is_infinite() -> None:
    """The text format reads it so."""
    config = from_json(f'{{"sequence_batching": {{"direct": {{"minimum_slot_utilization": {"1" * 400}}}}}}}', "c")
    assert "minimum_slot_utilization: inf" in to_pbtxt(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [("name", ":1: expected 'field: value'"), ("x: 1", "has no field 'x'"), ("input: 3", "must be a list"),
     ("name: a\nname: b", ":2: 'name' is given twice"), ("optimization: 3", "must be written on the lines below"),
     ("\tname: a", "not tabs"), ("input:\n  - name: a\n     dims: [1]", ":3: "), ("parameters: 3", "must be a mapping"),
     ("parameters:\n  - a", "expected 'key: value'"), ("max_batch_size: x", "whole number"),
     ("max_batch_size:", "missing"), ("instance_group:\n  - gpus: [1", "must end on its line"),
     ("instance_group:\n  - gpus: [1, &a]", "cannot read"), ('name: "a', "cannot read the text"),
     ("max_batch_size: " + "1" * 6000, ":1: the number is out of range"),
     ("name: &a b", "cannot read '&a b'"), ("    name: a\n  backend: b", "fits nothing")],
)  # fmt: skip
def test_yaml_that_is_no_config_is_refused(text: str, message: str) -> None:
    """The message has the line."""
    with pytest.raises(RepositoryError, match=message):
        from_yaml(text, "c")


def test_yaml_as_people_write_it_is_understood() -> None:
    """Plain scalars, lists below, elements on lines of their own, quotes of both kinds."""
    text = """---
name: it's
backend: 'o''k'   # c
instance_group:
- count: 0x2
  gpus:
  - 1
  - 2
-
  kind: KIND_CPU
- {}
response_cache:
  enable: True
sequence_batching: {}
metric_tags: {}
parameters:
  a.b: {}
  'c d':
    string_value: x#y
"""
    config = from_yaml(text, "c")
    groups = config.messages("instance_group")
    assert (config.text("name"), config.text("backend")) == ("it's", "o'k")
    assert [(group.number("count"), group.numbers("gpus"), group.choice("kind")) for group in groups] == [
        (2, (1, 2), "KIND_AUTO"), (0, (), "KIND_CPU"), (0, (), "KIND_AUTO"),
    ]  # fmt: skip
    assert sorted(config.map("parameters")) == ["a.b", "c d"]
    assert config.map("parameters")["c d"].messages("value")[0].text("string_value") == "x#y"


def test_an_empty_config_is_empty_in_every_format(tmp_path: Path) -> None:
    """Comments alone stay comments."""
    path = write(tmp_path, "c.pbtxt", "# nothing\n")
    assert [convert(path, one) for one in ("pbtxt", "yaml", "json")] == ["# nothing\n", "# nothing\n", "{}\n"]
    assert from_yaml("", "c").fields == {}
    assert from_yaml("{}\n", "c").fields == {}


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    """Missing file, unreadable text, unknown format."""
    with pytest.raises(RepositoryError, match=r"no\.pbtxt cannot be read: no such file"):
        convert(tmp_path / "no.pbtxt", "json")
    with pytest.raises(RepositoryError, match=r"c\.pbtxt:2:3: ") as caught:
        convert(write(tmp_path, "c.pbtxt", "\n  nonsense: 1"), "json")
    assert caught.value.hint == "check --explain R14"
    with pytest.raises(UsageError, match="'toml'"):
        convert(tmp_path / "c.pbtxt", "toml")


def test_differences_ignore_order_and_layout(tmp_path: Path) -> None:
    """Tensors are known by name; a value that equals the default is no difference."""
    left = write(
        tmp_path, "a.pbtxt", "max_batch_size: 8 input { name: 'a' dims: 4 } input { name: 'b' optional: true }"
    )
    right = write(
        tmp_path, "b.json", '{"input": [{"name": "b"}, {"name": "a", "dims": [4, 1]}], "name": "", "optimization": {}}'
    )
    assert format_differences(diff_configs(left, right)).splitlines() == [
        "- max_batch_size: 8",
        "- input[a].dims: [4]",
        "+ input[a].dims: [4, 1]",
        "- input[b].optional: true",
        "+ optimization: {}",
    ]
    assert diff_configs(left, left) == ()
    assert diff_configs(left, right)[0].to_json() == {"path": "max_batch_size", "left": 8, "right": None}


def test_a_model_is_shown_as_the_server_holds_it(repository: Repository) -> None:
    """What was written with its comments, and a mark beside the rest."""
    repository.model('backend: "onnxruntime"  # mine\n')
    text = show(repository.root / "m", read_interface=repository.read)
    assert 'backend: "onnxruntime"  # mine\n' in text
    assert "max_batch_size: 4  # filled in by the server\n" in text
    assert 'input {  # filled in by the server\n  name: "x"\n' in text
    repository.model("}", "bad")
    with pytest.raises(RepositoryError, match="cannot be read"):
        show(repository.root / "bad")


def values(kind: str) -> st.SearchStrategy[Any]:
    """Values of a scalar type."""
    if kind in INTEGERS:
        return st.integers(*INTEGERS[kind])
    if kind in ENUMS:
        return st.sampled_from(sorted(ENUMS[kind]))
    if kind == "bool":
        return st.booleans()
    if kind in ("float", "double"):
        return st.floats(width=32)
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6)


@st.composite
def messages(draw: st.DrawFn, kind: MessageType = MESSAGES["ModelConfig"], depth: int = 0) -> Node:
    """Any message."""
    node = Node(kind)
    names = draw(st.lists(st.sampled_from(sorted(kind.fields)), unique=True, max_size=4)) if kind.fields else []
    groups: set[str] = set()
    for name in names:
        described = kind.fields[name]
        if described.oneof in groups or described.is_map or (described.is_message and depth > 3):
            continue
        groups |= {described.oneof} - {""}
        one = messages(MESSAGES[described.type], depth + 1) if described.is_message else values(described.type)
        node.set(name, draw(st.lists(one, min_size=1, max_size=3)) if described.repeated else draw(one))
    return node


@settings(max_examples=150, deadline=None)
@given(messages())
def test_every_config_survives_every_format(config: Node) -> None:
    """Text, JSON and YAML hold the same message as protobuf sees it."""
    module = model_config()
    text = to_pbtxt(config)
    message = text_format.Parse(text, module.ModelConfig())
    assert not parse(text, RELEASES[-1]).problems
    for other in (from_json(to_json(config), "c"), from_yaml(to_yaml(config), "c"), parse(text, RELEASES[-1]).config):
        assert str(text_format.Parse(to_pbtxt(other), module.ModelConfig())) == str(message)
    assert json_format.ParseDict(json.loads(to_json(config)), module.ModelConfig()).ByteSize() == message.ByteSize()
