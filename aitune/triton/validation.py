"""``validate``: is what a running Triton serves what was recorded?

Starts a server of its own, or asks one that runs already; the latter is only read, and sent a few valid requests,
unless ``intrusive`` is given. The checks are in :mod:`aitune.triton.checks_live`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from aitune.errors import ArtifactIntegrityError, RecordError, ServerError, UsageError
from aitune.numerics import Array
from aitune.numerics.processor import processor
from aitune.triton.checks_live import checks_of
from aitune.triton.checks_live.context import BudgetSpent, Context, failed, skipped, warned
from aitune.triton.checks_live.numbers import check_numbers
from aitune.triton.client import DEFAULT_TIMEOUT_S
from aitune.triton.client_errors import EndpointRestricted, InferenceRefused, ServerTimeout, ServerUnreachable
from aitune.triton.endpoint import Tls
from aitune.triton.layout import require_root
from aitune.triton.progress import SILENT, Progress
from aitune.triton.sessions import Session, open_session, second_server
from aitune.triton.subjects import Subject, ask, make_request, subject_of, with_free_size
from aitune.triton.targets import Target, find_targets
from aitune.triton.validation_records import CheckResult, ModelReport, ValidationReport

__all__ = ["LEVELS", "ArtifactRunner", "OpenArtifact", "validate"]

LEVELS = ("quick", "full")
_GPU_SLACK = 10.0
_GUESSES = (8, 1, 32, 224)


class ArtifactRunner(Protocol):
    """Something that runs a model file, for reference answers."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Every output by name."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


OpenArtifact = Callable[[Path], ArtifactRunner]
"""Opens a model file; this room knows no runtime, so the pipeline hands one in."""


def validate(
    path: Path | str | None = None,
    *,
    models: Sequence[str] = (),
    version: str | None = None,
    url: str | Sequence[str] | None = None,
    protocol: str | None = None,
    level: str = "quick",
    server: str | None = None,
    strict_bounds: bool = False,
    intrusive: bool = False,
    headers: tuple[tuple[str, str], ...] = (),
    tls: Tls | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    open_artifact: OpenArtifact | None = None,
    progress: Progress = SILENT,
) -> ValidationReport:
    """Hold what a server serves against what was recorded.

    Args:
        path: Model repository with the records; without it the record is read from the server.
        models: Names or globs; all models when empty.
        version: Only this version.
        url: A running server (``HOST:PORT``, ``grpc://…``, ``http://…``), or two addresses of it, one a protocol; one
            of our own is started for ``path`` when None.
        protocol: Protocol of an address without a scheme.
        level: ``"quick"``, or ``"full"`` for more batch sizes and shapes.
        server: Which server to start; see :func:`aitune.triton.discovery.find_server`.
        strict_bounds: Take sizes beyond the tuned range that are accepted for a failure, not a warning.
        intrusive: Treat a running server as if it were ours: bad requests, many requests.
        headers: Sent with every request.
        tls: Files for TLS.
        timeout_s: Seconds one request may take.
        open_artifact: Runs a model file, for reference answers where no samples were kept.
        progress: Told how far it is.

    Raises:
        UsageError: If the arguments make no sense or no model matches.
        RepositoryError: If the repository cannot be read or is empty.
        ServerError: If no server can be started or reached.
    """
    if level not in LEVELS:
        raise UsageError(f"level must be 'quick' or 'full', got {level!r}")
    if path is not None:
        require_root(path)
    with open_session(
        path,
        url=url,
        protocol=protocol,
        server=server,
        headers=headers,
        tls=tls,
        timeout_s=timeout_s,
        progress=progress,
    ) as session:
        targets = find_targets(session, path, models, version)
        # First, for a server of our own may not outlive the checks.
        proved_by = session.proved_by([target.model for target in targets if not target.trouble])
        examine = partial(_examine, session, path, level, strict_bounds, intrusive, open_artifact, progress)
        reports = tuple(map(examine, targets))
    return ValidationReport(models=reports, proved_by=proved_by, level=level, server=session.label)


def _examine(
    session: Session,
    path: Path | str | None,
    level: str,
    strict_bounds: bool,
    intrusive: bool,
    open_artifact: OpenArtifact | None,
    progress: Progress,
    target: Target,
) -> ModelReport:
    """All checks of one version."""
    began = time.monotonic()
    if target.trouble:
        return ModelReport(name=target.model, version=target.version, checks=(failed("ready", target.trouble),))
    try:
        served = session.client.config(target.model, target.version)
        subject = subject_of(target.model, target.version, served, target.published)
    except EndpointRestricted as error:
        return ModelReport(name=target.model, version=target.version, checks=(skipped("config", str(error)),))
    except RecordError as error:
        return ModelReport(name=target.model, version=target.version, checks=(failed("record", str(error)),))
    except ServerUnreachable as error:
        if session.local is None:
            raise
        gone = failed("ready", f"the server is gone since an earlier check: {error}")
        return ModelReport(name=target.model, version=target.version, checks=(gone,))
    context = Context(
        subject=subject,
        clients=session.clients,
        own=session.local is not None or intrusive,
        server_pid=None if session.local is None else session.local.pid,
        strict_bounds=strict_bounds,
        certain=session.local is not None and _same_processor(subject),
        thorough=level == "full",
        repository=None if path is None else Path(path),
        start=None
        if session.local is None
        else partial(second_server, session.local.program, session.client.timeout_s),
        slack=_GPU_SLACK if _on_gpu(served) else 1.0,
    )
    progress.start(f"validating {target.model} version {target.version}", len(checks_of(level)))
    with _reference(subject, open_artifact) as run:
        results = list(_run_checks(context, level, run, progress))
    progress.done()
    return ModelReport(
        name=target.model,
        version=target.version,
        checks=tuple(results),
        claimed=subject.claimed.identity if subject.claimed is not None else "",
        proved=context.proved,
        requests=context.sent,
        seconds=time.monotonic() - began,
    )


def _run_checks(
    context: Context,
    level: str,
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]] | None,
    progress: Progress,
) -> Iterator[CheckResult]:
    """Every check in order; a model that is not ready, and a server that is gone, end it."""
    for name, check in checks_of(level).items():
        if name == "fingerprint" and context.subject.source == "config":
            _guess_sizes(context)
        guarded = check if name != "numbers" else partial(check_numbers, run=run)
        result, gone = _guarded(name, guarded, context)
        yield result
        progress.advance()
        if gone or (name == "ready" and result.status == "fail"):
            return


def _guarded(name: str, check: Callable[[Context], CheckResult], context: Context) -> tuple[CheckResult, bool]:
    """The result of a check, whatever it ran into, and whether the server is gone.

    Raises:
        ServerError: If a server that is not ours stopped answering; that is no verdict on its models.
    """
    try:
        return check(context), False
    except (EndpointRestricted, BudgetSpent) as error:
        return skipped(name, str(error)), False
    except (ServerUnreachable, ServerTimeout) as error:
        if not context.own:
            raise
        return failed(name, f"the server stopped answering: {error}"), isinstance(error, ServerUnreachable)
    except InferenceRefused as error:
        if context.subject.guesses:
            return warned(name, f"a made-up request was refused: {error}"), False
        return failed(name, f"a valid request was refused: {error}"), False
    except (UsageError, ArtifactIntegrityError, ServerError) as error:
        return failed(name, str(error)), False


def _guess_sizes(context: Context) -> None:
    """For a model that nobody recorded: the first guess of its free sizes that it accepts."""
    free = any(
        not isinstance(dim, int) and axis != spec.batch_axis
        for spec in context.subject.inputs
        for axis, dim in enumerate(spec.shape)
    )
    for size in _GUESSES if free else ():
        guess = with_free_size(context.subject, size)
        try:
            context.count()
            ask(context.client, guess, make_request(guess, "typical", seed=1))
        except InferenceRefused:
            continue
        except BudgetSpent:
            return
        context.subject = guess
        return


def _same_processor(subject: Subject) -> bool:
    """Whether the record was made on a processor like the one here; also where it does not say."""
    evidence = subject.artifact.evidence if subject.artifact is not None else None
    recorded = dict(evidence.provenance).get("cpu", "") if evidence is not None else ""
    return recorded in ("", processor())


def _on_gpu(config: object) -> bool:
    groups = getattr(config, "instance_group", ())
    return any(group.kind == group.Kind.Value("KIND_GPU") for group in groups)


@contextmanager
def _reference(
    subject: Subject, open_artifact: OpenArtifact | None
) -> Iterator[Callable[[Mapping[str, Array]], Mapping[str, Array]] | None]:
    """Something that runs the artifact, where it lies here; it is opened when it is first needed."""
    artifact = subject.artifact
    if artifact is None or open_artifact is None or not artifact.path.exists():
        yield None
        return
    opened: list[ArtifactRunner] = []

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        if not opened:
            opened.append(open_artifact(artifact.path))
        return opened[0].run(inputs)

    try:
        yield run
    finally:
        for runner in opened:
            runner.close()
