"""What a running Triton fills in is no difference; all else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import handmade
import pytest
from handmade import rows

from aitune.triton.normalisation import compare, differences, normalised
from aitune.triton.plan import PlanOptions, plan
from aitune.triton.rendering import message
from aitune.triton.schema import parse_config


def config(text: str) -> Any:
    """A config from its text."""
    return parse_config(text)


def published(**options: Any) -> Any:
    """The message of a small batched model."""
    spec = rows("x")
    artifact = handmade.record([spec], [rows("y")], proof=handmade.evidence([spec]))
    return message(plan(artifact, model_name="m", options=PlanOptions(**options)))


def as_served(found: Any, kind: str = "KIND_CPU") -> Any:
    """The same config as a server without a GPU returns it (§4.2 to §4.4)."""
    served = type(found)()
    served.CopyFrom(found)
    served.platform, served.runtime = "onnxruntime_onnx", "model.py"
    group = served.instance_group[0]
    group.name, group.kind = "m_0", group.Kind.Value(kind)
    if kind == "KIND_GPU":
        group.gpus.extend([0, 1])
    served.optimization.input_pinned_memory.enable = True
    served.optimization.output_pinned_memory.enable = True
    served.model_transaction_policy.SetInParent()
    return served


@pytest.mark.parametrize("kind", ["KIND_CPU", "KIND_GPU"])
def test_what_triton_fills_in_is_no_difference(kind: str) -> None:
    """KIND_AUTO becomes what the host has (R181), GPUs are listed (R183), the rest is filled in."""
    assert differences(published(), as_served(published(), kind)) == ()


def test_a_pinned_kind_must_come_back() -> None:
    """Who asked for a GPU and got a CPU should know."""
    found = differences(published(target="gpu"), as_served(published(target="gpu"), "KIND_CPU"))
    assert found == ("instance_group[0].kind: published 'KIND_GPU', served 'KIND_CPU'",)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda c: setattr(c, "max_batch_size", 4), "max_batch_size: published 8, served 4"),
        (lambda c: c.input[0].dims.append(2), "input[0].dims: published ['1'], served ['1', '2']"),
        (lambda c: c.input[0].ClearField("reshape"), "input[0].reshape: published {'shape': []}, served nothing"),
        (lambda c: c.output[0].__setattr__("data_type", 1), "output[0].data_type: published 'TYPE_FP32', served"),
        (lambda c: c.ClearField("dynamic_batching"), "dynamic_batching: published {"),
        (lambda c: c.parameters["aitune.record.1"].__setattr__("string_value", "{}"), "parameters.aitune.record.1.str"),
        (lambda c: setattr(c.instance_group[0], "count", 2), "instance_group[0].count: published 1, served 2"),
        (lambda c: c.version_policy.specific.versions.append(2), "version_policy.specific.versions: published ['1']"),
        (lambda c: setattr(c.optimization.input_pinned_memory, "enable", False), "optimization.input_pinned_memory"),
    ],
)
def test_everything_else_is(change: Callable[[Any], object], line: str) -> None:
    """Each difference is one line with the field and both values."""
    served = as_served(published())
    change(served)
    (found,) = differences(published(), served)
    assert found.startswith(line)


def test_a_zero_batch_is_compared() -> None:
    """JSON over gRPC drops it; messages do not."""
    left, right = config("max_batch_size: 0"), config("max_batch_size: 4")
    assert differences(left, right) == ("max_batch_size: published 0, served 4",)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("", "version_policy { latest { num_versions: 1 } }"),  # R175
        ("version_policy { }", "version_policy { all { } }"),  # R42
        ("max_batch_size: 4 dynamic_batching { }", "max_batch_size: 4 dynamic_batching { preferred_batch_size: 4 }"),
        ("dynamic_batching { }", "dynamic_batching { }"),  # R176: without a batch it stays empty
        ("sequence_batching { }", "sequence_batching { max_sequence_idle_microseconds: 1000000 }"),  # R177
        (
            "max_batch_size: 2 sequence_batching { oldest { } }",
            "max_batch_size: 2 sequence_batching { max_sequence_idle_microseconds: 1000000 "
            "oldest { preferred_batch_size: 2 } }",
        ),
        (
            "backend: 'onnxruntime'",
            "backend: 'onnxruntime' platform: 'onnxruntime_onnx' default_model_filename: 'model.onnx'",
        ),  # R167
        ("name: 'm'", "name: 'm' instance_group { name: 'm' count: 1 kind: KIND_CPU }"),  # R179
        (
            "name: 'm' backend: 'onnxruntime' instance_group { }",
            "name: 'm' backend: 'onnxruntime' instance_group { name: 'm_0' count: 2 kind: KIND_CPU }",
        ),  # R182
        ("instance_group { kind: KIND_CPU count: -1 }", "instance_group { name: '_0' kind: KIND_CPU count: 1 }"),
        ("platform: 'ensemble' ensemble_scheduling { }", "platform: 'ensemble' ensemble_scheduling { }"),
    ],
)
def test_defaults_are_known(left: str, right: str) -> None:
    """Each rule of normalisation, on configs that aitune did not write."""
    assert differences(config(left), config(right)) == ()


def test_an_ensemble_gets_no_memory_settings() -> None:
    """R178 is about models that run."""
    assert not normalised(config("ensemble_scheduling { }")).HasField("optimization")


def test_a_group_more_is_a_difference() -> None:
    """Lists of different length are shown as they are."""
    left = config("instance_group { kind: KIND_CPU count: 1 }")
    right = config("instance_group { kind: KIND_CPU count: 1 } instance_group { kind: KIND_CPU count: 1 }")
    (line,) = differences(left, right)
    assert line.startswith("instance_group: published [")
    assert line.endswith("...")


def test_compare_takes_messages_as_they_stand() -> None:
    """Nothing is filled in."""
    assert compare(config("name: 'a'"), config("name: 'b'")) == ("name: 'a', expected 'b'",)
    assert compare(config("name: 'a'"), config("name: 'a'")) == ()
