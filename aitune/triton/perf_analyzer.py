"""Finding NVIDIA's perf_analyzer, building its command and running it. It is never imitated.

Facts that shape this module: on a system with glibc older than 2.38 ``pip install perf-analyzer`` installs a
placeholder without a program; exit status 2 means that the measurement never became stable; and a load level that did
not become stable may also just be missing from the report, with exit status 0.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from aitune.errors import ProgramError, UsageError
from aitune.process import Run, run_program
from aitune.triton.endpoint import Endpoint

__all__ = ["Load", "PerfCommand", "find_perf_analyzer", "run_perf_analyzer"]

ENVIRONMENT_VARIABLE = "AITUNE_PERF_ANALYZER"
UNSTABLE_STATUS = 2
_TOO_SHORT = "No valid requests recorded within time interval"  # it has no status of its own for that
_NAME = "perf_analyzer"
_HINT = (
    "run scripts/install-perf-analyzer of the aitune-triton repository, or with glibc 2.38 or newer: "
    f"pip install perf-analyzer; or name one with --perf-analyzer or {ENVIRONMENT_VARIABLE}"
)


def find_perf_analyzer(
    explicit: str | Path | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
    roots: Sequence[Path] | None = None,
) -> Path:
    """The perf_analyzer to run.

    Looked for in this order: ``explicit``, the environment variable ``AITUNE_PERF_ANALYZER``, ``PATH``, the folder of
    the running Python, the package perf-analyzer, ``.tools/perf_analyzer/bin`` under ``roots``.

    Args:
        explicit: What the user named: a path or a program on ``PATH``.
        env: Environment to read.
        which: Looks a program up.
        roots: Folders that may hold ``.tools``; the working directory and the source tree when None.

    Raises:
        ProgramError: If there is none; the hint says how to get one.
    """
    for named, origin in ((explicit, "--perf-analyzer"), (env.get(ENVIRONMENT_VARIABLE), ENVIRONMENT_VARIABLE)):
        if named:
            found = which(str(named))
            if found is None:
                raise ProgramError(f"{origin} names {str(named)!r}, which is no executable file", hint=_HINT)
            return Path(found).absolute()
    on_path = which(_NAME)
    if on_path is not None:
        return Path(on_path).absolute()
    if roots is None:
        roots = (Path.cwd(), Path(__file__).resolve().parents[2])
    places = [Path(sys.executable).parent / _NAME, *_package_programs()]
    places += [root / ".tools" / _NAME / "bin" / _NAME for root in roots]
    for place in places:
        if which(str(place)):
            return place.absolute()
    raise ProgramError(f"perf_analyzer is not installed{_placeholder()}", hint=_HINT)


def _package_programs() -> list[Path]:
    """Programs inside the installed package perf-analyzer; its script may lie in a folder that is not on ``PATH``."""
    try:
        files = metadata.files("perf-analyzer") or []
    except metadata.PackageNotFoundError:
        return []
    return [Path(str(file.locate())) for file in files if file.name == _NAME and "bin" in file.parts]


def _placeholder() -> str:
    try:
        version = metadata.version("perf-analyzer")
    except metadata.PackageNotFoundError:
        return ""
    return f" (the package perf-analyzer {version} is there, but it is a placeholder without the program)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A range of load levels: how many requests are outstanding, or how many arrive a second.

    Attributes:
        kind: ``"concurrency"`` or ``"request_rate"``.
        start: First level.
        end: Last level, at least ``start``.
        step: Distance between two levels.

    Raises:
        UsageError: If there is no level in it.

    >>> Load.parse("1:8:2").levels
    (1.0, 3.0, 5.0, 7.0)
    """

    kind: str
    start: float
    end: float
    step: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.start <= self.end or self.step <= 0:
            raise UsageError(
                f"{self.kind} range needs 0 < start <= end and step > 0, got {self.text}", hint="write e.g. 1:8:1"
            )

    @classmethod
    def parse(cls, text: str, kind: str = "concurrency") -> Load:
        """A range from ``START[:END[:STEP]]``.

        Args:
            text: What the user wrote.
            kind: ``"concurrency"`` (whole numbers) or ``"request_rate"``.

        Raises:
            UsageError: If it is no such range.
        """
        number: type[int] | type[float] = int if kind == "concurrency" else float
        try:
            values = [number(piece) for piece in text.split(":")]
        except ValueError as error:
            raise UsageError(f"{kind} range {text!r} is not START:END:STEP", hint="write e.g. 1:8:1") from error
        if not 1 <= len(values) <= 3:
            raise UsageError(f"{kind} range {text!r} is not START:END:STEP", hint="write e.g. 1:8:1")
        start, end, step = [*values, *[values[0], 1][len(values) - 1 :]]
        return cls(kind=kind, start=float(start), end=float(end), step=float(step))

    @property
    def levels(self) -> tuple[float, ...]:
        """Every level, first to last."""
        count = int((self.end - self.start) / self.step + 1e-9) + 1
        return tuple(self.start + index * self.step for index in range(count))

    @property
    def text(self) -> str:
        """As perf_analyzer wants it: ``START:END:STEP``, or one number."""
        if self.start == self.end:
            return f"{self.start:g}"
        return ":".join(f"{value:g}" for value in (self.start, self.end, self.step))

    def at(self, level: float) -> Load:
        """One level of it."""
        return Load(kind=self.kind, start=level, end=level, step=self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfCommand:
    """Everything perf_analyzer is told.

    Attributes:
        program: The program.
        model: Model to measure.
        version: Its version, ``""`` for the newest.
        endpoint: Server to measure.
        load: Load levels.
        batch_size: Rows a request; 1 for a model that does not batch.
        shapes: (input, sizes without the batch axis) pairs, for inputs with a free size.
        input_data: File with the requests to send.
        csv: File it writes its report to.
        interval_ms: Length of a measurement window.
        flags: More flags, passed on as they are; they win over ours.
    """

    program: Path
    model: str
    version: str = ""
    endpoint: Endpoint
    load: Load
    batch_size: int = 1
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    input_data: Path
    csv: Path
    interval_ms: int = 2000
    flags: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command, program first."""
        option = "--concurrency-range" if self.load.kind == "concurrency" else "--request-rate-range"
        argv = [str(self.program), "-m", self.model]
        if self.version:
            argv += ["-x", self.version]
        argv += ["-u", self.endpoint.address + self.endpoint.prefix, "-i", self.endpoint.protocol]
        argv += [option, self.load.text]
        if self.batch_size != 1:
            argv += ["-b", str(self.batch_size)]
        argv += ["--input-data", str(self.input_data)]
        for name, sizes in self.shapes:
            argv += ["--shape", f"{name}:{','.join(map(str, sizes))}"]
        if not _given(self.flags, "-p", "--measurement-interval"):
            argv += ["--measurement-interval", str(self.interval_ms)]
        argv += ["-f", str(self.csv), "--verbose-csv", *_security(self.endpoint), *self.flags]
        return tuple(argv)


def run_perf_analyzer(command: PerfCommand, *, timeout_s: float, run: Run = run_program) -> bool:
    """Run it and return whether what it measured was stable; the report is in the command's CSV file.

    Args:
        command: What to run.
        timeout_s: Seconds it may take.
        run: Runs a program to its end.

    Raises:
        UsageError: If it refuses its arguments.
        ProgramError: If it fails for another reason than an unstable measurement.
    """
    done = run(command.argv, timeout_s=timeout_s)
    if done.returncode == UNSTABLE_STATUS or (done.returncode != 0 and _TOO_SHORT in done.stderr):
        return False
    if done.returncode == 0:
        return True
    by_hand = f"run it by hand: {' '.join(command.argv)}"
    lines = [" ".join(line.split()) for line in done.stderr.splitlines() if line.strip()]
    usage = next((index for index, line in enumerate(lines) if line.startswith("Usage:")), None)
    if usage is not None:
        raise UsageError(
            f"perf_analyzer refuses its arguments: {'; '.join(lines[:usage]) or 'no reason'}", hint=by_hand
        )
    reason = "; ".join(lines[-3:]) or f"exit status {done.returncode}"
    raise ProgramError(f"perf_analyzer failed on {command.model!r}: {reason}", hint=by_hand)


def _given(flags: Sequence[str], *names: str) -> bool:
    return any(flag.partition("=")[0] in names for flag in flags)


def _security(endpoint: Endpoint) -> list[str]:
    """Headers and TLS files in the words of perf_analyzer."""
    argv: list[str] = []
    for name, value in endpoint.headers:
        argv += ["-H", f"{name}:{value}"]
    tls = endpoint.tls
    if tls is None:
        return argv
    if endpoint.protocol == "grpc":
        words = (
            "--ssl-grpc-root-certifications-file",
            "--ssl-grpc-certificate-chain-file",
            "--ssl-grpc-private-key-file",
        )
        argv += ["--ssl-grpc-use-ssl"]
    else:
        words = (
            "--ssl-https-ca-certificates-file",
            "--ssl-https-client-certificate-file",
            "--ssl-https-private-key-file",
        )
        if not tls.verify:
            argv += ["--ssl-https-verify-peer", "0", "--ssl-https-verify-host", "0"]
    for word, path in zip(words, (tls.ca, tls.certificate, tls.key), strict=True):
        if path is not None:
            argv += [word, str(path)]
    return argv
