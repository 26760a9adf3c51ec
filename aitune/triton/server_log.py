"""Reading a tritonserver log: which models failed and why, which never finished, which lines tell.

Verdicts come from the server's endpoints; the log only supplies reasons that no endpoint gives (a config that does not
parse leaves a model in the repository index without a word) and what happened before there were endpoints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Entry", "busy_port", "crash", "entries", "failures", "plain_reason", "still_loading", "telling_lines"]

_HEAD = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ \d+ [\w.]+:\d+\] ?(.*)")
_FAILED = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"failed to load '(?P<name>.+?)' version \d+: (?P<reason>.+)",
        r"failed to load model '(?P<name>.+?)': (?P<reason>.+)",
        r"Poll failed for model directory '(?P<name>.+?)': (?P<reason>.+)",
        r"(?P<reason>[\w ]+: ensemble '(?P<name>.+?)' depends on .+)",
        r"(?P<reason>[\w ]+: in ensemble (?P<name>.+?), .+)",
        r"(?P<reason>[\w ]+: circular dependency between ensembles: (?P<name>.+?) -> .+)",
    )
)
_ENDED = re.compile(r"(?:successfully loaded|failed to load) '(?P<name>.+?)'(?: version \d+:.*)?", re.DOTALL)
_LOADING = re.compile(r"loading: (?P<name>.+):\d+", re.DOTALL)
_BUSY = re.compile(
    r"(?P<address>\d+\.\d+\.\d+\.\d+:\d+)'? already in use|failed to start .*?(?P<other>\d+(?:\.\d+){3}:\d+)"
)

_CRASH = re.compile(r"^terminate called after throwing an instance of '(?P<type>[^']+)'", re.MULTILINE)

# What a server on a machine without a GPU always complains about, and what only repeats other lines.
_HARMLESS = re.compile(
    r"pinned (?:system )?memory|NVML|DCGM|CudaDriverHelper|CUDA memory pool|failed to load all models"
    r"|Signal \(\d+\) received|^[+|]",
    re.IGNORECASE,
)
_STACK = re.compile(r"\n\s*\n?At:\n.*", re.DOTALL)  # where in a Python file an exception was raised
_RAISED = re.compile(r"^Internal: (?:LoadError|TritonModelException): ")


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of the log.

    Attributes:
        level: ``"I"``, ``"W"``, ``"E"`` or ``"F"``; empty for a line that is not in Triton's format.
        message: The text, without quotes and escapes.
    """

    level: str
    message: str


def entries(log: str) -> Iterator[Entry]:
    """The messages of a log, in order."""
    for line in log.splitlines():
        head = _HEAD.match(line)
        yield Entry(head[1], _unquoted(head[2])) if head else Entry("", line)


def failures(log: str) -> dict[str, str]:
    """The latest reason for each model that failed to load, by name."""
    reasons: dict[str, str] = {}
    for entry in entries(log):
        found = next((match for pattern in _FAILED if (match := pattern.match(entry.message))), None)
        if found and entry.level == "E":
            reasons[found["name"]] = plain_reason(found["reason"])
    return reasons


def plain_reason(text: str) -> str:
    r"""A server's reason on one line, without the stack and the exception's name that a Python backend adds.

    >>> plain_reason("Internal: LoadError: no such input\n\nAt:\n  serving.py(1): initialize\n")
    'no such input'
    """
    return " ".join(_RAISED.sub("", _STACK.sub("", text)).split())


def still_loading(log: str) -> tuple[str, ...]:
    """Names of the models whose load began and did not end, in order."""
    names: dict[str, None] = {}
    for entry in entries(log):
        if found := _LOADING.fullmatch(entry.message):
            names[found["name"]] = None
        elif found := _ENDED.fullmatch(entry.message):
            names.pop(found["name"], None)
    return tuple(names)


def busy_port(log: str) -> str | None:
    """The address that the server could not listen on, None when that was not its trouble."""
    found = _BUSY.search(log)
    return (found["address"] or found["other"]) if found else None


def crash(log: str) -> str | None:
    """The C++ exception that ended the server, None when none did."""
    found = _CRASH.search(log)
    return found["type"] if found else None


def telling_lines(log: str, *, most: int = 12) -> tuple[str, ...]:
    """The warnings, errors and foreign output worth showing, one line each, the last ``most`` of them."""
    messages = (entry.message for entry in entries(log) if entry.level != "I" and not _HARMLESS.search(entry.message))
    return tuple(filter(None, map(plain_reason, messages)))[-most:]


def _unquoted(text: str) -> str:
    """A message as it was before Triton quoted it; older releases do not quote."""
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text, strict=False))
    except ValueError:
        return text.strip('"')
