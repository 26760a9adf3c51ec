"""The backend directory that is put together for a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitune.errors import ServerError
from aitune.triton import backend_directory
from aitune.triton.backend_directory import (
    assemble,
    cpp_onnxruntime_version,
    link_libpython,
    remove_regions,
    write_starter,
)

LIBRARY = "libtriton_python.so"
STUB = "triton_python_backend_stub"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A backend directory with the Python backend, its stub elsewhere, and another backend."""
    folder = tmp_path / "installed"
    for name in ("python", "other"):
        (folder / name).mkdir(parents=True)
    for name in (LIBRARY, "triton_python_backend_utils.py"):
        (folder / "python" / name).write_text(name)
    (tmp_path / "stub").write_text("stub")
    return folder


def test_the_assembled_directory_has_ours_and_all_others(tmp_path: Path, installed: Path) -> None:
    """The library is a copy, because Triton refuses one that leads out of its directory; the rest are links."""
    target = assemble(tmp_path / "made", installed=installed, stub=tmp_path / "stub")
    assert {entry.name for entry in target.iterdir()} == {"python", "other", "onnxruntime"}
    assert not (target / "python" / LIBRARY).is_symlink()
    assert (target / "python" / STUB).resolve() == tmp_path / "stub"
    assert (target / "onnxruntime" / "model.py").is_file()


@pytest.mark.parametrize("missing", ["library", "stub"])
def test_without_a_python_backend_there_is_no_way(tmp_path: Path, installed: Path, missing: str) -> None:
    """The error says which directory was looked at and what to install."""
    {"library": installed / "python" / LIBRARY, "stub": tmp_path / "stub"}[missing].unlink()
    with pytest.raises(ServerError, match="no Python backend for this Python in") as error:
        assemble(tmp_path / "made", installed=installed, stub=tmp_path / "stub")
    assert "aitune-triton[server]" in error.value.hint


def test_a_stub_beside_the_backend_needs_no_other(tmp_path: Path, installed: Path) -> None:
    """As in NVIDIA's image."""
    (installed / "python" / STUB).touch()
    target = assemble(tmp_path / "made", installed=installed, stub=None)
    assert (target / "python" / STUB).resolve() == installed / "python" / STUB


def test_the_starter_quotes_what_it_is_told(tmp_path: Path) -> None:
    """A temporary folder with a quote in its name does not end the script's strings."""
    folder = tmp_path / "it's"
    folder.mkdir()
    text = (write_starter(folder / "bin", backends=folder / "backends", path="/usr/bin") / "bash").read_text()
    assert "it'\"'\"'s/backends/python/triton_python_backend_stub" in text


def test_only_regions_that_were_noted_are_removed(tmp_path: Path) -> None:
    """Other servers' shared memory stays, and a line that is no region is not followed."""
    memory, starter = tmp_path / "shm", tmp_path / "bin"
    memory.mkdir()
    starter.mkdir()
    ours, other = "triton_onnxruntime_backend_shm_region_1a-2b", "triton_python_backend_shm_region_3c"
    for name in (ours, other):
        (memory / name).touch()
    (tmp_path / "precious").touch()
    (starter / "regions").write_text(f"{ours}\n../precious\n{ours}\n")
    remove_regions(starter, shared_memory=memory)
    assert [entry.name for entry in memory.iterdir()] == [other]
    assert (tmp_path / "precious").exists()


def test_a_server_without_stubs_left_nothing(tmp_path: Path) -> None:
    """No note, nothing to do."""
    remove_regions(tmp_path / "none", shared_memory=tmp_path)


def test_only_the_python_library_is_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A static Python has none; a shared one brings one file, not its whole folder."""
    (tmp_path / "libpython9.so.1.0").touch()
    (tmp_path / "libssl.so").touch()
    known = {"INSTSONAME": "libpython9.so.1.0", "LIBDIR": str(tmp_path)}
    monkeypatch.setattr(backend_directory.sysconfig, "get_config_var", known.get)
    folder = link_libpython(tmp_path / "lib")
    assert folder is not None
    assert [entry.name for entry in folder.iterdir()] == ["libpython9.so.1.0"]
    known["INSTSONAME"] = "libpython9.a"
    assert link_libpython(tmp_path / "lib2") is None


def test_a_backend_without_a_versioned_library_has_no_known_version(tmp_path: Path) -> None:
    """Nothing is guessed."""
    assert cpp_onnxruntime_version(tmp_path) is None
