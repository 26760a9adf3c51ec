"""``status``: what does a running server serve, is it ready, and is it still what was published?

Only reads, and one golden probe a version: at most 20 inference requests for the whole server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aitune.errors import RecordError
from aitune.triton.checks_live.context import FOREIGN_REQUESTS, BudgetSpent, Context
from aitune.triton.checks_live.fingerprint import check_fingerprint
from aitune.triton.client import DEFAULT_TIMEOUT_S
from aitune.triton.client_errors import EndpointRestricted, InferenceRefused, ModelAbsent, ModelNotReady
from aitune.triton.endpoint import Tls
from aitune.triton.normalisation import differences
from aitune.triton.progress import SILENT, Progress
from aitune.triton.sessions import Session, open_session
from aitune.triton.subjects import Subject, subject_of
from aitune.triton.targets import Target, find_whole

__all__ = ["ServedVersion", "ServingStatus", "serving_status", "status_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedVersion:
    """One version of one model on the server, or one that should be there.

    Attributes:
        name: The model.
        version: The version; ``""`` when none was loaded.
        ready: Whether it is loaded.
        reason: Why it is not, ``""`` when it is.
        claimed: Fingerprint that its config claims; ``""`` for none.
        proved: Fingerprint that its answers proved; ``""`` for none.
        drift: Where it is not what was published, one line each.
        skipped: What could not be looked at, and why, one line each.
    """

    name: str
    version: str
    ready: bool
    reason: str = ""
    claimed: str = ""
    proved: str = ""
    drift: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The form that goes into the document."""
        return {
            "name": self.name,
            "version": self.version,
            "ready": self.ready,
            "reason": self.reason,
            "claimed": self.claimed,
            "proved": self.proved,
            "drift": list(self.drift),
            "skipped": list(self.skipped),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingStatus:
    """Everything that a server serves.

    Attributes:
        server: Its addresses.
        triton: Number of the server, e.g. ``"2.51.0"``; ``""`` when it does not say.
        models: By name and version.
        requests: Inference requests that were sent.
        skipped: What could not be looked at of the server as a whole, and why.
    """

    server: str
    triton: str
    models: tuple[ServedVersion, ...]
    requests: int = 0
    skipped: tuple[str, ...] = ()

    @property
    def drifted(self) -> bool:
        """Whether anything is not what was published."""
        return any(model.drift for model in self.models)

    def to_json(self) -> dict[str, Any]:
        """The document of ``status --format json``."""
        return {
            "server": self.server,
            "triton": self.triton,
            "drifted": self.drifted,
            "requests": self.requests,
            "skipped": list(self.skipped),
            "models": [model.to_json() for model in self.models],
        }


def serving_status(
    path: Path | str | None = None,
    *,
    url: str | Sequence[str],
    models: Sequence[str] = (),
    protocol: str | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    tls: Tls | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    progress: Progress = SILENT,
) -> ServingStatus:
    """Look at a running server without touching it.

    Args:
        path: Model repository to hold it against; without one only what the server says of itself can drift.
        url: The server, or two addresses of it, one a protocol.
        models: Names or globs; all models when empty.
        protocol: Protocol of an address without a scheme.
        headers: Sent with every request.
        tls: Files for TLS.
        timeout_s: Seconds one request may take.
        progress: Told how far it is.

    Raises:
        RepositoryError: If the repository cannot be read.
        ServerError: If the server cannot be reached.
    """
    with open_session(None, url=url, protocol=protocol, headers=headers, tls=tls, timeout_s=timeout_s) as session:
        return status_of(session, path, models, progress)


def status_of(
    session: Session, path: Path | str | None = None, models: Sequence[str] = (), progress: Progress = SILENT
) -> ServingStatus:
    """The same over connections that are open."""
    targets, closed = find_whole(session, path, models)
    skipped = [f"the server does not list its models: {closed}"] if closed else []
    progress.start(f"looking at {session.label}", len(targets))
    found, sent = [], 0
    for target in targets:
        row, sent = _look(session, target, against=path is not None, sent=sent)
        found.append(row)
        progress.advance()
    progress.done()
    triton = _number(session, skipped)
    return ServingStatus(
        server=session.label, triton=triton, models=tuple(found), requests=sent, skipped=tuple(skipped)
    )


def _number(session: Session, skipped: list[str]) -> str:
    try:
        return session.client.server().version
    except EndpointRestricted as error:
        skipped.append(f"the server does not say which it is: {error}")
        return ""


def _look(session: Session, target: Target, *, against: bool, sent: int) -> tuple[ServedVersion, int]:
    """One row of the table, and the inference requests sent so far."""
    name, version = target.model, target.version
    if target.trouble:
        drift = (f"published, not served: {target.trouble}",) if target.published is not None else ()
        return ServedVersion(name=name, version=version, ready=False, reason=target.trouble, drift=drift), sent
    try:
        subject = subject_of(name, version, session.client.config(name, version), target.published)
    except EndpointRestricted as error:
        return ServedVersion(name=name, version=version, ready=True, skipped=(f"config: {error}",)), sent
    except (ModelAbsent, ModelNotReady) as error:  # it was unloaded while we looked
        return ServedVersion(name=name, version=version, ready=False, reason=str(error)), sent
    except RecordError as error:
        return ServedVersion(name=name, version=version, ready=True, drift=(f"record: {error}",)), sent
    context = Context(subject=subject, clients={"any": session.client}, own=False, certain=False, sent=sent)
    wrong, untold = _probed(context)
    row = ServedVersion(
        name=name,
        version=version,
        ready=True,
        claimed=subject.claimed.identity if subject.claimed is not None else "",
        proved=context.proved,
        drift=(*(_drift(subject) if against else ()), *wrong),
        skipped=untold,
    )
    return row, context.sent


def _probed(context: Context) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the golden probe says against the claim, and why it could say nothing."""
    try:
        result = check_fingerprint(context)
    except BudgetSpent:
        return (), (f"not proved: a server that is not ours is sent at most {FOREIGN_REQUESTS} requests",)
    except (EndpointRestricted, InferenceRefused) as error:
        return (), (f"not proved: {error}",)
    wrong = (result.detail,) if result.status == "fail" else ()
    return wrong, (result.detail,) if result.status in ("skip", "warn") else ()


def _drift(subject: Subject) -> Iterator[str]:
    """Where a served version is not the repository's."""
    published, version = subject.published, subject.version
    if published is None:
        yield "served, but not in the repository"
        return
    if published.served and version not in published.served:
        yield f"version {version} is served, the repository has {', '.join(published.served)} served"
    lines = differences(published.config, subject.served)
    if lines:
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        yield f"config: {lines[0]}{more}"
    artifact = published.artifact
    if artifact is not None and subject.claimed is not None and artifact.identity != subject.claimed.identity:
        yield f"fingerprint: {artifact.identity[:12]} published, {subject.claimed.identity[:12]} claimed"
    if artifact is not None and subject.claimed is None:
        yield "record: the served config carries none"
