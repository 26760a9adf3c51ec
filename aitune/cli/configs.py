"""``show``, ``diff`` and ``convert``: reading and comparing configurations without a server."""

from __future__ import annotations

from pathlib import Path

import click

from aitune.cli.console import Console, common_options

__all__ = ["convert_command", "diff_command", "show_command"]

CONFIG = click.Path(path_type=Path)


@click.command("show")
@click.argument("model", type=CONFIG)
@click.option("--target", default="cpu", show_default=True, metavar="cpu|gpu[:N]", help="The host it will run on.")
@click.option("--triton", "release", default="24.10", show_default=True, help="Triton release (24.10 or 2.51.0).")
@click.option("--strict", is_flag=True, help="As a server with --disable-auto-complete-config.")
@common_options()
def show_command(model: Path, target: str, release: str, strict: bool, console: Console) -> int:
    """Print the configuration of the model directory MODEL as a server would hold it.

    What the server fills in is marked.
    """
    from aitune.pipeline import read_interface
    from aitune.triton.check.convert import show

    text = show(model, target=target, triton=release, strict=strict, read_interface=read_interface)
    if console.json:
        console.document({"model": model.name, "config": text})
    else:
        console.result(text.rstrip("\n"))
    return 0


@click.command("diff")
@click.argument("left", type=CONFIG)
@click.argument("right", type=CONFIG)
@common_options()
def diff_command(left: Path, right: Path, console: Console) -> int:
    """Show the fields in which two configurations differ; exit 1 if any.

    LEFT and RIGHT are config files or model directories. Order, layout, comments and defaults do not count.
    """
    from aitune.triton.check.convert import diff_configs, format_differences

    found = diff_configs(left, right)
    if console.json:
        console.document({"differences": [difference.to_json() for difference in found]})
    elif found:
        console.result(format_differences(found).rstrip("\n"))
    else:
        console.say("no difference")
    return 1 if found else 0


@click.command("convert")
@click.argument("config", type=CONFIG)
@click.option("--to", type=click.Choice(["json", "pbtxt", "yaml"]), required=True, help="Form of the output.")
@common_options()
def convert_command(config: Path, to: str, console: Console) -> int:
    """Print the configuration CONFIG (a file or a model directory) in another form.

    Comments are kept where the form has any.
    """
    from aitune.triton.check.convert import convert

    text = convert(config, to)
    if console.json:
        console.document({"form": to, "text": text})
    else:
        console.result(text.rstrip("\n"))
    return 0
