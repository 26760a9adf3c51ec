"""Options about TensorRT: plans that are built or given, and engines that the server builds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from aitune.cli.console import chained

if TYPE_CHECKING:
    from aitune.plan_source import PlanRequest

__all__ = ["accelerator_options", "plan_options", "plan_request", "serving_choices"]


plan_options = chained(
    click.option(
        "--artifact",
        "artifact_format",
        type=click.Choice(["auto", "onnx", "plan"]),
        default="auto",
        show_default=True,
        help="What is served: the ONNX model, a TensorRT plan, or the faster one where a GPU can tell.",
    ),
    click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "gpu"]),
        default="auto",
        show_default=True,
        help="Where candidates are measured: gpu needs onnxruntime-gpu, cpu never tries a TensorRT plan.",
    ),
    click.option(
        "--plan",
        "plans",
        metavar="smXY=FILE",
        multiple=True,
        help="A further plan for another kind of GPU, e.g. sm90=h100.plan (repeatable).",
    ),
    click.option(
        "--plan-option",
        "plan_pairs",
        metavar="KEY=VALUE",
        multiple=True,
        help="How a plan is built: precision, compute_capability, workspace_mib, timing_cache, optimization_level, "
        "version_compatible, hardware_compatibility, split.SYMBOL, layout.TENSOR (repeatable).",
    ),
    click.option(
        "--builder",
        type=click.Choice(["tensorrt", "tensorrt_rtx"]),
        default="tensorrt",
        show_default=True,
        help="The library that builds plans; those of tensorrt_rtx are not for Triton.",
    ),
)

accelerator_options = chained(
    click.option(
        "--accelerator", type=click.Choice(["tensorrt"]), help="Let ONNX Runtime build TensorRT engines on the server."
    ),
    click.option(
        "--accelerator-precision",
        type=click.Choice(["fp32", "fp16", "bf16"]),
        help="What its engines compute in. [default: what was measured, else fp32]",
    ),
    click.option("--engine-cache", default="", metavar="DIR", help="Folder on the server that keeps its engines."),
    click.option(
        "--plan-profile", "profiles", type=click.IntRange(0), multiple=True, help="Serve this profile of a plan."
    ),
    click.option("--cuda-graphs", is_flag=True, help="Capture CUDA graphs of a plan at the typical shape."),
)


def plan_request(options: dict[str, Any]) -> PlanRequest:
    """What the options say about making a plan."""
    from aitune.plan_source import PlanRequest

    return PlanRequest(
        format=options["artifact_format"],
        device=options["device"],
        builder=options["builder"],
        options=dict(_pairs("--plan-option", options["plan_pairs"])),
        plans=_pairs("--plan", options["plans"]),
    )


def serving_choices(options: dict[str, Any]) -> dict[str, Any]:
    """What the options say about serving one, as fields of the plan's options."""
    from aitune.triton.plan_accelerator import AcceleratorOptions

    accelerator = None
    if options["accelerator"]:
        accelerator = AcceleratorOptions(
            name=options["accelerator"], precision=options["accelerator_precision"], cache=options["engine_cache"]
        )
    elif options["engine_cache"] or options["accelerator_precision"]:
        raise click.UsageError("--engine-cache and --accelerator-precision need --accelerator")
    return {
        "profiles": tuple(options["profiles"]),
        "cuda_graphs": options["cuda_graphs"],
        "accelerator": accelerator,
    }


def _pairs(option: str, texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    found = []
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key or not value:
            raise click.UsageError(f"{option} {text!r} is not of the form KEY=VALUE")
        found.append((key, value))
    return tuple(found)
