"""The options of every command that talks to a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from aitune.triton.endpoint import Tls

__all__ = ["connection", "server_options", "url_options"]

F = TypeVar("F", bound=Callable[..., Any])


def server_options(function: F) -> F:
    """``--server`` and what :func:`url_options` gives."""
    return click.option("--server", help="Which server to start: a tritonserver, or docker:IMAGE.")(
        url_options(function)
    )


def url_options(function: F) -> F:
    """``-u/--url``, ``-i``, ``--header`` and the TLS flags."""
    file = click.Path(path_type=Path, dir_okay=False)
    options = (
        click.option(
            "-u",
            "--url",
            "urls",
            multiple=True,
            envvar="TRITON_URL",
            help="A running server instead: HOST:PORT, grpc://…, http(s)://…; twice for one address a protocol.",
        ),
        click.option(
            "-i", "--protocol", type=click.Choice(["grpc", "http"]), help="Protocol of an address without one."
        ),
        click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="Sent with every request."),
        click.option("--tls-ca", type=file, help="PEM file with the certificates to trust."),
        click.option("--tls-cert", type=file, help="PEM file with our certificate."),
        click.option("--tls-key", type=file, help="PEM file with its key."),
        click.option("--tls-no-verify", is_flag=True, help="Do not check the server's certificate (HTTPS only)."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def connection(options: dict[str, Any]) -> dict[str, Any]:
    """Those options as the arguments of :func:`aitune.triton.validate`; they are taken out of ``options``."""
    return {
        "server": options.pop("server", None),
        "url": options.pop("urls") or None,
        "protocol": options.pop("protocol"),
        "headers": tuple(_header(text) for text in options.pop("headers")),
        "tls": _tls(options),
    }


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition(":")
    if not separator or not name.strip():
        raise click.UsageError(f"--header {text!r} is not of the form NAME:VALUE")
    return name.strip(), value.strip()


def _tls(options: dict[str, Any]) -> Tls | None:
    ca, certificate, key = (options.pop(name) for name in ("tls_ca", "tls_cert", "tls_key"))
    no_verify = options.pop("tls_no_verify")
    if not (ca or certificate or key or no_verify):
        return None
    from aitune.triton.endpoint import Tls

    return Tls(ca=ca, certificate=certificate, key=key, verify=not no_verify)
