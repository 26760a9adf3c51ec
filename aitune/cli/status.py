"""``status``: what a running server serves, and whether it is still what was published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aitune.cli.connecting import connection, url_options
from aitune.cli.console import Console, common_options, table
from aitune.cli.values import PATH, SECONDS
from aitune.errors import UsageError

if TYPE_CHECKING:
    from aitune.triton.serving_status import ServedVersion, ServingStatus

__all__ = ["status_command"]


@click.command("status")
@click.argument("repository", required=False, type=PATH)
@click.option("-m", "--model", "models", multiple=True, help="Only this model (repeatable, globs).")
@url_options
@click.option(
    "--timeout", "timeout_s", type=SECONDS, default=30.0, show_default=True, help="Seconds a request may take."
)
@common_options()
def status_command(
    repository: Path | None, models: tuple[str, ...], timeout_s: float, console: Console, **options: Any
) -> int:
    """List what the server at --url serves: version, ready, fingerprint, drift.

    Reads, and asks each version one recorded question (the golden probe), 20 at most. Drift is a fingerprint that the
    answers do not prove and, with REPOSITORY, another version, another config or a model that is missing on either
    side; it exits 1.
    """
    from aitune.triton.serving_status import serving_status

    arguments = connection(options)
    del arguments["server"]
    if not arguments["url"]:
        raise UsageError("no server is given", hint="name one with --url HOST:PORT or TRITON_URL")
    progress = console.progress()
    try:
        found = serving_status(repository, models=models, timeout_s=timeout_s, progress=progress, **arguments)
    finally:
        progress.done()
    _print(found, console)
    return 1 if found.drifted else 0


def _print(found: ServingStatus, console: Console) -> None:
    if console.json:
        console.document(found.to_json())
        return
    if found.models:
        headers = ("model", "version", "ready", "claimed", "proved", "drift")
        console.result(table(headers, [_cells(model) for model in found.models], right=(1,)))
    for model in found.models:
        where = f"{model.name} version {model.version}" if model.version else model.name
        for line in model.drift:
            console.result(f"{where}: {line}")
        if model.reason and not model.drift:
            console.result(f"{where}: not ready: {model.reason}")
        for line in model.skipped:
            console.detail(f"{where}: {line}")
    for line in found.skipped:
        console.warn(line)
    if not found.models and not found.skipped:
        console.warn(f"{found.server} serves no model")


def _cells(model: ServedVersion) -> tuple[str, ...]:
    return (
        model.name,
        model.version,
        "yes" if model.ready else "no",
        model.claimed[:12] or "-",
        model.proved[:12] or "-",
        "drift" if model.drift else "",
    )
