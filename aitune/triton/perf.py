"""``perf``: what perf_analyzer measures on a model, with valid data.

perf_analyzer is run once for every shape and load level, so that Triton's own counters tell for each of them how many
executions its requests took: a throughput alone does not say whether batches were formed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aitune.errors import InconclusiveError, ProgramError, UsageError
from aitune.process import Run, run_program
from aitune.triton.client import DEFAULT_TIMEOUT_S, Client, Tensor
from aitune.triton.endpoint import Tls
from aitune.triton.perf_analyzer import Load, PerfCommand, find_perf_analyzer, run_perf_analyzer
from aitune.triton.perf_data import write_data
from aitune.triton.perf_records import PerfPoint, PerfReport
from aitune.triton.perf_results import Row, parse_csv
from aitune.triton.progress import SILENT, Progress
from aitune.triton.sessions import Session, open_session
from aitune.triton.subjects import Subject, make_request, recorded_requests, subject_of, to_client
from aitune.triton.targets import Target, find_targets

__all__ = ["SHAPES", "UnstableMeasurement", "perf"]

SHAPES = ("smallest", "typical", "largest")
_ROWS = 8
_SEED = 2024
_WHOLE_RANGE = ("-l", "--latency-threshold", "--binary-search")


class UnstableMeasurement(InconclusiveError):
    """perf_analyzer could not get stable numbers for every load level.

    Args:
        message: Which levels.
        report: What was measured all the same.
    """

    def __init__(self, message: str, *, report: PerfReport) -> None:
        super().__init__(message, hint="give it longer windows (-- --measurement-interval 10000), or a quieter machine")
        self.report = report


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What stays the same for all points of a run."""

    subject: Subject
    client: Client
    command: PerfCommand
    timeout_s: float
    run: Run
    whole: bool


def perf(
    path: Path | str | None = None,
    *,
    model: str,
    version: str | None = None,
    url: str | None = None,
    protocol: str | None = None,
    load: Load | None = None,
    batch_size: int = 1,
    shapes: Sequence[str] = ("typical",),
    flags: Sequence[str] = (),
    interval_ms: int = 2000,
    server: str | None = None,
    perf_analyzer: str | Path | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    tls: Tls | None = None,
    timeout_s: float = 600.0,
    progress: Progress = SILENT,
    run: Run = run_program,
) -> PerfReport:
    """Measure one model with perf_analyzer.

    Args:
        path: Model repository; served by a server of our own when no URL is given.
        model: Name of the model.
        version: Its version; the newest served one when None.
        url: A running server.
        protocol: ``"grpc"`` or ``"http"``; gRPC for a server of our own when None.
        load: Load levels; one request at a time when None.
        batch_size: Rows a request.
        shapes: Which of ``"smallest"``, ``"typical"``, ``"largest"`` to measure.
        flags: More flags for perf_analyzer.
        interval_ms: Length of a measurement window, unless a flag says so.
        server: Which server to start; see :func:`aitune.triton.discovery.find_server`.
        perf_analyzer: Which program to run; see :func:`aitune.triton.perf_analyzer.find_perf_analyzer`.
        headers: Sent with every request.
        tls: Files for TLS.
        timeout_s: Seconds that one run of perf_analyzer may take.
        progress: Told how far it is.
        run: Runs a program to its end.

    Raises:
        UsageError: If the arguments do not fit each other or the model.
        ProgramError: If perf_analyzer is missing or fails.
        ServerError: If no server can be started or reached.
        UnstableMeasurement: If a level did not become stable; the rest is in its ``report``.
    """
    unknown = [shape for shape in shapes if shape not in SHAPES]
    if unknown or not shapes:
        raise UsageError(f"shapes must be some of {', '.join(SHAPES)}, got {list(shapes)!r}")
    program = find_perf_analyzer(perf_analyzer)
    load = load or Load(kind="concurrency", start=1, end=1)
    with (
        tempfile.TemporaryDirectory(prefix="aitune-perf-") as folder,
        open_session(
            path, url=url, protocol=protocol, server=server, headers=headers, tls=tls,
            timeout_s=DEFAULT_TIMEOUT_S, progress=progress,
        ) as session,
    ):  # fmt: skip
        client = _client(session, protocol)
        subject = _subject(session, path, model, version)
        _check_batch(subject, batch_size)
        command = PerfCommand(
            program=program,
            model=subject.model,
            version=subject.version,
            endpoint=client.endpoint,
            load=load,
            batch_size=batch_size,
            input_data=Path(folder, "data.json"),
            csv=Path(folder, "report.csv"),
            interval_ms=interval_ms,
            flags=tuple(flags),
        )
        plan = _Plan(
            subject=subject,
            client=client,
            command=command,
            timeout_s=timeout_s,
            run=run,
            whole=any(flag.partition("=")[0] in _WHOLE_RANGE for flag in flags),
        )
        report = _measure(plan, shapes, progress)
        report = replace(report, proved_by=session.proved_by([model]), server=session.label)
    if report.unstable:
        raise UnstableMeasurement(
            f"perf_analyzer got no stable measurement of {model!r} at {', '.join(report.unstable)}", report=report
        )
    return report


def _measure(plan: _Plan, shapes: Sequence[str], progress: Progress) -> PerfReport:
    levels = [plan.command.load] if plan.whole else [plan.command.load.at(level) for level in plan.command.load.levels]
    progress.start(f"measuring {plan.subject.model}", len(levels) * len(shapes))
    points: list[PerfPoint] = []
    unstable: list[str] = []
    missing: list[str] = []
    commands, requests = [], []
    for label in shapes:
        command = _with_data(plan, label)
        commands.append(command.argv)
        requests.append((label, command.input_data.read_text(encoding="utf-8")))
        for load in levels:
            found = _point(plan, replace(command, load=load), label)
            points += found
            word = load.kind.replace("_", " ")
            if not found:
                unstable.append(f"{word} {load.text} ({label})")
            elif plan.whole:
                measured = {point.level for point in found}
                missing += [f"{word} {level:g} ({label})" for level in load.levels if level not in measured]
            progress.advance()
    progress.done()
    return PerfReport(
        model=plan.subject.model,
        version=plan.subject.version,
        command=commands[0],
        points=tuple(points),
        unstable=tuple(unstable),
        missing=tuple(missing),
        requests=tuple(requests),
        batching=plan.subject.max_batch_size > 1 and plan.subject.served.HasField("dynamic_batching"),
    )


def _point(plan: _Plan, command: PerfCommand, label: str) -> list[PerfPoint]:
    """One run, tried again with longer windows when it was not stable; nothing when it still is not."""
    for attempt in (command, replace(command, interval_ms=2 * command.interval_ms)):
        attempt.csv.unlink(missing_ok=True)
        before = plan.client.statistics(plan.subject.model, plan.subject.version)
        stable = run_perf_analyzer(attempt, timeout_s=plan.timeout_s, run=plan.run)
        grown = plan.client.statistics(plan.subject.model, plan.subject.version).since(before)
        rows = _rows(attempt.csv)
        if stable and rows:
            counts = (grown.inferences, grown.executions) if len(rows) == 1 else (None, None)
            return [_told(plan, attempt, row, label, counts) for row in rows]
    return []


def _told(plan: _Plan, command: PerfCommand, row: Row, label: str, counts: tuple[int | None, int | None]) -> PerfPoint:
    request = _request(plan.subject, label)
    return PerfPoint(
        kind=command.load.kind,
        level=row.level,
        batch_size=command.batch_size,
        label=label,
        shape=tuple((name, _per_request(plan.subject, array)) for name, (array, _) in request.items()),
        throughput_per_s=row.throughput_per_s,
        p50_us=row.p50_us,
        p90_us=row.p90_us,
        p95_us=row.p95_us,
        p99_us=row.p99_us,
        inferences=counts[0],
        executions=counts[1],
        parts_us=row.parts_us,
    )


def _rows(path: Path) -> tuple[Row, ...]:
    try:
        return parse_csv(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ProgramError(f"the report of perf_analyzer cannot be read: {error}") from error


def _with_data(plan: _Plan, label: str) -> PerfCommand:
    """The command with data of one shape written for it."""
    subject = plan.subject
    request = _request(subject, label)
    write_data(plan.command.input_data, [request], batched=subject.max_batch_size > 0)
    free = {name for name, view in subject.input_views.items() if -1 in view.dims}
    return replace(
        plan.command,
        shapes=tuple((name, _per_request(subject, array)) for name, (array, _) in request.items() if name in free),
    )


def _per_request(subject: Subject, array: object) -> tuple[int, ...]:
    """Sizes as perf_analyzer counts them: without the batch axis, where there is one."""
    shape: tuple[int, ...] = getattr(array, "shape", ())
    return shape[1:] if subject.max_batch_size > 0 else shape


def _request(subject: Subject, label: str) -> dict[str, Tensor]:
    """A recorded request of this label; a made-up one with several different rows where there is none."""
    for request in recorded_requests(subject):
        if request.label == label:
            return to_client(subject, request.inputs)
    rows = min(_ROWS, subject.max_batch_size) if subject.max_batch_size else None
    return to_client(subject, make_request(subject, label, seed=_SEED, rows=rows))


def _client(session: Session, protocol: str | None) -> Client:
    if protocol is None:
        return session.client
    if protocol not in session.clients:
        raise UsageError(f"protocol must be one of {', '.join(session.clients)}, got {protocol!r}")
    return session.clients[protocol]


def _subject(session: Session, path: Path | str | None, model: str, version: str | None) -> Subject:
    targets = find_targets(session, path, [model], version)
    ready = [target for target in targets if not target.trouble]
    if not ready:
        raise UsageError(f"model {model!r} cannot be measured: {targets[-1].trouble}")
    target: Target = ready[-1]
    served = session.client.config(target.model, target.version)
    return subject_of(target.model, target.version, served, target.published)


def _check_batch(subject: Subject, batch_size: int) -> None:
    if batch_size < 1 or batch_size > max(1, subject.max_batch_size):
        raise UsageError(
            f"a batch of {batch_size} does not fit {subject.model!r}, whose max_batch_size is {subject.max_batch_size}",
            hint="ask for 1, or build the model with a larger batch",
        )
