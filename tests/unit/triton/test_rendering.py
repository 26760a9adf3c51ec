"""A plan as text and as a message."""

from __future__ import annotations

import dataclasses
from typing import Any

import handmade
import jinja2
import pytest
from handmade import rows, whole
from hypothesis import given
from strategies import artifacts

from aitune.errors import AituneError
from aitune.records import Artifact, DType
from aitune.triton.contract import contract_of, contracts_in
from aitune.triton.plan import Plan, PlanOptions, plan
from aitune.triton.rendering import check_text, message, overlay, render
from aitune.triton.schema import parse_config
from aitune.triton.templates import render_template, template_folder

X, Y = rows("x", DType.FLOAT32, 4), rows("y")


def made(**options: Any) -> Plan:
    """The plan of a small batched model."""
    artifact = handmade.record([X], [Y], proof=handmade.evidence([X], tuning=handmade.tuning(execution_mode="0")))
    return plan(artifact, model_name="m", options=PlanOptions(**options))


@given(artifacts())
def test_text_and_message_agree_for_every_record(artifact: Artifact) -> None:
    """Whatever a record says, the text parses to the message, and the contract in it to the contract."""
    try:
        found = plan(artifact, model_name="m", version=7, options=PlanOptions(triton="26.03"))
    except AituneError:  # e.g. a TensorRT plan with strings
        return
    config: Any = parse_config(render(found))
    assert config == message(found)
    assert contracts_in(config) == {7: contract_of(artifact)}


def test_a_text_that_says_something_else_is_a_bug() -> None:
    """The checker does fail, and names the field."""
    found = made()
    text = render(found).replace("max_batch_size: 8", "max_batch_size: 4")
    with pytest.raises(RuntimeError, match="max_batch_size: 4, expected 8"):
        check_text(text, message(found))


def test_everything_is_written_out() -> None:
    """Auto-completion has nothing left to decide (decision 4)."""
    config = message(made())
    present = {field.name for field, _ in config.ListFields()}
    assert present == {
        "name",
        "backend",
        "default_model_filename",
        "max_batch_size",
        "version_policy",
        "input",
        "output",
        "dynamic_batching",
        "instance_group",
        "parameters",
        "model_warmup",
        "metric_tags",
    }
    assert list(config.version_policy.specific.versions) == [1]
    assert dict(config.metric_tags) == {"aitune_fingerprint": "ab" * 6}
    assert config.parameters["execution_mode"].string_value == "0"


def test_a_zero_batch_is_written_too() -> None:
    """Without the line a person could not tell a decision from an omission (B32)."""
    artifact = handmade.record([X], [whole("y")])
    assert "\nmax_batch_size: 0\n" in render(plan(artifact, model_name="m"))


def test_no_platform_and_no_format() -> None:
    """Legacy fields that only add ways to be refused (R55, R92, B31)."""
    text = render(made())
    assert "platform" not in text
    assert "format:" not in text


@pytest.mark.parametrize(("target", "kind"), [("cpu", "KIND_CPU"), ("gpu", "KIND_GPU")])
def test_an_overlay_changes_the_kind_and_nothing_else(target: str, kind: str) -> None:
    """One word of one line."""
    text = render(made())
    pinned = overlay(text, target)
    changed = [(a, b) for a, b in zip(text.splitlines(), pinned.splitlines(), strict=True) if a != b]
    assert changed == [("    kind: KIND_AUTO", f"    kind: {kind}")]


def test_a_name_that_looks_like_the_kind_is_not_what_an_overlay_changes() -> None:
    """The change is proved on the messages."""
    spec = dataclasses.replace(X, name="    kind: KIND_AUTO\n")
    text = render(plan(handmade.record([spec], [Y]), model_name="m"))
    config: Any = parse_config(overlay(text, "cpu"))
    assert config.input[0].name == spec.name
    assert config.instance_group[0].kind == config.instance_group[0].Kind.Value("KIND_CPU")


def test_a_missing_value_is_an_error() -> None:
    """A template never leaves a blank."""
    with pytest.raises(jinja2.UndefinedError):
        render_template("config.pbtxt.j2")


def test_templates_come_from_the_wheel_or_the_source_tree(tmp_path: Any) -> None:
    """An installed package has its own copy."""
    package = tmp_path / "aitune"
    package.mkdir()
    assert template_folder(package) == tmp_path / "templates"
    (package / "_templates").mkdir()
    assert template_folder(package) == package / "_templates"
