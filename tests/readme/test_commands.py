"""The commands of the documentation run as they stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- tested -->\n```(?P<language>sh|python)\n(?P<code>.*?)```", re.DOTALL)
DOCUMENTS = ("README.md", "docs/ci.md")

pytestmark = pytest.mark.server


def blocks(document: str, language: str) -> list[str]:
    """The tested blocks of one language in a document."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [found["code"] for found in BLOCK.finditer(text) if found["language"] == language]


def run(code: str, folder: Path, language: str = "sh") -> str:
    """What a block prints, in a folder that sees the examples; fails with all it said."""
    argv = {"sh": ["bash", "-e", "-c", code], "python": [sys.executable, "-c", code]}[language]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {
        **os.environ,
        "PATH": path,
        "HF_HUB_OFFLINE": "1",
        "AITUNE_PERF_ANALYZER": str(ROOT / ".tools/perf_analyzer/bin/perf_analyzer"),
    }
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"{code}\nexit {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with the examples in it."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.mark.parametrize("document", DOCUMENTS)
def test_shell_commands_of_a_document_succeed(document: str, folder: Path) -> None:
    """Block after block, in one folder, as a reader would."""
    found = blocks(document, "sh")
    assert found, f"{document} has no tested block"
    for code in found:
        run(code, folder)


def test_the_pipeline_leaves_four_documents_that_say_yes(folder: Path) -> None:
    """Each file is one JSON document with the keys the text promises."""
    run(blocks("docs/ci.md", "sh")[0], folder)
    build, check, validate, perf = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("build", "check", "validate", "perf")
    )
    assert build["result"] == "created"
    assert build["batching"]["verdict"] == "batched"
    assert check["errors"] == 0
    assert validate["status"] == "pass"
    assert perf["points"][0]["throughput_per_s"] > 0


def test_python_of_the_readme_runs(folder: Path) -> None:
    """The three lines that do the main job from Python."""
    found = blocks("README.md", "python")
    assert found
    for code in found:
        run(code, folder, "python")
