"""``validate``: is what is served what was recorded?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aitune.cli.connecting import connection, server_options
from aitune.cli.console import Console, common_options
from aitune.cli.values import PATH, SECONDS

if TYPE_CHECKING:
    from aitune.triton.validation_records import ValidationReport

__all__ = ["validate_command"]

_COLORS = {"ok": "green", "pass": "green", "warn": "yellow", "fail": "red", "skip": "blue"}


@click.command("validate")
@click.argument("repository", required=False, type=PATH)
@click.option("-m", "--model", "models", multiple=True, help="Only this model (repeatable, globs).")
@click.option("-x", "--model-version", "version", help="Only this version.")
@server_options
@click.option("--level", type=click.Choice(["quick", "full"]), default="quick", show_default=True, help="How thorough.")
@click.option("--strict-bounds", is_flag=True, help="Fail where sizes beyond the tuned range are accepted.")
@click.option("--intrusive", is_flag=True, help="With --url: also send bad requests and many of them.")
@click.option(
    "--timeout", "timeout_s", type=SECONDS, default=30.0, show_default=True, help="Seconds a request may take."
)
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
    from aitune.triton.validation_report import junit, to_text

    if console.json:
        console.document(report.to_json())
    elif console.format == "junit":
        console.result(junit(report).rstrip("\n"))
    else:
        for line in to_text(report, verbose=console.verbosity > 0).rstrip("\n").split("\n"):
            console.result(_colored(line, console))


def _colored(line: str, console: Console) -> str:
    """A line of the report with the colour of its status, on a terminal that wants colours."""
    match = re.match(r"(  )(ok|WARN|FAIL|skip)(?= )|(.*: )(pass|warn|fail)$", line)
    if match is None:
        return line
    before, status = match.group(1) or match.group(3), match.group(2) or match.group(4)
    return before + console.style(status, fg=_COLORS[status.lower()]) + line[match.end() :]
