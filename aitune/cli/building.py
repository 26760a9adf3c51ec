"""``inspect``, ``build`` and ``render``: from a SOURCE to a record, from a record to a repository."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aitune.cli.accelerating import accelerator_options, plan_options, plan_request, serving_choices
from aitune.cli.console import Console, chained, common_options, table
from aitune.cli.shapes import SHAPE, collect
from aitune.cli.tuning import candidate_table, tuning_fields, tuning_options, write_report
from aitune.cli.values import LARGEST_SIZE, PATH
from aitune.errors import AituneError

if TYPE_CHECKING:
    from aitune.pipeline import Request
    from aitune.records import Artifact, TunedTensorSpec
    from aitune.triton.plan import PlanOptions

__all__ = ["build_command", "inspect_command", "render_command"]


SOURCE_HELP = """SOURCE is model.onnx, model.plan, model.pt2 (of torch.export), path/file.py:function,
package.module:function (the function returns the module and its samples) or the aitune.json of an artifact."""


source_options = chained(
    click.argument("source"),
    click.option("-m", "--model", help="Name in the repository; by default the function's or the file's name."),
    click.option(
        "--max-batch-size",
        type=click.IntRange(0, LARGEST_SIZE),
        help="Demand this batch (exit 1 if the model cannot); 0 switches batching off; by default it is found.",
    ),
    click.option("--min-shape", type=SHAPE, multiple=True, help="Smallest full shape of an input: ids=1,8 or ids:1x8."),
    click.option("--opt-shape", type=SHAPE, multiple=True, help="Typical full shape of an input."),
    click.option("--max-shape", type=SHAPE, multiple=True, help="Largest full shape of an input."),
    click.option("--samples", metavar="FILE.npz|file.py:function", help="Samples to use instead of the SOURCE's own."),
    click.option("--input-name", "input_names", metavar="OLD=NEW", multiple=True, help="Rename an input of a module."),
    click.option(
        "--output-name",
        "output_names",
        metavar="NAME|OLD=NEW",
        multiple=True,
        help="Name the outputs of a module in order, or rename one.",
    ),
    click.option("--move-batch-axis", is_flag=True, help="Move the batch of a module to axis 0 if it is on another."),
    click.option("--opset", type=click.IntRange(7), help="ONNX opset of an export."),
    click.option(
        "--keep-samples",
        type=click.Choice(["none", "synthetic", "recorded"]),
        default="synthetic",
        show_default=True,
        help="Which samples travel with the model, for validate and perf.",
    ),
    plan_options,
)

serving_options = chained(
    click.option(
        "--target",
        type=click.Choice(["auto", "cpu", "gpu"]),
        default="auto",
        show_default=True,
        help="Where it will be served; auto serves on both.",
    ),
    click.option(
        "--triton", "release", default="24.10", show_default=True, help="Oldest Triton to serve it (24.10 or 2.51.0)."
    ),
    click.option("--instances", type=click.IntRange(1), help="Copies of the model per GPU or host. [default: 1]"),
    click.option("--max-queue-delay-us", type=click.IntRange(0), help="Time a request may wait for others, in µs."),
    click.option("--max-queue-size", type=click.IntRange(1), help="Requests that may wait before more are refused."),
    click.option(
        "--warmup",
        type=click.Choice(["none", "small", "full"]),
        help="Requests the server runs while it loads the model. [default: full]",
    ),
    click.option(
        "--setting", "settings", metavar="KEY=VALUE", multiple=True, help="A parameter of the backend (repeatable)."
    ),
    click.option("--overlays", is_flag=True, help="Also write configs/cpu.pbtxt and configs/gpu.pbtxt."),
    accelerator_options,
)


def _request(options: dict[str, Any], **measuring: Any) -> Request:
    from aitune.pipeline import Request

    return Request(
        source=options["source"],
        max_batch_size=options["max_batch_size"],
        min_shapes=collect("--min-shape", options["min_shape"]),
        opt_shapes=collect("--opt-shape", options["opt_shape"]),
        max_shapes=collect("--max-shape", options["max_shape"]),
        samples=options["samples"],
        input_names=_renames("--input-name", options["input_names"]),
        output_names=_output_names(options["output_names"]),
        move_batch_axis=options["move_batch_axis"],
        opset=options["opset"],
        keep_samples=options["keep_samples"],
        plan=plan_request(options),
        **measuring,
    )


def _renames(option: str, texts: Sequence[str]) -> dict[str, str]:
    """What is to be renamed to what."""
    pairs = [text.partition("=") for text in texts]
    for text, (old, _, new) in zip(texts, pairs, strict=True):
        if not old or not new:
            raise click.UsageError(f"{option} {text!r} is not of the form OLD=NEW")
    return {old: new for old, _, new in pairs}


def _output_names(texts: Sequence[str]) -> tuple[str, ...] | dict[str, str]:
    """New names in order, or by the old ones."""
    return _renames("--output-name", texts) if any("=" in text for text in texts) else tuple(texts)


def _plan_options(options: dict[str, Any]) -> PlanOptions:
    from aitune.triton.plan import PlanOptions

    given = {
        "instance_count": options["instances"],
        "max_queue_delay_us": options["max_queue_delay_us"],
        "max_queue_size": options["max_queue_size"],
        "warmup": options["warmup"],
    }
    return PlanOptions(
        target=options["target"],
        triton=options["release"],
        settings=tuple(_setting(text) for text in options["settings"]),
        overlays=options["overlays"],
        **serving_choices(options),
        **{key: value for key, value in given.items() if value is not None},
    )


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise click.UsageError(f"--setting {text!r} is not of the form KEY=VALUE")
    return key, value


@click.command(
    "inspect", help=f"Show the tensors, the batching verdict and the config of a model; write nothing.\n\n{SOURCE_HELP}"
)
@source_options
@serving_options
@common_options()
def inspect_command(console: Console, **options: Any) -> int:
    """Show the tensors, the batching verdict and the config that would be written."""
    from aitune.pipeline import default_model_name, document, inspect

    name = default_model_name(options["source"]) if options["model"] is None else options["model"]
    progress = console.progress()
    try:
        artifact, config, warnings = inspect(
            _request(options, tune=False), model_name=name, options=_plan_options(options), progress=progress
        )
    finally:
        progress.done()
    if console.json:
        console.document({**document(artifact, model=name), "config": config, "warnings": list(warnings)})
        return 0
    console.result(describe(artifact, console))
    console.result(f"\nconfig.pbtxt\n\n{config.rstrip()}")
    _tell(warnings, console)
    return 0


@click.command("build", help=f"Observe, export, prove, tune, render and publish one model.\n\n{SOURCE_HELP}")
@source_options
@click.option(
    "-r",
    "--repository",
    type=PATH,
    default=Path("model_repository"),
    show_default=True,
    help="Where to publish it; made when it is not there.",
)
@serving_options
@tuning_options
@click.option("--dry-run", is_flag=True, help="Change nothing; show what would change.")
@common_options()
def build_command(console: Console, repository: Path, report: Path | None, dry_run: bool, **options: Any) -> int:
    """Build and publish one model."""
    from aitune.pipeline import build, default_model_name, document

    name = default_model_name(options["source"]) if options["model"] is None else options["model"]
    request = _request(options, **tuning_fields(options))
    progress = console.progress()
    try:
        built = build(
            request,
            repository,
            model_name=name,
            options=_plan_options(options),
            dry_run=dry_run,
            progress=progress,
        )
    except AituneError as error:
        error.document = {"result": "refused", "model": name, "repository": str(repository)}  # type: ignore[attr-defined]
        raise
    finally:
        progress.done()
    publication = built.publication
    written = write_report(built.artifact, name, report) if report is not None else ()
    if console.json:
        console.document(
            {
                "result": publication.result,
                "repository": str(repository),
                "path": str(publication.path),
                **document(built.artifact, model=name, version=publication.version),
                "dry_run": dry_run,
                "diff": publication.diff,
                "warnings": list(built.warnings),
                "report": [str(path) for path in written],
            }
        )
        return 0
    console.result(describe(built.artifact, console))
    if written:
        console.result(f"report    {', '.join(map(str, written))}")
    if dry_run:
        console.result(f"\ndry run: would be {publication.result} as version {publication.version}\n")
        console.result(publication.diff.rstrip() or "no change")
    else:
        console.result(
            f"\n{console.style(publication.result, fg='green', bold=True)}: {publication.path} "
            f"(version {publication.version})"
        )
        from aitune.cli.next_steps import next_steps

        console.result(next_steps(built.artifact, repository, name, release=options["release"]))
    _tell(built.warnings, console)
    return 0


@click.command("render")
@click.argument("record", metavar="AITUNE.JSON", type=click.Path(path_type=Path))
@click.option("-m", "--model", help="Name in the config; by default the published model's.")
@click.option("--as-published", is_flag=True, help="Print the config this version was published with.")
@serving_options
@common_options()
def render_command(record: Path, model: str | None, as_published: bool, console: Console, **options: Any) -> int:
    """Print the config.pbtxt of a record."""
    from aitune.errors import RecordError
    from aitune.pipeline import default_model_name
    from aitune.records.codec import read_document
    from aitune.triton.plan import plan
    from aitune.triton.rendering import render

    document = read_document(record)
    name = default_model_name(str(record)) if model is None else model
    warnings: tuple[str, ...] = ()
    if as_published:
        if document.config is None:
            raise RecordError(f"record {str(record)!r} was never published", hint="leave --as-published out")
        config = document.config
    else:
        folder = record.absolute().parent.name
        version = int(folder) if folder.isdecimal() else 1
        planned = plan(document.artifact, model_name=name, options=_plan_options(options), version=version)
        config, warnings = render(planned), planned.warnings
    if console.json:
        console.document({"model": name, "config": config, "warnings": list(warnings)})
    else:
        console.result(config.rstrip("\n"))
    _tell(warnings, console)
    return 0


def _tell(warnings: tuple[str, ...], console: Console) -> None:
    for warning in warnings:
        console.warn(warning)


def describe(artifact: Artifact, console: Console) -> str:
    """The record as a person reads it: tensors, verdict, measurements."""
    rows = [_row("input", spec) for spec in artifact.inputs] + [_row("output", spec) for spec in artifact.outputs]
    parts = [table(("", "name", "dtype", "shape", "smallest", "largest"), rows)]
    evidence = artifact.evidence
    if evidence and evidence.batching:
        color = "green" if evidence.batching.proved else "yellow"
        verdict = console.style(evidence.batching.verdict, fg=color, bold=True)
        parts.append(f"\nbatching  {verdict}: {evidence.batching.reason}")
    parts.append(f"max batch {artifact.max_batch_size or 0}")
    if artifact.tuning:
        parts.append(f"tuning    {artifact.tuning.winner}: {artifact.tuning.reason}\n")
        parts.append(candidate_table(artifact.tuning) + "\n")
    parts.append(f"sha256    {artifact.identity}")
    parts.extend(f"note      {note}" for note in (evidence.notes if evidence else ()))
    return "\n".join(parts)


def _row(kind: str, spec: TunedTensorSpec) -> tuple[str, ...]:
    return kind, spec.name, spec.dtype.value, *map(_sizes, (spec.shape, spec.min_shape, spec.max_shape))


def _sizes(shape: Sequence[int | str | None]) -> str:
    """A shape for people: ``[batch, 3, ?]``."""
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"
