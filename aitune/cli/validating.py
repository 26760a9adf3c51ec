"""``validate``: is what is served what was recorded?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aitune.cli.connecting import connection, server_options
from aitune.cli.console import Console, common_options

if TYPE_CHECKING:
    from aitune.triton.validation_records import CheckResult, ModelReport, ValidationReport

__all__ = ["validate_command"]

_COLORS = {"pass": "green", "warn": "yellow", "fail": "red", "skip": "blue"}


@click.command("validate")
@click.argument("repository", required=False, type=click.Path(path_type=Path))
@click.option("-m", "--model", "models", multiple=True, help="Only this model (repeatable, globs).")
@click.option("-x", "--model-version", "version", help="Only this version.")
@server_options
@click.option("--level", type=click.Choice(["quick", "full"]), default="quick", show_default=True, help="How thorough.")
@click.option("--strict-bounds", is_flag=True, help="Fail where sizes beyond the tuned range are accepted.")
@click.option("--intrusive", is_flag=True, help="With --url: also send bad requests and many of them.")
@click.option("--timeout", "timeout_s", type=float, default=30.0, show_default=True, help="Seconds a request may take.")
@click.option(
    "--report", type=click.Path(path_type=Path, file_okay=False), help="Also write HTML, JSON and JUnit here."
)
@common_options("junit")
def validate_command(
    repository: Path | None,
    models: tuple[str, ...],
    version: str | None,
    level: str,
    strict_bounds: bool,
    intrusive: bool,
    timeout_s: float,
    report: Path | None,
    console: Console,
    **options: Any,
) -> int:
    """Prove that what a running Triton serves is what was recorded.

    Starts a server for REPOSITORY (default model_repository), or asks the one at --url; that one is only read and sent
    a few valid requests. With --url and no REPOSITORY the record is read from the server itself.
    """
    from aitune.pipeline import open_artifact
    from aitune.triton.validation import validate

    arguments = connection(options)
    if repository is None and not arguments["url"]:
        repository = Path("model_repository")
    progress = console.progress()
    try:
        found = validate(
            repository,
            models=models,
            version=version,
            level=level,
            strict_bounds=strict_bounds,
            intrusive=intrusive,
            timeout_s=timeout_s,
            open_artifact=open_artifact,
            progress=progress,
            **arguments,
        )
    finally:
        progress.done()
    if report is not None:
        from aitune.triton.validation_report import write_report

        for path in write_report(found, report):
            console.say(f"wrote {path}")
    _print(found, console)
    return 1 if found.failed else 0


def _print(report: ValidationReport, console: Console) -> None:
    if console.json:
        console.document(report.to_json())
    elif console.format == "junit":
        from aitune.triton.validation_report import junit

        console.result(junit(report))
    else:
        for model in report.models:
            _print_model(model, console)
        proved = report.proved_by
        console.result(
            f"{console.style(report.status, fg=_COLORS[report.status], bold=True)}: proved by "
            f"tritonserver {proved.server}, {proved.implementation or 'no ONNX backend'}"
            + (f", ONNX Runtime {proved.onnxruntime}" if proved.onnxruntime else "")
        )


def _print_model(model: ModelReport, console: Console) -> None:
    version = f" version {model.version}" if model.version else ""
    console.result(console.style(f"{model.name}{version}", bold=True))
    width = max((len(check.name) for check in model.checks), default=0)
    for check in model.checks:
        _print_check(check, width, console)
    if model.claimed or model.proved:
        console.result(f"  claimed {model.claimed[:12] or '-'}, proved {model.proved[:12] or '-'}")


def _print_check(check: CheckResult, width: int, console: Console) -> None:
    status = console.style(f"{check.status:4}", fg=_COLORS[check.status])
    console.result(f"  {status}  {check.name:{width}}  {check.detail}")
    for note in check.notes:
        console.result(f"        {' ' * width}  {note}")
