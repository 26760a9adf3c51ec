"""``check``: what a real Triton would say, without one."""

from __future__ import annotations

from pathlib import Path

import click

from aitune.cli.console import Console, common_options

__all__ = ["check_command"]


@click.command("check")
@click.argument("repository", default="model_repository", type=click.Path(path_type=Path))
@click.option("-m", "--model", "models", multiple=True, help="Report on this model only (repeatable, globs).")
@click.option("--target", default="cpu", show_default=True, metavar="cpu|gpu[:N]", help="The host it will run on.")
@click.option("--triton", "release", default="24.10", show_default=True, help="Triton release (24.10 or 2.51.0).")
@click.option("--strict", is_flag=True, help="As a server with --disable-auto-complete-config.")
@click.option("--model-config-name", default="", metavar="NAME", help="As a server with that option.")
@click.option("--fail-on", type=click.Choice(["error", "warning"]), default="error", show_default=True)
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever is found.")
@click.option("--select", multiple=True, metavar="RULE", help="Only these rules (repeatable).")
@click.option("--ignore", multiple=True, metavar="RULE", help="Without these rules (repeatable).")
@click.option("--explain", metavar="RULE", help="Explain a rule and stop.")
@common_options("sarif", "junit", "github")
def check_command(
    repository: Path,
    models: tuple[str, ...],
    target: str,
    release: str,
    strict: bool,
    model_config_name: str,
    fail_on: str,
    exit_zero: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    explain: str | None,
    console: Console,
) -> int:
    """Say, without a server, whether a Triton would load REPOSITORY and whether it matches its artifacts.

    Any repository, not only ours. Exit code 1 when it would not.
    """
    from aitune.pipeline import read_interface
    from aitune.triton.check import check_repository
    from aitune.triton.check.command import exit_code, format_report

    if explain is not None:
        return _explain(explain, console)
    report = check_repository(
        repository,
        target=target,
        triton=release,
        strict=strict,
        read_interface=read_interface,
        model_config_name=model_config_name,
        models=models,
        select=_rules(select),
        ignore=_rules(ignore),
    )
    console.result(format_report(report, console.format, color=console.color).rstrip("\n"))
    return exit_code(report, fail_on=fail_on, exit_zero=exit_zero)


def _rules(given: tuple[str, ...]) -> tuple[str, ...]:
    """Rules given one by one or separated by commas."""
    return tuple(rule.strip() for text in given for rule in text.split(",") if rule.strip())


def _explain(rule: str, console: Console) -> int:
    from aitune.triton.check.command import explain

    text = explain(rule)
    if console.json:
        console.document({"rule": rule.upper(), "text": text})
    else:
        console.result(text.rstrip("\n"))
    return 0
