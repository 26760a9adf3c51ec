"""What was measured so far, kept as it is measured: an interrupted tuning goes on where it stopped.

Measuring is a sequence of steps, each with a name that says all that decides it. A step that the journal knows is not
taken again; the time it took is still counted, so that a repeated tuning decides as the first one did.

>>> journal = Journal()
>>> journal.step("cost of batch 8", lambda: 0.25)
0.25
>>> journal.step("cost of batch 8", lambda: 1 / 0)
0.25
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["Journal", "journal_key", "tuning_cache"]

SCHEMA_VERSION = 2


def tuning_cache() -> Path:
    """The folder where journals lie by default: ``$XDG_CACHE_HOME/aitune/tuning``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "aitune" / "tuning"


def journal_key(facts: Mapping[str, Any]) -> str:
    """One word for everything that decides what would be measured: the SHA-256 of the facts as JSON."""
    text = json.dumps(facts, sort_keys=True, allow_nan=False, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a fact of a tuning cannot be a {type(value).__name__}")


class Journal:
    """Steps that were taken, by name.

    Args:
        folder: Where the journal lies as ``<key>.json``; None to keep it in memory only. A file that cannot be read or
            written costs the memory of it, never the tuning.
        key: What :func:`journal_key` made.
    """

    def __init__(self, folder: Path | None = None, key: str = "") -> None:
        self._path = None if folder is None else folder / f"{key}.json"
        self._key = key
        self._steps: dict[str, Any] = self._read()

    def __contains__(self, name: str) -> bool:
        return name in self._steps

    def step(self, name: str, take: Callable[[], Any]) -> Any:
        """What the step found, now or before.

        Args:
            name: What is done, and all that decides it; unique within the tuning.
            take: Does it; returns what JSON can hold.
        """
        if name not in self._steps:
            self._steps[name] = take()
            self._write()
        return self._steps[name]

    def _read(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there, or cut off when a machine went down
            return {}
        wanted = {"schema_version": SCHEMA_VERSION, "key": self._key}
        if not isinstance(found, dict) or {key: found.get(key) for key in wanted} != wanted:
            return {}
        steps = found.get("steps")
        return steps if isinstance(steps, dict) else {}

    def _write(self) -> None:
        if self._path is None:
            return
        document = {"schema_version": SCHEMA_VERSION, "key": self._key, "steps": self._steps}
        temporary = ""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._path.parent, delete=False, encoding="utf-8") as file:
                temporary = file.name
                json.dump(document, file)
            os.replace(temporary, self._path)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            self._path = None  # a full or read-only disk: go on without
