"""Loading, unloading and replacing, against a Triton in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from aitune.errors import ServerError
from aitune.triton.checks_live import THOROUGH, life
from aitune.triton.client_records import IndexEntry
from aitune.triton.plan import plan
from aitune.triton.rendering import render


class Fresh:
    """A further server of the stage's model, with model control; tests replace what it does.

    Attributes:
        loaded: Versions that are ready.
    """

    def __init__(self, stage) -> None:
        self.client, self.fake, self.config = stage.client("http"), stage.fake, stage.fake.config
        self.loaded: set[str] = set()
        self.loads = 0
        self.warm = True
        self.fake.executions = 0

    @contextlib.contextmanager
    def start(self, repository: Path, control: str) -> Iterator[object]:
        """Loads at once what lies there in poll mode, and follows it."""
        infer = self.fake.infer

        def ready(name: str, version: str) -> bool:
            return (repository / name / version).is_dir() if control == "poll" else version in self.loaded

        def load(name: str, config: str | None) -> None:
            self.loads += 1
            self.loaded.add("1")
            self.fake.executions += len(self.config.model_warmup) * self.warm

        patches = {"model_ready": ready, "load": load, "unload": lambda name: self.loaded.clear(), "infer": infer}
        transport = SimpleNamespace(
            **{name: getattr(self.fake, name) for name in ("live", "ready", "statistics", "index")} | patches
        )
        self.client._transport = transport
        self.change(transport)
        yield self.client

    def change(self, transport: SimpleNamespace) -> None:
        """What a test makes wrong."""


@pytest.fixture
def fresh(stage, tmp_path, monkeypatch) -> Fresh:
    """The stage knows how to start it, and has files to copy."""
    folder = tmp_path / "repository" / "m"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.onnx").write_bytes(b"weights")
    (folder / "config.pbtxt").write_text(render(plan(stage.artifact, model_name="m")))
    fresh = Fresh(stage)
    stage.options.update(start=fresh.start, repository=tmp_path / "repository")
    monkeypatch.setattr(life, "_PATIENCE_S", 0.3)
    monkeypatch.setattr(life, "_PAUSE_S", 0.01)
    return fresh


@pytest.mark.parametrize("name", ["life", "reload"])
def test_a_model_that_lives_as_it_should_passes(name: str, stage, fresh) -> None:
    """The control for all that follows."""
    result = THOROUGH[name](stage.context())
    assert result.status == "pass", result


def test_a_model_that_answers_differently_when_it_is_loaded_again_is_found(stage, fresh) -> None:
    """It keeps something between two lives."""
    stage.fake.change = lambda answer, inputs: {"y": answer["y"] + (fresh.loads > 1)}
    assert "a fresh server answers differently: output 'y'" in THOROUGH["life"](stage.context()).detail


def test_a_warm_up_that_did_not_run_is_found(stage, fresh) -> None:
    """The statistics after loading tell."""
    stage.fake.config.model_warmup.add(name="zeros", batch_size=1)
    assert THOROUGH["life"](stage.context()).status == "pass"
    fresh.warm, stage.fake.executions = False, 0
    fresh.loaded.clear()
    assert "the warm-up did not run: 0 executions" in THOROUGH["life"](stage.context()).detail


def refuse(name: str, config: str | None) -> None:
    """A load that fails."""
    raise ServerError("no memory")


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"ready": lambda: False}, "does not say that it is live and ready"),
        ({"model_ready": lambda name, version: True}, "ready before it was loaded"),
        ({"load": refuse}, "it cannot be loaded: no memory"),
        ({"load": lambda name, config: None}, "after loading, server and model are not both live and ready"),
        ({"unload": lambda name: None}, "still ready 0.3 s after it was unloaded"),
    ],
)
def test_every_step_of_a_life_is_looked_at(broken: dict, words: str, stage, fresh) -> None:
    """Each fault is told in its own words."""
    fresh.change = lambda transport: vars(transport).update(broken)
    result = THOROUGH["life"](stage.context())
    assert result.status == "fail"
    assert words in result.detail


def test_a_second_version_that_does_not_come_up_is_found(stage, fresh) -> None:
    """With the server's reason."""
    rows = (IndexEntry(name="m", version="2", state="UNAVAILABLE", reason="no such\nversion"),)
    broken = {"model_ready": lambda name, version: version == "1", "index": lambda: rows}
    fresh.change = lambda transport: vars(transport).update(broken)
    detail = THOROUGH["reload"](stage.context()).detail
    assert "a second version was not served within 0.3 s: no such version" in detail
    broken["index"] = tuple
    assert "the server does not know it" in THOROUGH["reload"](stage.context()).detail


@pytest.mark.parametrize(
    ("wrong_after", "words"),
    [
        (1, "a copy is answered differently"),
        (2, "while a second version was loaded, the first failed"),
        (4, "with two versions side by side, version 1 is wrong"),
        (5, "with two versions side by side, version 2 is wrong"),
    ],
)
def test_answers_are_looked_at_during_the_whole_reload(wrong_after: int, words: str, stage, fresh) -> None:
    """Before, while, and after the second version came."""
    context, asked, looks = stage.context(), [], []
    context.answered()

    def change(answer, inputs):
        asked.append(1)
        return {"y": answer["y"] + (len(asked) >= wrong_after)}

    def ready(name: str, version: str) -> bool:
        looks.append(1)
        return len(looks) > 2

    stage.fake.change = change
    fresh.change = lambda transport: vars(transport).update(model_ready=ready)
    assert words in THOROUGH["reload"](context).detail


@pytest.mark.parametrize("name", ["life", "reload"])
def test_a_server_that_is_not_ours_is_not_restarted(name: str, stage) -> None:
    """Not even intrusively."""
    assert THOROUGH[name](stage.context()).detail == "only for a server of our own"


def test_what_cannot_be_copied_is_not_reloaded(stage, fresh, monkeypatch) -> None:
    """Too large, or without files."""
    monkeypatch.setattr(life, "_MOST_BYTES", 3)
    assert "too large to be copied" in THOROUGH["reload"](stage.context()).detail
    stage.fake.config.ensemble_scheduling.SetInParent()
    assert "no files of its own" in THOROUGH["reload"](stage.context()).detail
