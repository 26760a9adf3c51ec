"""A backend directory for tritonserver: what is installed, plus the ``onnxruntime`` backend that aitune ships.

The wheel that carries tritonserver has only the Python backend, without the stub beside it. So the directory is put
together anew for each server, of links where Triton follows them, and nothing installed is touched.
"""

from __future__ import annotations

import compileall
import os
import re
import shlex
import shutil
import sysconfig
from pathlib import Path

from aitune.errors import ServerError

__all__ = [
    "BACKEND",
    "assemble",
    "cpp_onnxruntime_version",
    "has_cpp_onnxruntime",
    "link_libpython",
    "remove_regions",
    "write_starter",
]

BACKEND = Path(__file__).parent / "backends" / "onnxruntime"
_STUB = "triton_python_backend_stub"
_LIBRARY = "libtriton_python.so"
_REGIONS = "regions"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where POSIX shared memory is, not a place for our files

# The Python backend runs ``bash -c " exec STUB MODEL_FILE REGION SIZE GROWTH PID FOLDER CONTROL NAME KIND"``,
# with nothing quoted: a space, a quote or a ``;`` in a model's name leaves its load hanging for ever, and ``$(…)`` in
# one, or in a default_model_filename, is executed. The program is looked up on PATH, so this one stands before bash: it
# takes the line apart by what is known about its ends and starts the stub with exact arguments. The line has no answer
# only when a name holds the text of the region; any other line is bash's business.
_STARTER = """#!/bin/sh
set -f
stub={stub} python={python}
line=${{2-}}
prefix=" exec $stub "
rest=${{line#"$prefix"}}
[ "${{1-}}" = -c ] && [ "$rest" != "$line" ] || PATH={path} exec bash "$@"
model=${{rest%" triton_"*"_backend_shm_region_"*}}
rest=${{rest#"$model "}}
region=${{rest%% *}} rest=${{rest#* }}
printf '%s\n' "$region" >> {regions}
size=${{rest%% *}} rest=${{rest#* }}
growth=${{rest%% *}} rest=${{rest#* }}
pid=${{rest%% *}} rest=${{rest#* }}
rest=${{rest#"$python "}}
control=${{rest%% *}} rest=${{rest#* }}
case $rest in
  *" DEFAULT") kind=DEFAULT ;;
  *) kind={backends}/${{rest##*" "{backends}/}} ;;
esac
exec "$stub" "$model" "$region" "$size" "$growth" "$pid" "$python" "$control" "${{rest%" $kind"}}" "$kind"
"""


def has_cpp_onnxruntime(backends: Path) -> bool:
    """Whether NVIDIA's C++ ONNX Runtime backend lies in a backend directory."""
    return (backends / "onnxruntime" / "libtriton_onnxruntime.so").exists()


def cpp_onnxruntime_version(backends: Path) -> str | None:
    """The version in the file name of the ONNX Runtime library beside that backend, None when there is none."""
    names = (path.name for path in sorted((backends / "onnxruntime").glob("libonnxruntime.so.*")))
    found = (re.fullmatch(r"libonnxruntime\.so\.(\d+\.\d+(?:\.\d+)*)", name) for name in names)
    return next((match[1] for match in found if match), None)


def assemble(target: Path, *, installed: Path, stub: Path | None) -> Path:
    """Make a backend directory that also holds aitune's ``onnxruntime`` backend, and return it.

    Args:
        target: Directory to make; must not exist.
        installed: The backend directory to build upon.
        stub: Stub of the Python backend for the running Python; None when it lies beside the backend already.

    Raises:
        ServerError: If the Python backend is not there, which aitune's backend runs in.
    """
    python = installed / "python"
    stub = stub or python / _STUB
    if not (python / _LIBRARY).exists() or not stub.exists():
        raise ServerError(
            f"no Python backend for this Python in {str(installed)!r}, and no C++ backend for ONNX Runtime either",
            hint="install the server with: pip install 'aitune-triton[server]'",
        )
    target.mkdir(parents=True)
    compileall.compile_dir(BACKEND, quiet=2)  # else every stub would do it, as they may not write byte code
    for backend in installed.iterdir():
        if backend.is_dir() and backend.name not in ("python", "onnxruntime"):
            (target / backend.name).symlink_to(backend.absolute())
    (target / "onnxruntime").symlink_to(BACKEND)
    _link_python(target / "python", python, stub)
    return target


def write_starter(folder: Path, *, backends: Path, path: str) -> Path:
    """Write the program that starts stubs in bash's place, and return the folder to put first on ``PATH``.

    Args:
        folder: Directory to make.
        backends: The assembled backend directory.
        path: The ``PATH`` on which the real bash is found.
    """
    folder.mkdir()
    python = backends / "python"
    text = _STARTER.format(
        stub=shlex.quote(str(python / _STUB)),
        python=shlex.quote(str(python)),
        backends=shlex.quote(str(backends)),
        path=shlex.quote(path),
        regions=shlex.quote(str(folder / _REGIONS)),
    )
    script = folder / "bash"
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    return folder


def remove_regions(folder: Path, *, shared_memory: Path = _SHARED_MEMORY) -> None:
    """Remove the shared memory that stubs of a server left behind; it does so when it is not given the time to unload.

    Args:
        folder: What :func:`write_starter` made; the starter notes the name of every region there.
        shared_memory: Where regions are files.
    """
    noted = folder / _REGIONS
    names = noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []
    for name in names:
        if re.fullmatch(r"triton_\w+_shm_region_[0-9a-f-]+", name):
            (shared_memory / name).unlink(missing_ok=True)


def link_libpython(folder: Path) -> Path | None:
    """Link the shared library of the running Python into a new folder; None when this Python has none.

    The stub is linked against it, and a Python outside the system's folders is not found by the loader. Only this one
    library is linked: a whole ``lib`` folder on ``LD_LIBRARY_PATH`` would replace other libraries of the server.
    """
    name = sysconfig.get_config_var("INSTSONAME")
    library = Path(sysconfig.get_config_var("LIBDIR") or "", name or "")
    if not name or ".so" not in name or not library.is_file():
        return None
    folder.mkdir()
    (folder / name).symlink_to(library)
    return folder


def _link_python(target: Path, python: Path, stub: Path) -> None:
    """The Python backend with the stub beside it; its library is copied, because Triton refuses one that is a link."""
    target.mkdir()
    for entry in python.iterdir():
        if entry.name not in (_STUB, _LIBRARY, "__pycache__"):
            (target / entry.name).symlink_to(entry.absolute())
    shutil.copyfile(python / _LIBRARY, target / _LIBRARY)
    (target / _STUB).symlink_to(os.path.abspath(stub))
