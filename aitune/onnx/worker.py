"""One session in a process of its own: ``python -m aitune.onnx.worker``, started by :mod:`aitune.onnx.isolation`.

It reads frames (:mod:`aitune.onnx.frames`) from stdin and answers each with one on its first stdout; whatever a library
prints goes to stderr. It ends when stdin does, so it does not outlive the one who started it.
"""

from __future__ import annotations

import glob
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from aitune.errors import AituneError, UsageError
from aitune.numerics import Array
from aitune.onnx.frames import Frame, read_frame, write_frame
from aitune.onnx.session import OnnxRunner

__all__ = ["main", "serve"]

_MOST_HELD = 8


def main() -> None:
    """Serve stdin and the stdout that this process was started with."""
    with suppress(OSError):  # where memory runs out, this process goes first and not the one that tunes
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer frames until there are no more.

    Args:
        requests: Where they come from.
        answers: Where the answers go.
    """
    desk = _Desk()
    while (frame := read_frame(requests)) is not None:
        try:
            head, tensors = desk.handle(frame)
        except AituneError as error:
            write_frame(answers, {"error": error.message, "hint": error.hint})
        else:
            write_frame(answers, head, tensors)


class _Desk:
    """The open session and the requests that were handed over to be timed."""

    def __init__(self) -> None:
        self._runner: OnnxRunner | None = None
        self._held: dict[str, Mapping[str, Array]] = {}

    def handle(self, frame: Frame) -> tuple[dict[str, Any], dict[str, Any]]:
        """The answer to one frame."""
        head = frame.head
        if head["do"] == "open":
            self._runner = OnnxRunner(Path(head["path"]), head["settings"], device=head["device"])
            dtypes = {name: dtype.value for name, dtype in self._runner.input_dtypes.items()}
            return {"inputs": dtypes}, {}
        if self._runner is None:
            raise UsageError("no model is open in this worker")
        if head["do"] == "run":
            answer = self._runner.run(frame.tensors)
            return {}, {name: (array, self._runner.output_dtypes[name]) for name, array in answer.items()}
        if head["do"] == "hold":
            while len(self._held) >= _MOST_HELD:
                del self._held[next(iter(self._held))]
            self._held[head["key"]] = frame.tensors
            return {}, {}
        return self._time(self._held[head["key"]], head["count"]), {}

    def _time(self, request: Mapping[str, Array], count: int) -> dict[str, Any]:
        assert self._runner is not None
        seconds, waited_s = [], _waited_s()
        for _ in range(count):
            start = time.perf_counter()
            self._runner.run(request)
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds, "waited_s": _waited_s() - waited_s}


def _waited_s() -> float:
    """How long the threads of this process have been ready and had no processor, all together; 0 if nobody knows.

    The second number of ``schedstat`` is the time on a run queue, in nanoseconds.
    """
    waited_ns = 0
    for stat in glob.glob("/proc/self/task/*/schedstat"):
        with suppress(OSError, ValueError, IndexError), open(stat, encoding="ascii") as file:
            waited_ns += int(file.read().split()[1])
    return waited_ns / 1e9


if __name__ == "__main__":
    main()
