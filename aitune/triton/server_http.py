"""The few questions a server is asked over plain HTTP, with the standard library alone."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aitune.errors import ServerError

__all__ = ["ModelState", "has_metrics", "is_ready", "model_config", "repository_index", "server_version"]

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy has no business on the way to a server


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """One line of a repository index.

    Attributes:
        name: The model.
        version: Its version; empty when no version was ever loaded.
        state: ``"READY"``, ``"LOADING"``, ``"UNAVAILABLE"``, or empty when the model was never tried.
        reason: Why it is not ready, as the server says it; may be empty.
    """

    name: str
    version: str = ""
    state: str = ""
    reason: str = ""

    @property
    def ready(self) -> bool:
        """Whether this version answers requests."""
        return self.state == "READY"


def is_ready(address: str, *, timeout_s: float = 2.0) -> bool:
    """Whether a server answers and says that it is ready."""
    return _is_there(f"{_base(address)}/v2/health/ready", timeout_s)


def has_metrics(address: str, *, timeout_s: float = 2.0) -> bool:
    """Whether a server gives metrics there."""
    return _is_there(f"{_base(address)}/metrics", timeout_s)


def _is_there(url: str, timeout_s: float) -> bool:
    try:
        with _OPENER.open(url, timeout=timeout_s) as response:
            return bool(response.status == 200)
    except (OSError, http.client.HTTPException):
        return False


def server_version(address: str) -> str:
    """The version a server reports, e.g. ``"2.51.0"``."""
    return str(_ask(address, "/v2")["version"])


def repository_index(address: str) -> tuple[ModelState, ...]:
    """Every model a server sees, in the server's order."""
    rows = _ask(address, "/v2/repository/index", body={})
    keys = ("name", "version", "state", "reason")
    return tuple(ModelState(**{key: str(row.get(key, "")) for key in keys}) for row in rows)


def model_config(address: str, model: str) -> dict[str, Any]:
    """The config of a model as the server completed it, in its JSON form."""
    answer = _ask(address, f"/v2/models/{quote(model, safe='')}/config")
    return dict(answer)


def _base(address: str) -> str:
    return address.rstrip("/") if "://" in address else f"http://{address}"


def _ask(address: str, path: str, *, body: object = None, timeout_s: float = 10.0) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{_base(address)}{path}", data=data)  # noqa: S310 - http(s) by construction
    try:
        with _OPENER.open(request, timeout=timeout_s) as response:
            return json.loads(response.read())
    except urllib.error.HTTPError as error:
        said = error.read().decode("utf-8", errors="replace").strip()
        raise ServerError(f"the server at {address} refused {path}: {error.code} {said[:300]}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise ServerError(
            f"no Triton answers at {address}: {error}", hint="is it running, and is this its HTTP address?"
        ) from error
