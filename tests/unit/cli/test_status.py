"""``status`` as a person reads it: a table, and a line for everything that is not as it should be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aitune.cli import main
from aitune.triton import serving_status as module
from aitune.triton.serving_status import ServedVersion, ServingStatus

FINE = ServedVersion(name="fine", version="2", ready=True, claimed="a" * 64, proved="a" * 64)
ODD = ServedVersion(name="odd", version="1", ready=True, claimed="b" * 64, drift=("config: x",), skipped=("no probe",))
LATE = ServedVersion(name="late", version="", ready=False, reason="no memory")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server that serves what the test wants; gives the arguments back that it was asked with."""

    def serve(*models: ServedVersion, skipped: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        asked: list[dict[str, Any]] = []

        def answer(path: object, **arguments: Any) -> ServingStatus:
            asked.append(arguments)
            return ServingStatus(server="http://here:1", triton="2.51.0", models=models, requests=1, skipped=skipped)

        monkeypatch.setattr(module, "serving_status", answer)
        return asked

    return serve


def test_a_table_and_a_line_for_what_is_wrong(server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Fingerprints are shown short, drift exits 1, and what was skipped is told to who asks for more."""
    server(FINE, ODD, LATE)
    assert main(["status", "-u", "here:1", "--no-progress"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["fine", "2", "yes", "a" * 12, "a" * 12]
    assert lines[3].split() == ["odd", "1", "yes", "b" * 12, "-", "drift"]
    assert lines[4].split() == ["late", "no", "-", "-"]
    assert lines[5:] == ["odd version 1: config: x", "late: not ready: no memory"]
    main(["status", "-u", "here:1", "-v"])
    assert "odd version 1: no probe" in capsys.readouterr().err


def test_without_drift_it_exits_0_and_json_is_one_document(server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that is not ready is no drift by itself."""
    asked = server(FINE, LATE)
    argv = ["status", "-u", "here:1", "-m", "f*", "--header", "a: b", "--timeout", "2", "--format", "json"]
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["drifted"], [row["name"] for row in found["models"]]) == (False, ["fine", "late"])
    (arguments,) = asked
    assert (arguments["models"], arguments["headers"], arguments["timeout_s"]) == (("f*",), (("a", "b"),), 2.0)


def test_a_server_without_models_or_that_hides_them_is_a_warning(
    server: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is printed as a result."""
    server()
    assert main(["status", "-u", "here:1"]) == 0
    assert "serves no model" in capsys.readouterr().err
    server(skipped=("the server does not list its models: closed",))
    assert main(["status", "-u", "here:1"]) == 0
    caught = capsys.readouterr()
    assert caught.out == ""
    assert "does not list its models" in caught.err


def test_without_an_address_it_says_what_to_give(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2."""
    monkeypatch.delenv("TRITON_URL", raising=False)
    assert main(["status"]) == 2
    assert "--url HOST:PORT" in capsys.readouterr().err
