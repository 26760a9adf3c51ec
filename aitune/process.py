"""Starting and stopping programs: to completion, or in the background for as long as a ``with`` block lasts.

A program is a list of arguments, never a shell line. Whatever happens to us, it does not outlive us: leaving the block,
an exception and Ctrl-C stop it (TERM, then KILL for its whole process group), and on Linux the kernel sends TERM when
we are killed ourselves.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

from aitune.errors import ProgramError

__all__ = ["Background", "Completed", "Run", "find_program", "run_program", "tail"]

# Runs before the program, in the same process: asks the kernel for TERM when the parent dies, and is gone with exec.
# Not a preexec_fn: that would run Python between fork and exec while other threads (gRPC's, torch's) hold locks.
_LEASH = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)\n"
    "if os.getppid() != int(sys.argv[1]): os._exit(143)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A program that ended.

    Attributes:
        argv: What was run, program first.
        returncode: Its exit status; negative is the number of the signal that ended it.
        stdout: All it wrote there, undecodable bytes replaced.
        stderr: The same for the other stream.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


class Run(Protocol):
    """Anything that runs a program to its end, so that a test hands in a function instead of :func:`run_program`."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Completed:
        """Run ``argv`` and return how it ended."""
        ...


def find_program(name: str, *, env: Mapping[str, str] | None = None) -> str:
    """The absolute path of a program, looked up as a shell would.

    Args:
        name: A bare name, searched on ``PATH``, or a path.
        env: Environment whose ``PATH`` counts; ours when None.

    Raises:
        ProgramError: If there is no such program or it may not be executed.
    """
    found = shutil.which(name, path=None if env is None else env.get("PATH"))
    if found is None:
        where = "is no executable file" if os.sep in name else "is not on PATH"
        raise ProgramError(f"program {name!r} {where}", hint=f"install {Path(name).name!r} or give its full path")
    return os.path.abspath(found)


def run_program(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Completed:
    """Run a program to its end and return what it wrote; a nonzero exit status is an answer, not an error.

    Args:
        argv: The program and its arguments.
        timeout_s: Seconds it may take; then it and everything it started are stopped.
        env: Its whole environment; ours when None.
        cwd: Its working directory; ours when None.

    Raises:
        ProgramError: If it cannot be started or did not end in time.
    """
    with _open(argv, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise ProgramError(
                f"{argv[0]!r} did not end within {timeout_s:g} s and was stopped",
                hint="give it more time, or run it by hand to see what it waits for",
            ) from error
        finally:
            _stop(process, grace_s=2.0)
    return Completed(argv=tuple(argv), returncode=process.returncode, stdout=_text(out), stderr=_text(err))


class Background:
    """A program that runs while a ``with`` block lasts, in a process group of its own, writing to a log file.

    Args:
        argv: The program and its arguments.
        log: File that receives both of its streams; emptied first.
        env: Its whole environment; ours when None.
        cwd: Its working directory; ours when None.
        grace_s: Seconds between TERM and KILL when it is stopped.

    Attributes:
        log: The log file; it stays when the program is gone.

    The kernel's "your parent died" follows the *thread* that started a program, so only programs started from the main
    thread are put on that leash.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        grace_s: float = 10.0,
    ) -> None:
        self.log = log
        self._argv = tuple(argv)
        self._env = env
        self._cwd = cwd
        self._grace_s = grace_s
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("wb") as stream:
            argv = _leashed(self._argv, env=self._env)
            self._process = _open(argv, env=self._env, cwd=self._cwd, stdout=stream, stderr=subprocess.STDOUT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group."""
        return self._running.pid

    def poll(self) -> int | None:
        """Exit status once it has ended, None while it runs."""
        return self._running.poll()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for its end and return its exit status; None when it still runs after ``timeout_s`` seconds."""
        try:
            return self._running.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """Stop it now: TERM, and after the grace KILL for it and all it started. Harmless when it has ended."""
        if self._process is not None:
            _stop(self._process, grace_s=self._grace_s)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the program was not started: use it in a with block")
        return self._process


def tail(path: Path, lines: int) -> tuple[str, ...]:
    """The last ``lines`` lines of a text file, undecodable bytes replaced; nothing when there is no file."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return ()
    return tuple(_text(text).splitlines()[-lines:])


def _open(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    stdout: int | IO[bytes],
    stderr: int,
) -> subprocess.Popen[bytes]:
    program = find_program(argv[0], env=env)
    try:
        return subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise ProgramError(f"program {argv[0]!r} cannot be started: {error.strerror or error}") from error


def _leashed(argv: Sequence[str], *, env: Mapping[str, str] | None) -> tuple[str, ...]:
    """``argv`` behind the small program that ties its life to ours, where that is possible."""
    if sys.platform != "linux" or not sys.executable or threading.current_thread() is not threading.main_thread():
        return tuple(argv)
    program = find_program(argv[0], env=env)
    return (sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()), program, *argv[1:])


def _stop(process: subprocess.Popen[bytes], *, grace_s: float) -> None:
    """TERM for the program, KILL for its group; the group may hold children of a program that has already ended."""
    try:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(grace_s)
    finally:  # also when Ctrl-C interrupts the wait
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
