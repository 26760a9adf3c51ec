"""``serve``: a local Triton in the foreground."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aitune.cli.console import Console, common_options
from aitune.cli.values import PATH, SECONDS
from aitune.errors import ServerError

if TYPE_CHECKING:
    from aitune.triton.server import LocalServer

__all__ = ["serve_command"]

PORT = click.IntRange(0, 65535)


@click.command("serve")
@click.argument("repository", default="model_repository", type=PATH)
@click.option("-m", "--model", "models", multiple=True, help="Load only this (repeatable); implies --explicit.")
@click.option("--server", "program", help="What to start: a tritonserver, or docker:IMAGE.")
@click.option("--http-port", type=PORT, default=8000, show_default=True, help="0 for a free one.")
@click.option("--grpc-port", type=PORT, default=8001, show_default=True, help="0 for a free one.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), default=8002, show_default=True, help="0 for a free one."
)
@click.option("--poll", is_flag=True, help="Look for changes of the repository every second.")
@click.option("--explicit", is_flag=True, help="Load and unload on request only.")
@click.option("--model-config-name", metavar="NAME", help="Prefer configs/NAME.pbtxt.")
@click.option("--strict", is_flag=True, help="Switch auto-completion of configs off.")
@click.option("--timeout", "timeout_s", type=SECONDS, default=120.0, show_default=True, help="Seconds until ready.")
@click.option("--log", type=click.Path(path_type=Path, dir_okay=False), help="Keep the server's log in this file.")
@click.argument("server_arguments", nargs=-1, type=click.UNPROCESSED)
@common_options()
def serve_command(
    repository: Path,
    models: tuple[str, ...],
    program: str | None,
    http_port: int,
    grpc_port: int,
    metrics_port: int,
    poll: bool,
    explicit: bool,
    model_config_name: str | None,
    strict: bool,
    timeout_s: float,
    log: Path | None,
    server_arguments: tuple[str, ...],
    console: Console,
) -> int:
    """Run a real tritonserver on REPOSITORY until Ctrl-C; it listens on 127.0.0.1 only.

    Arguments after -- go to tritonserver.
    """
    from aitune.triton.discovery import find_server
    from aitune.triton.server import LocalServer

    if poll and (explicit or models):
        raise click.UsageError("--poll does not go with --explicit or --model")
    progress = console.progress()
    server = LocalServer(
        repository,
        program=find_server(program),
        log=log,
        explicit=explicit or bool(models),
        poll=poll,
        load_models=models,
        model_config_name=model_config_name,
        strict=strict,
        extra_args=server_arguments,
        ready_timeout_s=timeout_s,
        http_port=http_port or None,
        grpc_port=grpc_port or None,
        metrics_port=metrics_port or None,
    )
    with ExitStack() as stack:
        progress.start("starting tritonserver")
        stack.callback(progress.done)
        stack.enter_context(server)
        progress.done()
        _announce(server, console)
        status = server.wait()
        raise ServerError(f"tritonserver ended by itself with status {status}", hint="keep its log with --log FILE")


def _announce(server: LocalServer, console: Console) -> None:
    """Say where it listens and which models are ready."""
    states = server.models()
    if console.json:
        models = [{"name": s.name, "version": s.version, "state": s.state, "reason": s.reason} for s in states]
        console.document(
            {"http": server.http, "grpc": server.grpc, "metrics": server.metrics, "pid": server.pid, "models": models}
        )
    else:
        console.result(f"http     http://{server.http}")
        console.result(f"grpc     {server.grpc}")
        console.result(f"metrics  http://{server.metrics}/metrics")
        console.result(f"pid      {server.pid}")
        for state in states:
            version = f" version {state.version}" if state.version else ""
            if state.ready:
                console.result(f"ready    {state.name}{version}")
            else:
                console.warn(f"model {state.name!r}{version} is not served: {state.reason or state.state.lower()}")
        if not states:
            console.warn("the repository holds no model")
    sys.stdout.flush()
    console.say("stop with Ctrl-C")
