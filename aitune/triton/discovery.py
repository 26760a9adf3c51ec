"""Which Triton to start: ``--server``, the environment, ``PATH``, or the wheel from PyPI, in this order."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from aitune.errors import ServerError, UsageError
from aitune.triton.programs import BinaryProgram, DockerProgram, ServerProgram

__all__ = ["ENVIRONMENT", "find_server", "find_wheel"]

ENVIRONMENT = "AITUNE_TRITONSERVER"
_DOCKER = ("docker://", "docker:")
_HINT = "install one with: pip install 'aitune-triton[server]', or name one with --server (a binary or docker:IMAGE)"


def find_server(
    explicit: str | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
    wheel: Callable[[], BinaryProgram | None] | None = None,
) -> ServerProgram:
    """The server to start.

    Args:
        explicit: What the user named: a path to a binary, a program on ``PATH``, ``docker:IMAGE`` (also
            ``docker://IMAGE``), or ``wheel`` for the one from PyPI; None to look around.
        env: Environment in which ``AITUNE_TRITONSERVER`` may name one in the same way.
        which: Looks a program up on ``PATH``.
        wheel: Finds the server that a package brought; :func:`find_wheel` when None.

    Raises:
        ServerError: If there is none; the message lists the places that were looked at.
        UsageError: If what was named is a URL: such a server runs already.
    """
    find = find_wheel if wheel is None else wheel
    if explicit:
        return _named(explicit, "--server", which=which, wheel=find)
    if env.get(ENVIRONMENT):
        return _named(env[ENVIRONMENT], ENVIRONMENT, which=which, wheel=find)
    on_path = which("tritonserver")
    if on_path is not None:
        return _binary(Path(on_path), "PATH")
    found = find()
    if found is not None:
        return found
    raise ServerError(
        f"no tritonserver found: no --server given, {ENVIRONMENT} is not set, no tritonserver on PATH, "
        f"and the package nvidia-pytriton is not installed for Python {sys.version_info[0]}.{sys.version_info[1]}",
        hint=_HINT,
    )


def find_wheel() -> BinaryProgram | None:
    """The server inside the installed package nvidia-pytriton, None when it is not there or not for this Python."""
    spec = importlib.util.find_spec("pytriton")
    if spec is None or not spec.submodule_search_locations:
        return None
    package = Path(next(iter(spec.submodule_search_locations)))
    server = package / "tritonserver"
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    stub = server / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not (server / "bin" / "tritonserver").is_file() or not stub.is_file():
        return None
    return BinaryProgram(
        path=server / "bin" / "tritonserver",
        backends=server / "backends",
        origin="the package nvidia-pytriton",
        stub=stub,
        libraries=package.parent / "nvidia_pytriton.libs",
    )


def _named(
    text: str, where: str, *, which: Callable[[str], str | None], wheel: Callable[[], BinaryProgram | None]
) -> ServerProgram:
    for prefix in _DOCKER:
        if text.startswith(prefix) and len(text) > len(prefix):
            docker = which("docker")
            if docker is None:
                raise ServerError(f"{where} asks for {text!r}, but there is no docker on PATH", hint="install docker")
            return DockerProgram(image=text.removeprefix(prefix), docker=Path(docker))
    if "://" in text:
        raise UsageError(f"{where} names {text!r}, a server that runs already", hint="give a running server with --url")
    if text == "wheel":
        found = wheel()
        if found is None:
            raise ServerError(f"{where} asks for the server of nvidia-pytriton, which is not installed", hint=_HINT)
        return found
    binary = which(text)
    if binary is None:
        raise ServerError(f"{where} names {text!r}, which is no executable file and no program on PATH", hint=_HINT)
    return _binary(Path(binary), where)


def _binary(path: Path, origin: str) -> ServerProgram:
    """A binary with the backends that belong to it: ``../backends``, as in NVIDIA's images and the wheel."""
    path = path.absolute()
    wheel = find_wheel()
    if wheel is not None and path.resolve() == wheel.path.resolve():
        return wheel
    beside = path.resolve().parent.parent / "backends"
    backends = beside if beside.is_dir() else Path("/opt/tritonserver/backends")
    return BinaryProgram(path=path, backends=backends, origin=origin)
