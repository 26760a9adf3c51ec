"""A Triton server that aitune starts and stops."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from aitune.errors import RepositoryError, ServerError
from aitune.process import Background
from aitune.triton import server_http
from aitune.triton.discovery import find_server
from aitune.triton.layout import require_root
from aitune.triton.programs import Ports, ServerOptions, ServerProgram
from aitune.triton.proved_by import ProvedBy
from aitune.triton.remote_server import RemoteServer, Server
from aitune.triton.server_http import ModelState
from aitune.triton.server_log import busy_port, crash, failures, plain_reason, still_loading, telling_lines

__all__ = ["LocalServer", "RemoteServer", "Server"]

_ATTEMPTS = 3  # another program may take a free port between our look and the server's
# What the Python backend dies of when a busy machine lets one of its stubs starve while they share a lock.
_CHANCE_CRASH = "boost::interprocess::lock_exception"


class LocalServer:
    """A server of our own on 127.0.0.1, ready when the ``with`` block begins and gone when it ends.

    Ready means that loading is over: models may have failed, see :meth:`models`. All of it is bounded: a load that
    never ends is reported with the names of the models that hang.

    Args:
        repository: The model repository.
        program: What to start; the first of :func:`aitune.triton.discovery.find_server` when None.
        log: File for its output, kept; when None the log is kept only if the server does not come up.
        explicit: Load only what is asked for (``load_models`` and load requests).
        poll: Look for changes of the repository every second.
        load_models: Models to load at start; only with ``explicit``.
        model_config_name: Overlay to prefer, ``configs/<name>.pbtxt``.
        strict: Switch auto-completion of configs off.
        exit_on_error: Take a model that fails for a server that fails.
        exit_timeout_s: Seconds for requests that are running when it is stopped.
        extra_args: More arguments for tritonserver.
        ready_timeout_s: Seconds until it must be ready.
        http_port: A certain port; a free one when None. The same for the other two.
        grpc_port: See ``http_port``.
        metrics_port: See ``http_port``.

    Raises:
        RepositoryError: If the repository is not a directory.
        ServerError: If there is no server to start, a port is taken, or it does not become ready.
    """

    def __init__(
        self,
        repository: Path | str,
        *,
        program: ServerProgram | None = None,
        log: Path | None = None,
        explicit: bool = False,
        poll: bool = False,
        load_models: Sequence[str] = (),
        model_config_name: str | None = None,
        strict: bool = False,
        exit_on_error: bool = False,
        exit_timeout_s: int = 1,
        extra_args: Sequence[str] = (),
        ready_timeout_s: float = 120.0,
        http_port: int | None = None,
        grpc_port: int | None = None,
        metrics_port: int | None = None,
    ) -> None:
        self._repository = Path(repository)
        self._program = program
        self._asked_log = log
        self._control = "explicit" if explicit else "poll" if poll else "none"
        self._load_models = tuple(load_models)
        self._model_config_name = model_config_name
        self._strict = strict
        self._exit_on_error = exit_on_error
        self._exit_timeout_s = exit_timeout_s
        self._extra_args = tuple(extra_args)
        self._ready_timeout_s = ready_timeout_s
        self._wanted = (http_port, grpc_port, metrics_port)
        self._stack = ExitStack()
        self._ports = Ports(http=0, grpc=0, metrics=0)
        self._process: Background | None = None

    def __enter__(self) -> Self:
        _check_name(require_root(self._repository).resolve())
        program = self._program = self._program or find_server()
        for attempt in range(1, _ATTEMPTS + 1):
            self._ports = _ports(self._wanted)
            with ExitStack() as stack:
                workspace = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aitune-server-")))
                self._process = self._start(program, workspace, stack)
                if self._wait(last=attempt == _ATTEMPTS):
                    self._stack = stack.pop_all()
                    break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def http(self) -> str:
        """Where it speaks HTTP."""
        return f"127.0.0.1:{self._ports.http}"

    @property
    def grpc(self) -> str:
        """Where it speaks gRPC."""
        return f"127.0.0.1:{self._ports.grpc}"

    @property
    def metrics(self) -> str:
        """Where it gives metrics."""
        return f"127.0.0.1:{self._ports.metrics}"

    @property
    def pid(self) -> int:
        """Its process id (of the Docker client, for an image)."""
        return self._running.pid

    @property
    def program(self) -> ServerProgram:
        """What was started."""
        if self._program is None:
            raise RuntimeError("the server was not started: use it in a with block")
        return self._program

    @property
    def log(self) -> Path:
        """Its log."""
        return self._running.log

    def poll(self) -> int | None:
        """Exit status once it has ended, None while it runs."""
        return self._running.poll()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for its end and return its exit status; None when it still runs after ``timeout_s`` seconds."""
        return self._running.wait(timeout_s)

    def log_text(self) -> str:
        """All it has said so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def models(self) -> tuple[ModelState, ...]:
        """Every model it sees; what its index does not tell (reasons, models without a version) is in the log."""
        reasons = failures(self.log_text())
        index = server_http.repository_index(self.http)
        unlisted = [ModelState(name=name) for name in reasons.keys() - {row.name for row in index}]
        return tuple(
            row if row.ready else replace(row, reason=plain_reason(row.reason) or reasons.get(row.name, ""))
            for row in (*index, *sorted(unlisted, key=lambda row: row.name))
        )

    def proved_by(self) -> ProvedBy:
        """What stands behind its answers."""
        return ProvedBy(
            implementation=self.program.implementation,
            server=server_http.server_version(self.http),
            onnxruntime=self.program.onnxruntime,
        )

    @property
    def _running(self) -> Background:
        if self._process is None:
            raise RuntimeError("the server was not started: use it in a with block")
        return self._process

    def _start(self, program: ServerProgram, workspace: Path, stack: ExitStack) -> Background:
        options = ServerOptions(
            repository=self._repository,
            ports=self._ports,
            control=self._control,
            load_models=self._load_models,
            model_config_name=self._model_config_name,
            strict=self._strict,
            exit_on_error=self._exit_on_error,
            exit_timeout_s=self._exit_timeout_s,
            extra_args=self._extra_args,
        )
        launch = program.launch(options, workspace)
        stack.callback(launch.undo)
        log = self._asked_log or workspace / "server.log"
        return stack.enter_context(Background(launch.argv, log=log, env=launch.env, grace_s=options.exit_timeout_s + 5))

    def _wait(self, *, last: bool) -> bool:
        """Wait until it is ready; False when it ended for a reason that a new try may well not meet again."""
        deadline = time.monotonic() + self._ready_timeout_s
        pause_s = 0.02
        while not self._is_up():
            if self._running.poll() is not None:
                text = self.log_text()
                by_chance = (busy_port(text) and None in self._wanted) or crash(text) == _CHANCE_CRASH
                if by_chance and not last:
                    return False
                raise self._ended(text)
            if time.monotonic() > deadline:
                raise self._late()
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.25)
        return True

    def _is_up(self) -> bool:
        """Whether it is ready and all of it listens: metrics come last, and without their port the server gives up."""
        wants_metrics = not any(argument.startswith("--allow-metrics") for argument in self._extra_args)
        return server_http.is_ready(self.http) and (not wants_metrics or server_http.has_metrics(self.metrics))

    def _ended(self, text: str) -> ServerError:
        busy, status = busy_port(text), self._running.poll() or 0
        if busy:
            return ServerError(f"tritonserver cannot listen on {busy}: it is in use", hint="choose another port")
        how = f"crashed with {crash(text) or f'signal {-status}'}" if status < 0 else f"ended with status {status}"
        said = [f"{name}: {reason}" for name, reason in failures(text).items()][-3:] or telling_lines(text, most=3)
        return ServerError(
            f"tritonserver {how} before it was ready: {'; '.join(said) or 'it said nothing'}",
            hint=f"its log: {self._kept_log()}",
        )

    def _late(self) -> ServerError:
        loading = ", ".join(repr(name) for name in still_loading(self.log_text())) or "no model"
        return ServerError(
            f"tritonserver was not ready within {self._ready_timeout_s:g} s; still loading: {loading}",
            hint=f"its log: {self._kept_log()}",
        )

    def _kept_log(self) -> Path:
        """The log at a place that outlives the server."""
        if self._asked_log is not None:
            return self._asked_log
        with tempfile.NamedTemporaryFile(prefix="aitune-server-", suffix=".log", delete=False) as kept:
            shutil.copyfile(self.log, kept.name)
        return Path(kept.name)


def _check_name(root: Path) -> None:
    """Refuse a path that the server's backends cannot read.

    Raises:
        RepositoryError: If it is not UTF-8.
    """
    try:
        str(root).encode()
    except UnicodeEncodeError as error:
        raise RepositoryError(
            f"model repository {str(root)!r} has a name that is not UTF-8, from which no server can load a model",
            hint="rename the folder, or copy the repository to another place",
        ) from error


def _ports(wanted: Sequence[int | None]) -> Ports:
    """Free ports on 127.0.0.1, and the wanted ones checked."""
    with ExitStack() as stack:
        found = [_bind(port, stack) for port in wanted]
    http, grpc, metrics = found
    return Ports(http=http, grpc=grpc, metrics=metrics)


def _bind(port: int | None, stack: ExitStack) -> int:
    holder = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind(("127.0.0.1", port or 0))
    except OSError as error:
        raise ServerError(
            f"port {port} on 127.0.0.1 cannot be used: {error.strerror}", hint="choose another port, or leave it out"
        ) from error
    return int(holder.getsockname()[1])
