"""``versions`` and ``rollback``: which versions of a model are there, and serving an earlier one again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aitune.cli.console import Console, common_options, table
from aitune.cli.values import PATH

__all__ = ["rollback_command", "versions_command"]

REPOSITORY = PATH


@click.command("versions")
@click.argument("repository", default="model_repository", type=REPOSITORY)
@click.option("-m", "--model", help="Only this model.")
@common_options()
def versions_command(repository: Path, model: str | None, console: Console) -> int:
    """List the versions of the models in REPOSITORY, and which of them are served."""
    from aitune.triton import Repository

    opened = Repository(repository)
    models = [opened.model(model)] if model else list(opened.models())
    published = {(event.model, event.version): event.time for event in opened.history()}
    rows: list[dict[str, Any]] = []
    for found in models:
        for version in found.versions:
            document = found.documents.get(version)
            rows.append(
                {
                    "model": found.name,
                    "version": version,
                    "served": version in found.served,
                    "fingerprint": document.artifact.identity if document else None,
                    "max_batch_size": (document.artifact.max_batch_size or 0) if document else None,
                    "published": published.get((found.name, version)),
                    "problem": found.record_problems.get(version, found.problem) or None,
                }
            )
    if console.json:
        console.document({"repository": str(repository), "versions": rows})
    elif rows:
        headers = ("model", "version", "served", "fingerprint", "max batch", "published (UTC)")
        console.result(table(headers, [_cells(row) for row in rows], right=(1, 4)))
    else:
        console.warn(f"{str(repository)!r} holds no versions")
    for row in rows:
        if row["problem"]:
            console.warn(f"{row['model']} version {row['version']}: {row['problem']}")
    return 0


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    batch = row["max_batch_size"]
    return (
        row["model"],
        str(row["version"]),
        "yes" if row["served"] else "",
        (row["fingerprint"] or "not ours")[:12],
        "" if batch is None else str(batch),
        row["published"] or "",
    )


@click.command("rollback")
@click.argument("repository", default="model_repository", type=REPOSITORY)
@click.option("-m", "--model", required=True, help="The model.")
@click.option("--to", "version", type=click.IntRange(0), required=True, help="The version to serve again.")
@common_options()
def rollback_command(repository: Path, model: str, version: int, console: Console) -> int:
    """Serve an earlier version again: config.pbtxt is replaced by the one kept with it."""
    from aitune.triton import rollback

    found = rollback(repository, model, version)
    if console.json:
        console.document(
            {
                "result": found.result,
                "model": model,
                "version": found.version,
                "repository": str(repository),
                "path": str(found.path),
                "diff": found.diff,
            }
        )
    else:
        console.result(f"{found.result}: {model} serves version {found.version}")
    for warning in found.warnings:
        console.warn(warning)
    return 0
