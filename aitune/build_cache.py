"""A build that would come out the same is not done again.

What a build made is kept together with everything that was seen to decide it: the request, this machine, the installed
packages, the environment, every module that was loaded and every file that was read, with size, times and inode. It is
used again only when all of that is as it was. A build that connected somewhere, started programs, ran native code whose
reading nobody sees, or read a file that changed meanwhile, is not kept; nor is one with a check of the user's own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from aitune.errors import AituneError
from aitune.records import Artifact, ONNXArtifact
from aitune.records.codec import Document, dumps_document, read_document
from aitune.watching import Watch, weights_beside

__all__ = ["BuildCache"]

SCHEMA_VERSION = 1
_MOST_KEPT = 8
_RACY_S = 0.1
"""A file that changed so shortly before the build began may have changed again without a trace."""
_VOLATILE = ("_", "SHLVL", "PWD", "OLDPWD", "TERM", "COLUMNS", "LINES", "DISPLAY", "WINDOWID", "PYTEST_CURRENT_TEST")


class BuildCache:
    """Builds that were kept, under ``$XDG_CACHE_HOME/aitune/builds``.

    Args:
        facts: The request and what else decides a build, as JSON has it.
        named: Files that the request names.
        folder: Another folder.
    """

    def __init__(self, facts: Mapping[str, Any], named: Sequence[Path], folder: Path | None = None) -> None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self._root = folder or Path(base) / "aitune" / "builds"
        self._named = [path.absolute() for path in named]
        self._started_s = time.time()
        text = json.dumps({**facts, **_surroundings()}, sort_keys=True, default=str)
        self._entry = self._root / hashlib.sha256(text.encode()).hexdigest()

    def find(self) -> Artifact | None:
        """What the same build made before; None when there was none, or something changed since."""
        try:
            manifest = json.loads((self._entry / "manifest.json").read_text(encoding="utf-8"))
            if manifest.get("schema_version") != SCHEMA_VERSION or not _unchanged(manifest["files"]):
                return None
            artifact = read_document(self._entry / "aitune.json").artifact
            artifact.verify()
        except (OSError, ValueError, KeyError, AttributeError, AituneError):  # incomplete, or spoiled by somebody
            return None
        return artifact if _samples_whole(artifact) else None

    def keep(self, artifact: Artifact, watch: Watch) -> str:
        """Keep what was made.

        Args:
            artifact: What was made.
            watch: What was seen meanwhile.

        Returns:
            Why it is not kept, ``""`` when it is.
        """
        if not isinstance(artifact, ONNXArtifact):
            return "a plan is bound to its GPU"
        unseen = [*watch.unseen, *(f"native code of {name}" for name in watch.strangers())]
        if unseen:
            more = f" and {len(unseen) - 2} more" if len(unseen) > 2 else ""
            return f"nobody can tell whether it depends on {', '.join(unseen[:2])}{more}"
        files = _states(self._dependencies(artifact, watch))
        late = [
            path for path, state in files.items() if state and max(state[1], state[2]) / 1e9 > self._started_s - _RACY_S
        ]
        if late:
            return f"{late[0]!r} changed during the build"
        try:
            self._write(artifact, files)
        except OSError as error:
            return (error.strerror or str(error)).lower()
        return ""

    def _dependencies(self, artifact: Artifact, watch: Watch) -> set[str]:
        """Everything that was read, and the weights beside it."""
        ours = (
            str(artifact.path.parent.resolve()) + os.sep,
            str(self._root.parent) + os.sep,
            str(artifact.path.parent) + os.sep,
        )
        read = {path for path in watch.files() if not path.startswith(ours) and os.path.isfile(path)}
        texts = _program_texts()
        folders = {os.path.dirname(path) for path in read | {str(path) for path in self._named}}
        beside = {
            str(path) for folder in folders for path in weights_beside(Path(folder)) if not str(path).startswith(ours)
        }
        return read | texts | beside | {str(path) for path in self._named}

    def _write(self, artifact: Artifact, files: Mapping[str, Any]) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="new-", dir=self._root))
        try:
            samples = artifact.evidence.samples if artifact.evidence else None
            names = [
                artifact.path.name,
                *(item.name for item in artifact.companions),
                *([samples.name] if samples else []),
            ]
            for name in names:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(artifact.path.parent / name, folder / name)
            (folder / "aitune.json").write_text(dumps_document(Document(artifact=artifact)), encoding="utf-8")
            manifest = {"schema_version": SCHEMA_VERSION, "files": files}
            (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
            shutil.rmtree(self._entry, ignore_errors=True)
            os.rename(folder, self._entry)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._prune()

    def _prune(self) -> None:
        """Keep the newest."""
        with suppress(OSError):
            entries = sorted(self._root.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            for old in entries[_MOST_KEPT:]:
                shutil.rmtree(old, ignore_errors=True)


def _program_texts() -> set[str]:
    """Files of all modules that are loaded."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return {os.path.abspath(file) for file in files if isinstance(file, str) and os.path.isfile(file)}


def _surroundings() -> dict[str, Any]:
    """The machine, the packages and the environment."""
    packages = [
        sorted(name for name in os.listdir(place) if name.endswith((".dist-info", ".egg-info", ".pth")))
        for place in sys.path
        if os.path.isdir(place)
    ]
    environment = {key: value for key, value in os.environ.items() if key not in _VOLATILE}
    own = sorted(Path(__file__).parent.rglob("*.py"))
    return {
        "python": [sys.version, sys.executable, sys.path],
        "packages": packages,
        "environment": environment,
        "folder": os.getcwd(),
        "aitune": _states(map(str, own)),
        "machine": [list(os.uname())[2:], sorted(os.sched_getaffinity(0)), _processor()],
    }


def _processor() -> str:
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line for line in file if line.startswith("model name")), "")
    return ""


def _states(paths: Iterable[str]) -> dict[str, list[int] | None]:
    """Size, times in nanoseconds and inode of every file; None where there is none."""
    found: dict[str, list[int] | None] = {}
    for path in sorted(paths):
        try:
            seen = os.stat(path)
        except OSError:
            found[path] = None
        else:
            found[path] = [seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino]
    return found


def _unchanged(files: Mapping[str, Any]) -> bool:
    """Whether every file is as it was, and no weights came to lie beside them."""
    if _states(files) != files:
        return False
    folders = {os.path.dirname(path) for path in files if not path.endswith((".py", ".so"))}
    return all(str(path) in files for folder in folders for path in weights_beside(Path(folder)))


def _samples_whole(artifact: Artifact) -> bool:
    samples = artifact.evidence.samples if artifact.evidence else None
    if samples is None:
        return True
    try:
        data = (artifact.path.parent / samples.name).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(data).hexdigest() == samples.fingerprint
