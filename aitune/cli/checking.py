"""``check``: what a real Triton would say, without one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aitune.cli.console import Console, common_options
from aitune.cli.values import PATH

if TYPE_CHECKING:
    from aitune.triton.check import CheckReport
    from aitune.triton.check.options import CheckOptions

__all__ = ["check_command"]


@click.command("check")
@click.argument("repository", default="model_repository", type=PATH)
@click.option("-m", "--model", "models", multiple=True, help="Report on this model only (repeatable, globs).")
@click.option("--target", default="cpu", show_default=True, metavar="cpu|gpu[:N]", help="The host it will run on.")
@click.option("--triton", "release", default="24.10", show_default=True, help="Triton release (24.10 or 2.51.0).")
@click.option("--strict", is_flag=True, help="As a server with --disable-auto-complete-config.")
@click.option("--backend", "backends", multiple=True, metavar="NAME", help="A backend the server has (repeatable).")
@click.option(
    "--accelerator", "accelerators", multiple=True, metavar="NAME", help="A CPU accelerator of its ONNX Runtime."
)
@click.option("--model-config-name", default="", metavar="NAME", help="As a server with that option.")
@click.option("--fail-on", type=click.Choice(["error", "warning"]), default="error", show_default=True)
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever is found.")
@click.option("--select", multiple=True, metavar="RULE", help="Only these rules (repeatable).")
@click.option("--ignore", multiple=True, metavar="RULE", help="Without these rules (repeatable).")
@click.option("--fix", is_flag=True, help="Correct what can be corrected safely, keeping comments and layout.")
@click.option("--diff", "only_diff", is_flag=True, help="Show what --fix would change; exit 1 if anything.")
@click.option("--explain", metavar="RULE", help="Explain a rule and stop.")
@common_options("sarif", "junit", "github")
def check_command(
    repository: Path,
    models: tuple[str, ...],
    target: str,
    release: str,
    strict: bool,
    backends: tuple[str, ...],
    accelerators: tuple[str, ...],
    model_config_name: str,
    fail_on: str,
    exit_zero: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fix: bool,
    only_diff: bool,
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
    options: CheckOptions = {
        "target": target,
        "triton": release,
        "strict": strict,
        "read_interface": read_interface,
        "model_config_name": model_config_name,
        "models": models,
        "select": _rules(select),
        "ignore": _rules(ignore),
        "accelerators": accelerators,
    }
    if backends:
        options["backends"] = backends
    if fix or only_diff:
        report, code = _fixed(repository, options, console, write=fix and not only_diff)
        if code is not None:
            return 0 if exit_zero else code
    else:
        report = check_repository(repository, **options)
    console.result(format_report(report, console.format, color=console.color).rstrip("\n"))
    return exit_code(report, fail_on=fail_on, exit_zero=exit_zero)


def _fixed(repository: Path, options: CheckOptions, console: Console, *, write: bool) -> tuple[CheckReport, int | None]:
    """What remains after the corrections, or with ``--diff``, which only shows them, the exit code."""
    from aitune.triton.check.fix import format_diff, plan_fixes, write_fixes

    plan = plan_fixes(repository, **options)
    diff = format_diff(plan)
    if not write:
        if console.json:
            console.document({"diff": diff, "corrected": plan.corrected})
        elif diff:
            console.result(diff.rstrip("\n"))
        console.say(f"{plan.corrected} findings would be corrected" if diff else "nothing to correct")
        return plan.report, 1 if diff else 0
    write_fixes(plan)
    if diff:
        console.say(diff.rstrip("\n"))
        console.say(f"corrected {plan.corrected} findings in {len(plan.fixes)} files")
    return plan.report, None


def _rules(given: tuple[str, ...]) -> tuple[str, ...]:
    """Rules given one by one or separated by commas."""
    return tuple(rule.strip() for text in given for rule in text.split(",") if rule.strip())


def _explain(rule: str, console: Console) -> int:
    from aitune.triton.check.catalogue import explain

    text = explain(rule)
    if console.json:
        console.document({"rule": rule.upper(), "text": text})
    else:
        console.result(text.rstrip("\n"))
    return 0
