"""What the command line says about TensorRT, as the flow and the publisher understand it."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from aitune.cli.accelerating import accelerator_options, plan_options, plan_request, serving_choices
from aitune.errors import UsageError
from aitune.plan_source import DEVICES, FORMATS, OPTION_KEYS, PlanRequest
from aitune.tensorrt.library import PACKAGES
from aitune.triton.plan_accelerator import ACCELERATORS, PRECISIONS, AcceleratorOptions


def options(*words: str) -> dict[str, Any]:
    """The options of a command line."""
    found: dict[str, Any] = {}

    @click.command()
    @plan_options
    @accelerator_options
    def command(**given: Any) -> None:
        found.update(given)

    result = CliRunner().invoke(command, words, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return found


def test_without_options_a_plan_is_made_where_it_is_faster() -> None:
    """And nothing else is asked of the server."""
    given = options()
    assert plan_request(given) == PlanRequest()
    assert serving_choices(given) == {"profiles": (), "cuda_graphs": False, "accelerator": None}


def test_every_option_about_a_plan_reaches_the_flow() -> None:
    """Repeated options are all taken; a value may hold an equals sign."""
    given = options(
        "--artifact", "plan", "--device", "gpu", "--builder", "tensorrt_rtx", "--plan", "sm80=a.plan", "--plan",
        "sm90=b=c.plan", "--plan-option", "precision=fp16", "--plan-option", "split.n=2,4",
    )  # fmt: skip
    assert plan_request(given) == PlanRequest(
        format="plan",
        device="gpu",
        builder="tensorrt_rtx",
        options={"precision": "fp16", "split.n": "2,4"},
        plans=(("sm80", "a.plan"), ("sm90", "b=c.plan")),
    )


def test_every_option_about_serving_reaches_the_publisher() -> None:
    """Profiles in the order given; an accelerator with its cache."""
    given = options(
        "--plan-profile", "2", "--plan-profile", "0", "--cuda-graphs", "--accelerator", "tensorrt",
        "--accelerator-precision", "fp16", "--engine-cache", "/var/cache/engines",
    )  # fmt: skip
    assert serving_choices(given) == {
        "profiles": (2, 0),
        "cuda_graphs": True,
        "accelerator": AcceleratorOptions(name="tensorrt", precision="fp16", cache="/var/cache/engines"),
    }


@pytest.mark.parametrize("words", [("--engine-cache", "/c"), ("--accelerator-precision", "fp16")])
def test_settings_of_an_accelerator_need_one(words: tuple[str, ...]) -> None:
    """Or they would be lost without a word."""
    with pytest.raises(click.UsageError, match="--engine-cache and --accelerator-precision need --accelerator"):
        serving_choices(options(*words))


def test_an_engine_cache_is_a_place_on_the_server() -> None:
    """A relative one would be somewhere else for every server."""
    with pytest.raises(UsageError, match="absolute"):
        serving_choices(options("--accelerator", "tensorrt", "--engine-cache", "engines"))


@pytest.mark.parametrize("pair", ["sm80", "=a.plan", "sm80="])
@pytest.mark.parametrize("option", ["--plan", "--plan-option"])
def test_a_pair_has_two_sides(option: str, pair: str) -> None:
    """The option and what was written are named."""
    with pytest.raises(click.UsageError, match=f"{option} '{pair}' is not of the form KEY=VALUE"):
        plan_request(options(option, pair))


def test_a_profile_is_a_number() -> None:
    """Triton counts them from zero."""
    with pytest.raises(click.BadParameter, match="-1 is not in the range"):
        options("--plan-profile", "-1")


def test_the_choices_are_those_of_the_rooms() -> None:
    """They are written out because the command line answers before it imports anything."""

    @click.command()
    @plan_options
    @accelerator_options
    def command(**given: Any) -> None: ...

    choices = {one.name: tuple(one.type.choices) for one in command.params if isinstance(one.type, click.Choice)}
    assert choices == {
        "artifact_format": FORMATS,
        "device": DEVICES,
        "builder": PACKAGES,
        "accelerator": ACCELERATORS,
        "accelerator_precision": PRECISIONS,
    }
    (told,) = (one.help for one in command.params if isinstance(one, click.Option) and one.name == "plan_pairs")
    assert told is not None
    assert all(key in told for key in OPTION_KEYS)
