"""What the wheel carries."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """Names of its files."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_template_is_in_the_wheel(names: set[str]) -> None:
    """Under the place where an installed package looks for them."""
    templates = {path.relative_to(ROOT / "templates").as_posix() for path in (ROOT / "templates").rglob("*.j2")}
    assert "config.pbtxt.j2" in templates
    assert {f"aitune/_templates/{name}" for name in templates} <= names


def test_the_whole_package_is_in_the_wheel(names: set[str]) -> None:
    """Every module, the backend that the server loads, and the mark that the package is typed."""
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "aitune").rglob("*.py")}
    assert "aitune/triton/backends/onnxruntime/model.py" in modules
    assert modules | {"aitune/py.typed"} <= names


def test_nothing_else_is_in_the_wheel(names: set[str]) -> None:
    """No tests, no caches, no example models."""
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"aitune"}
    assert [name for name in names if "__pycache__" in name or name.endswith(".pyc")] == []


def test_an_installed_package_renders(wheel: Path, tmp_path: Path) -> None:
    """Unpacked alone, it finds its own templates."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        "import aitune; from aitune.triton.templates import template_folder;"
        "print(aitune.__file__, template_folder(), (template_folder() / 'config.pbtxt.j2').is_file())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [f"{tmp_path}/aitune/__init__.py", f"{tmp_path}/aitune/_templates", "True"]
