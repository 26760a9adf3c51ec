"""Sessions in processes of their own: what crashes, hangs or takes all the memory there is lost, and nothing else."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from aitune.errors import SourceError, UsageError
from aitune.numerics import Array
from aitune.onnx.candidates import OnnxCandidate
from aitune.onnx.frames import Frame, read_frame, write_frame
from aitune.records import DType
from aitune.tuning.candidate import Candidate
from aitune.tuning.runner import Runner, Timing

__all__ = ["IsolatedRunner", "launch"]

_PACKAGES = Path(__file__).resolve().parents[2]
_TIMEOUT_S = 900.0
"""No answer for so long: the runtime hangs."""
_MOST_HELD = 8


def launch(candidate: Candidate) -> Runner:
    """Open a candidate in a process of its own.

    Raises:
        SourceError: If the runtime refuses the model, or dies of it.
        UsageError: If it is not a candidate of this room.
    """
    if not isinstance(candidate, OnnxCandidate):
        raise UsageError(f"candidate {candidate.name!r} is not an ONNX file")
    return IsolatedRunner(candidate)


class IsolatedRunner:
    """A runner whose session lives in another process, which is started again after it died.

    Args:
        candidate: What to open there.
        argv: The program; a worker of this package by default.
        timeout_s: Seconds to wait for an answer.

    Raises:
        SourceError: If the runtime refuses the model, or dies of it.
    """

    def __init__(self, candidate: OnnxCandidate, *, argv: Sequence[str] = (), timeout_s: float = _TIMEOUT_S) -> None:
        self._candidate = candidate
        self._argv = tuple(argv) or (sys.executable, "-m", "aitune.onnx.worker")
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._held: dict[int, Mapping[str, Array]] = {}
        self._dtypes: dict[str, DType] = {}
        candidate.prepare()
        self._start()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """See :class:`aitune.tuning.Runner`."""
        return self._ask({"do": "run"}, inputs).tensors

    def time_runs(self, inputs: Mapping[str, Array], count: int) -> Timing:
        """See :class:`aitune.tuning.runner.SelfTimed`."""
        key = id(inputs)
        if self._process is None or key not in self._held:
            self._ask({"do": "hold", "key": str(key)}, inputs)
            while len(self._held) >= _MOST_HELD:
                del self._held[next(iter(self._held))]
            self._held[key] = inputs  # kept, so that the number stands for this request and no other
        return Timing(**self._ask({"do": "time", "key": str(key), "count": count}).head)

    def close(self) -> None:
        """End the process; a second call does nothing."""
        process, self._process = self._process, None
        self._held.clear()
        if process is not None:
            _end(process)
        if self._log is not None:
            self._log.close()
            self._log = None

    def _start(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close()
        search = os.pathsep.join([str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": search},
            start_new_session=True,  # Ctrl-C is for the one who tunes, and closes this
        )
        candidate = self._candidate
        opening = {"do": "open", "path": str(candidate.path), "device": candidate.device}
        try:
            opened = self._ask({**opening, "settings": dict(candidate.settings)})
            self._dtypes = {name: DType(word) for name, word in opened.head["inputs"].items()}
        except BaseException:
            self.close()
            raise

    def _ask(self, head: Mapping[str, Any], inputs: Mapping[str, Array] | None = None) -> Frame:
        """Send and wait for the answer.

        Raises:
            SourceError: What the worker says, or that it died or hangs.
        """
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None  # noqa: PT018
        try:
            write_frame(
                process.stdin, head, {name: (item, self._dtypes[name]) for name, item in (inputs or {}).items()}
            )
            self._wait(process.stdout)
            frame = read_frame(process.stdout)
        except OSError:
            frame = None
        except BaseException:
            self.close()  # what comes next would be the answer to this
            raise
        if frame is None:
            raise SourceError(self._obituary(process))
        if "error" in frame.head:
            raise SourceError(frame.head["error"], hint=frame.head["hint"])
        return frame

    def _wait(self, stream: IO[bytes]) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            if not selector.select(self._timeout_s):
                raise SourceError(f"the runtime did not answer within {self._timeout_s:g} s")

    def _obituary(self, process: subprocess.Popen[bytes]) -> str:
        """How the process died, from its exit status and its last words."""
        _end(process)
        code = process.returncode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        if code == -signal.SIGKILL:
            how += ", as happens when memory runs out"
        words = ""
        if self._log is not None:
            self._log.seek(0)
            lines = self._log.read().decode(errors="replace").strip().splitlines()
            words = f": {lines[-1].strip()[:200]}" if lines else ""
        self.close()
        return f"the runtime crashed: its process {how}{words}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let it end by itself, else kill it; its pipes are closed."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:  # unsent bytes for a process that is gone
                continue
    try:
        process.wait(0.2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
