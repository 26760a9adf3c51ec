"""The Triton servers that aitune can start: a binary on this machine, or a Docker image, behind one interface.

Both turn a :class:`ServerOptions` (what the server shall do) into a :class:`Launch` (what to execute). Everything here
but the assembling of a backend directory is a pure function of its arguments.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Protocol

from aitune.errors import ServerError
from aitune.process import run_program
from aitune.triton.backend_directory import (
    assemble,
    cpp_onnxruntime_version,
    has_cpp_onnxruntime,
    link_libpython,
    remove_regions,
    write_starter,
)
from aitune.triton.proved_by import Implementation

__all__ = ["BinaryProgram", "DockerProgram", "Launch", "Ports", "ServerOptions", "ServerProgram"]

_DOCKER_PORTS = (8000, 8001, 8002)
# A stub that has completed a config sleeps for most of a second before it ends, so loads wait rather than work; far
# more of them than cores would starve one another.
_LOADS_PER_CORE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The three TCP ports of a server, on 127.0.0.1."""

    http: int
    grpc: int
    metrics: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What a server shall do, whatever kind of program it is.

    Attributes:
        repository: The model repository, as a path on this machine.
        ports: Where it shall listen.
        control: ``"none"`` (load everything once), ``"poll"`` or ``"explicit"``.
        poll_s: Seconds between two looks at the repository in poll mode.
        load_models: Models to load at start in explicit mode.
        model_config_name: Overlay to prefer, ``configs/<name>.pbtxt``.
        strict: Switch auto-completion of configs off.
        exit_on_error: Let the server end when a model fails to load.
        exit_timeout_s: Seconds the server waits for running requests when it is stopped.
        extra_args: More arguments, passed on as they are.
    """

    repository: Path
    ports: Ports
    control: str = "none"
    poll_s: int = 1
    load_models: tuple[str, ...] = ()
    model_config_name: str | None = None
    strict: bool = False
    exit_on_error: bool = False
    exit_timeout_s: int = 1
    extra_args: tuple[str, ...] = ()

    def arguments(self) -> tuple[str, ...]:
        """The command-line arguments that do not depend on where the server runs."""
        lines = [
            f"--exit-on-error={str(self.exit_on_error).lower()}",
            "--strict-readiness=false",  # ready means: all loading is over, even if a model failed
            f"--exit-timeout-secs={self.exit_timeout_s}",
            f"--model-control-mode={self.control}",
            *(f"--load-model={name}" for name in self.load_models),
        ]
        if self.control == "poll":
            lines.append(f"--repository-poll-secs={self.poll_s}")
        if self.model_config_name is not None:
            lines.append(f"--model-config-name={self.model_config_name}")
        if self.strict:
            lines.append("--disable-auto-complete-config")
        return (*lines, *self.extra_args)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to execute to get a server.

    Attributes:
        argv: The program and its arguments.
        env: The whole environment of the program.
        undo: Removes what may survive the program: a container, shared memory. Called once it has ended.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    undo: Callable[[], object]


class ServerProgram(Protocol):
    """A Triton that can be started."""

    @property
    def label(self) -> str:
        """What it is and where it comes from, for people."""
        ...

    @property
    def implementation(self) -> Implementation:
        """Which ONNX Runtime backend it serves with: ``"aitune-python"`` or ``"nvidia-cpp"``."""
        ...

    @property
    def onnxruntime(self) -> str | None:
        """Version of the ONNX Runtime behind that backend; None when it cannot be known from here."""
        ...

    def launch(self, options: ServerOptions, workspace: Path) -> Launch:
        """What to execute; ``workspace`` is an empty folder that lives as long as the server."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryProgram:
    """A ``tritonserver`` binary on this machine.

    Attributes:
        path: The binary.
        backends: Directory with its backends.
        origin: How it was found, e.g. ``"PATH"``.
        stub: Stub of the Python backend for the running Python, where it does not lie beside the backend.
        libraries: Folder for ``LD_LIBRARY_PATH``; None when the binary finds its libraries itself.
    """

    path: Path
    backends: Path
    origin: str
    stub: Path | None = None
    libraries: Path | None = None

    @property
    def label(self) -> str:
        """What it is and where it comes from, for people."""
        return f"tritonserver at {self.path} (from {self.origin})"

    @property
    def implementation(self) -> Implementation:
        """NVIDIA's C++ backend where it is installed beside the binary, else the Python one that aitune ships."""
        return "nvidia-cpp" if has_cpp_onnxruntime(self.backends) else "aitune-python"

    @property
    def onnxruntime(self) -> str | None:
        """Version of the library beside the C++ backend, or of the installed package ``onnxruntime``."""
        if has_cpp_onnxruntime(self.backends):
            return cpp_onnxruntime_version(self.backends)
        return _installed_onnxruntime()

    def launch(self, options: ServerOptions, workspace: Path) -> Launch:
        """What to execute; a backend directory is assembled in ``workspace`` where aitune's backend is needed."""
        env = self._environment(os.environ)
        backends, starter, threads = self.backends, workspace / "bin", tuple[str, ...]()
        if self.implementation == "aitune-python":
            backends = assemble(workspace / "backends", installed=self.backends, stub=self.stub)
            write_starter(starter, backends=backends, path=env["PATH"])
            env["PATH"] = f"{starter}{os.pathsep}{env['PATH']}"
            libraries = [env.get("LD_LIBRARY_PATH"), link_libpython(workspace / "lib")]
            env["LD_LIBRARY_PATH"] = os.pathsep.join(str(folder) for folder in libraries if folder)
            threads = (f"--model-load-thread-count={_LOADS_PER_CORE * (os.cpu_count() or 1)}",)
        argv = (
            str(self.path),
            *threads,
            f"--model-repository={options.repository.absolute()}",
            f"--backend-directory={backends}",
            *_loopback(options.ports),
            *options.arguments(),
        )
        return Launch(argv=argv, env=env, undo=partial(remove_regions, starter))

    def _environment(self, base: Mapping[str, str]) -> dict[str, str]:
        env = dict(base)
        # The stub takes its Python from PATH, so the running one has to come first.
        env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), base.get("PATH", os.defpath)])
        # Byte code written beside a model would count as a change of the model in poll mode.
        env.setdefault("PYTHONDONTWRITEBYTECODE", "1")
        if self.libraries is not None:
            env["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(self.libraries), base.get("LD_LIBRARY_PATH")]))
        return env


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerProgram:
    """A Docker image with a Triton in it, such as ``nvcr.io/nvidia/tritonserver:24.10-py3``.

    Attributes:
        image: The image, with its tag.
        docker: The client to run it with.
        gpus: Value of ``--gpus``, e.g. ``"all"``; none when empty.
    """

    image: str
    docker: Path = field(default=Path("docker"))
    gpus: str = ""

    @property
    def label(self) -> str:
        """What it is, for people."""
        return f"Docker image {self.image}"

    @property
    def implementation(self) -> Implementation:
        """NVIDIA's images carry the C++ backend."""
        return "nvidia-cpp"

    @property
    def onnxruntime(self) -> str | None:
        """Unknown from outside the image."""
        return None

    def launch(self, options: ServerOptions, workspace: Path) -> Launch:
        """What to execute; the container is named after ``workspace`` so that it can be removed for certain."""
        name = container_name(workspace)
        argv = docker_argv(self.image, options, name=name, docker=str(self.docker), gpus=self.gpus)
        undo = partial(run_program, (str(self.docker), "rm", "--force", name), timeout_s=30.0)
        return Launch(argv=argv, env=dict(os.environ), undo=undo)


def docker_argv(
    image: str, options: ServerOptions, *, name: str, docker: str = "docker", gpus: str = ""
) -> tuple[str, ...]:
    """The ``docker run`` command that serves ``options.repository`` read-only on loopback ports.

    The container keeps Triton's own ports inside and publishes them on 127.0.0.1, in a network of its own.

    Raises:
        ServerError: If the repository's path holds a character that ``--mount`` cannot carry.
    """
    source = str(options.repository.absolute())
    if re.search(r'[,"\n]', source):
        raise ServerError(
            f"docker cannot mount {source!r}: its path holds a comma, a quote or a line break",
            hint="move the repository to a plain path",
        )
    outside = (options.ports.http, options.ports.grpc, options.ports.metrics)
    published = (
        part for out, inside in zip(outside, _DOCKER_PORTS, strict=True) for part in ("-p", f"127.0.0.1:{out}:{inside}")
    )
    return (
        docker,
        "run",
        "--rm",
        "--name",
        name,
        "--network",
        "bridge",
        *published,
        "--shm-size",
        "1g",
        *(("--gpus", gpus) if gpus else ()),
        "--mount",
        f"type=bind,source={source},target=/models,readonly",
        image,
        "tritonserver",
        "--model-repository=/models",
        *options.arguments(),
    )


def container_name(workspace: Path) -> str:
    """A container name that no other server uses: the name of its temporary folder."""
    return "aitune-" + re.sub(r"[^a-zA-Z0-9_.-]", "-", workspace.name)


def _loopback(ports: Ports) -> tuple[str, ...]:
    pairs = (("http", ports.http), ("grpc", ports.grpc), ("metrics", ports.metrics))
    return tuple(part for kind, port in pairs for part in (f"--{kind}-address=127.0.0.1", f"--{kind}-port={port}"))


def _installed_onnxruntime() -> str | None:
    try:
        return metadata.version("onnxruntime")
    except metadata.PackageNotFoundError:
        return None
