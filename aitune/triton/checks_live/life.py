"""Does the model live on a server as it should: loaded, warmed up, unloaded, loaded again, replaced while it answers?

Each question gets a server of its own, for the one that is validated must keep what it has loaded.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aitune.errors import ServerError
from aitune.triton.checks_live.context import Context, disagreement, failed, passed, skipped
from aitune.triton.client import Client
from aitune.triton.layout import CONFIG
from aitune.triton.subjects import ask
from aitune.triton.validation_records import CheckResult

__all__ = ["check_life", "check_reload"]

_PATIENCE_S = 30.0
_PAUSE_S = 0.1
_MOST_BYTES = 1 << 30


def check_life(context: Context) -> CheckResult:
    """Load, warm-up, unload and load again on a fresh server; the answers stay what they were."""
    if context.start is None or context.repository is None:
        return skipped("life", "only for a server of our own")
    with context.start(context.repository, "explicit") as client:
        for step in (_unloaded, _loaded, _gone, _loaded):
            problem = step(context, client)
            if problem:
                return failed("life", problem)
    warmups = len(context.subject.served.model_warmup)
    warm = f"{warmups} warm-up requests ran" if warmups else "there is no warm-up"
    return passed("life", f"a fresh server gives the same answers, and again after unload and load; {warm}")


def check_reload(context: Context) -> CheckResult:
    """In poll mode a second version comes up beside the first, which answers all the while."""
    subject = context.subject
    if context.start is None or context.repository is None:
        return skipped("reload", "only for a server of our own")
    source = context.repository / subject.model
    if subject.served.HasField("ensemble_scheduling") or not (source / subject.version).is_dir():
        return skipped("reload", "the model has no files of its own to copy")
    size = sum(path.stat().st_size for path in (source / subject.version).rglob("*") if path.is_file())
    if size > _MOST_BYTES:
        return skipped("reload", f"its files ({size >> 20} MiB) are too large to be copied for a trial")
    with tempfile.TemporaryDirectory(prefix="aitune-reload-") as folder:
        return _reloaded(context, source, Path(folder))


def _reloaded(context: Context, source: Path, folder: Path) -> CheckResult:
    version = context.subject.version
    other = str(int(version) + 1)
    model = folder / "repository" / source.name
    shutil.copytree(source / version, model / version)
    _write_config(context, model, version)
    shutil.copytree(source / version, folder / "next")
    assert context.start is not None
    with context.start(folder / "repository", "poll") as client:
        problem = _differs(context, client, version)
        if problem:
            return failed("reload", f"a copy is answered differently: {problem}")
        (folder / "next").rename(model / other)
        _write_config(context, model, version, other)
        asked, deadline = 0, time.monotonic() + _PATIENCE_S
        while not client.model_ready(context.subject.model, other):
            problem = _differs(context, client, version)
            if problem:
                return failed("reload", f"while a second version was loaded, the first failed: {problem}")
            asked += 1
            if time.monotonic() > deadline:
                return failed(
                    "reload",
                    f"a second version was not served within {_PATIENCE_S:g} s: {_why(context, client, other)}",
                )
            time.sleep(_PAUSE_S)
        for served in (version, other):
            problem = _differs(context, client, served)
            if problem:
                return failed("reload", f"with two versions side by side, version {served} is wrong: {problem}")
    return passed("reload", f"a second version came up beside the first, which answered {asked} requests meanwhile")


def _write_config(context: Context, model: Path, *versions: str) -> None:
    """The published config with another version policy, put in place at once."""
    from google.protobuf import text_format

    from aitune.triton.schema import parse_config

    assert context.repository is not None
    config: Any = parse_config((context.repository / model.name / CONFIG).read_text(encoding="utf-8"))
    config.ClearField("version_policy")
    config.version_policy.specific.versions.extend(map(int, versions))
    draft = model.parent.parent / "draft"
    draft.write_text(text_format.MessageToString(config), encoding="utf-8")
    draft.replace(model / CONFIG)


def _unloaded(context: Context, client: Client) -> str:
    """What is wrong with a server that has loaded nothing."""
    subject = context.subject
    if not client.live() or not client.ready():
        return "a server that has nothing to load does not say that it is live and ready"
    if client.model_ready(subject.model, subject.version):
        return "the model is said to be ready before it was loaded"
    return ""


def _loaded(context: Context, client: Client) -> str:
    """What is wrong after loading: readiness, warm-up, answers."""
    subject = context.subject
    try:
        client.load(subject.model)
    except ServerError as error:
        return f"it cannot be loaded: {error}"
    if not (client.live() and client.ready() and client.model_ready(subject.model, subject.version)):
        return "after loading, server and model are not both live and ready"
    ran, wanted = client.statistics(subject.model, subject.version).executions, len(subject.served.model_warmup)
    if ran < wanted:
        return f"the warm-up did not run: {ran} executions before the first request, {wanted} requests in the config"
    return _differs(context, client, subject.version)


def _gone(context: Context, client: Client) -> str:
    """What is wrong after unloading."""
    subject = context.subject
    client.unload(subject.model)
    if not _within(lambda: not client.model_ready(subject.model, subject.version)):
        return f"it is still ready {_PATIENCE_S:g} s after it was unloaded"
    return "" if client.live() and client.ready() else "after unloading, the server is not live and ready"


def _within(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def _differs(context: Context, client: Client, version: str) -> str:
    """How the answer of a version there differs from the one that is known to be right."""
    inputs, answer = context.answered()
    subject = dataclasses.replace(context.subject, version=version)
    context.count()
    try:
        found = ask(client, subject, inputs)
    except ServerError as error:
        return str(error)
    problem, _ = disagreement(context, found, {name: array for name, (array, _) in answer.items()})
    return problem and f"a fresh server answers differently: {problem}"


def _why(context: Context, client: Client, version: str) -> str:
    rows = [row for row in client.index() if row.name == context.subject.model and row.version == version]
    return next((" ".join(row.reason.split()) or row.state for row in rows), "the server does not know it")
