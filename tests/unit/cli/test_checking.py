"""``check`` and the commands about configs, as a user runs them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from aitune.cli import main

EXAMPLE = Path(__file__).resolve().parents[3] / "model_repository"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """The example with a wrong dimension in one config."""
    shutil.copytree(EXAMPLE / "digits", tmp_path / "digits")
    config = tmp_path / "digits" / "config.pbtxt"
    config.write_text(config.read_text(encoding="utf-8").replace("dims: [ 10 ]", "dims: [ 11 ]"), encoding="utf-8")
    return tmp_path


def test_a_good_repository_is_good(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, and one JSON document with the keys of the design."""
    assert main(["check", str(EXAMPLE)]) == 0
    capsys.readouterr()
    assert main(["check", str(EXAMPLE), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["errors"] == 0
    assert [model["name"] for model in document["models"]] == ["digits", "digits_reader"]


def test_a_wrong_dimension_is_found_shown_and_fixed(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rule, line and what it should read; then ``--diff``, then ``--fix``, then nothing remains."""
    assert main(["check", str(broken)]) == 1
    out = capsys.readouterr().out
    assert "R225" in out or "R223" in out
    assert "config.pbtxt:" in out
    assert main(["check", str(broken), "--exit-zero"]) == 0
    assert main(["check", str(broken), "--diff"]) == 1
    assert "dims" in capsys.readouterr().out
    assert main(["check", str(broken), "--diff", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["diff"]
    assert main(["check", str(broken), "--fix"]) == 0
    assert main(["check", str(broken), "--diff"]) == 0
    assert "nothing to correct" in capsys.readouterr().err


def test_the_server_of_the_check_may_lack_a_backend(capsys: pytest.CaptureFixture[str]) -> None:
    """R106: only those that were named are there."""
    assert main(["check", str(EXAMPLE), "--backend", "python"]) == 1
    assert "R106" in capsys.readouterr().out
    assert main(["check", str(EXAMPLE), "--backend", "onnxruntime", "--accelerator", "openvino"]) == 0


def test_rules_are_selected_ignored_and_explained(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As ruff does."""
    assert main(["check", str(broken), "--select", "R57,R58"]) == 0
    capsys.readouterr()
    assert main(["check", "--explain", "R57"]) == 0
    assert "R57" in capsys.readouterr().out
    assert main(["check", "--explain", "r57", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rule"] == "R57"
    assert main(["check", "--explain", "R999"]) == 2
    assert main(["check", str(broken / "nowhere")]) == 2


def test_configs_are_shown_compared_and_converted(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1 where two configs differ."""
    ours, theirs = str(EXAMPLE / "digits"), str(broken / "digits")
    assert main(["show", ours]) == 0
    assert 'name: "digits"' in capsys.readouterr().out
    assert main(["show", ours, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "digits"
    assert main(["diff", ours, ours]) == 0
    capsys.readouterr()
    assert main(["diff", ours, theirs]) == 1
    assert "dims" in capsys.readouterr().out
    assert main(["diff", ours, theirs, "--format", "json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["differences"]) == 1
    assert main(["convert", ours, "--to", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "digits"
    assert main(["convert", ours, "--to", "yaml", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["form"] == "yaml"
