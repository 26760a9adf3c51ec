"""The pre-commit hooks and the GitHub Action, as far as they can be tried here."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from aitune.cli import main


def load(root: Path, name: str) -> Any:
    """A YAML file of the project."""
    return yaml.safe_load((root / name).read_text(encoding="utf-8"))


def options(command: str) -> set[str]:
    """Every ``--option`` of a command."""
    return set(re.findall(r"(?<!\w)--[a-z][a-z-]*", command))


@pytest.fixture
def known(capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Options that the command has."""
    main(["check", "--help"])
    return options(capsys.readouterr().out)


def test_the_hooks_call_a_command_that_exists(repository_root: Path, known: set[str]) -> None:
    """And look at the files that matter, and at no others."""
    hooks = {hook["id"]: hook for hook in load(repository_root, ".pre-commit-hooks.yaml")}
    assert set(hooks) == {"aitune-check", "aitune-check-fix"}
    for hook in hooks.values():
        program, command, *rest = shlex.split(hook["entry"])
        assert (program, command) == ("aitune-triton", "check")
        assert set(rest) <= known
    pattern = re.compile(hooks["aitune-check"]["files"])
    for name in ("models/m/config.pbtxt", "config.pbtxt", "m/configs/cpu.pbtxt", "m/1/model.onnx", "m/1/model.py"):
        assert pattern.search(name), name
    for name in ("README.md", "m/1/labels.txt", "x/myconfig.pbtxt.bak"):
        assert not pattern.search(name), name


def test_the_action_calls_a_command_that_exists(repository_root: Path, known: set[str]) -> None:
    """Inputs reach the shell through the environment only, never as program text."""
    action = load(repository_root, "action.yml")
    steps = [step for step in action["runs"]["steps"] if "run" in step]
    assert steps
    for step in steps:
        assert "${{" not in step["run"]
        called = " ".join(line for line in step["run"].splitlines() if "pip" not in line)
        assert options(called) <= known
        for value in step.get("env", {}).values():
            name = re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", value)
            assert name is not None
            assert name.group(1) in action["inputs"]


def test_the_action_s_defaults_are_the_command_s(repository_root: Path, tmp_path: Path) -> None:
    """The check step runs as it stands on a small repository."""
    inputs = {name: one["default"] for name, one in load(repository_root, "action.yml")["inputs"].items()}
    (tmp_path / inputs["repository"]).mkdir()
    arguments = ["--triton", inputs["triton"], "--target", inputs["target"], "--fail-on", inputs["fail-on"]]
    assert main(["check", str(tmp_path / inputs["repository"]), *arguments, "--format", "github"]) == 0
    assert (inputs["strict"], inputs["sarif"]) == ("false", "")
