"""The processor: two of different models may round differently, and in few bits that shows."""

from __future__ import annotations

import platform
from pathlib import Path

__all__ = ["processor"]


def processor() -> str:
    """The model of the processor as the system calls it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
