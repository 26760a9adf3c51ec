"""Reading a tritonserver log: which models failed and why, which never finished, which lines tell.

Verdicts come from the server's endpoints; the log only supplies reasons that no endpoint gives (a config that does not
parse leaves a model in the repository index without a word) and what happened before there were endpoints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Entry", "busy_port", "entries", "failures", "still_loading", "telling_lines"]

_HEAD = re.compile(r"^([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ \d+ ([\w.]+):\d+\] ?(.*)$")
_FAILED = re.compile(r"failed to load '(?P<name>.+?)' version (?P<version>\d+): (?P<reason>.*)", re.DOTALL)
_NOT_POLLED = re.compile(r"Poll failed for model directory '(?P<name>.+?)': (?P<reason>.*)", re.DOTALL)
_ENDED = re.compile(r"(?:successfully loaded|failed to load) '(?P<name>.+?)'(?: version \d+:.*)?$", re.DOTALL)
_LOADING = re.compile(r"loading: (?P<name>.+):\d+$", re.DOTALL)
_BUSY = re.compile(r"failed to start \w+ service.*?(?P<address>\d+\.\d+\.\d+\.\d+:\d+)", re.IGNORECASE | re.DOTALL)

# What a server on a machine without a GPU always complains about, and what only repeats other lines.
_HARMLESS = re.compile(
    r"pinned (?:system )?memory|NVML|DCGM|CudaDriverHelper|CUDA memory pool|failed to load all models"
    r"|Signal \(\d+\) received",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of the log, which may span lines.

    Attributes:
        level: ``"I"``, ``"W"``, ``"E"`` or ``"F"``; empty for output that is not in Triton's format.
        message: The text, without the quotes around it.
    """

    level: str
    message: str


def entries(log: str) -> Iterator[Entry]:
    """The messages of a log in order; lines without a head belong to the message before them when that is quoted."""
    level, lines = "", list[str]()
    for line in log.splitlines():
        head = _HEAD.match(line)
        unfinished = bool(level and lines and lines[0].startswith('"') and not _is_closed(lines))
        if head is None and unfinished:
            lines.append(line)
            continue
        if lines:
            yield Entry(level, _unquoted(lines))
        level, lines = (head[1], [head[3]]) if head else ("", [line])
    if lines:
        yield Entry(level, _unquoted(lines))


def failures(log: str) -> dict[str, str]:
    """The latest reason for each model that failed to load, by name."""
    reasons: dict[str, str] = {}
    for entry in entries(log):
        found = _FAILED.match(entry.message) or _NOT_POLLED.match(entry.message)
        if found and found["reason"].strip():
            reasons[found["name"]] = " ".join(found["reason"].split())
    return reasons


def still_loading(log: str) -> tuple[str, ...]:
    """Names of the models whose load began and did not end, in order."""
    names: dict[str, None] = {}
    for entry in entries(log):
        if found := _LOADING.match(entry.message):
            names[found["name"]] = None
        elif found := _ENDED.match(entry.message):
            names.pop(found["name"], None)
    return tuple(names)


def busy_port(log: str) -> str | None:
    """The address that the server could not listen on, None when that was not its trouble."""
    found = _BUSY.search(log)
    return found["address"] if found else None


def telling_lines(log: str, *, most: int = 12) -> tuple[str, ...]:
    """The warnings, errors and foreign output worth showing, one line each, the last ``most`` of them."""
    lines = (
        " ".join(entry.message.split())
        for entry in entries(log)
        if entry.level != "I" and not _HARMLESS.search(entry.message) and not entry.message.startswith(("+", "|"))
    )
    return tuple(line for line in lines if line)[-most:]


def _is_closed(lines: list[str]) -> bool:
    return lines[-1].endswith('"') and (len(lines) > 1 or len(lines[0]) > 1)


def _unquoted(lines: list[str]) -> str:
    text = "\n".join(lines)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text.removeprefix('"')
