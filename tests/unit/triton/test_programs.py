"""What is executed to get a server."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from aitune.errors import ServerError
from aitune.triton import programs
from aitune.triton.programs import BinaryProgram, DockerProgram, Ports, ServerOptions, docker_argv

PORTS = Ports(http=18000, grpc=18001, metrics=18002)


def options(repository: Path, **more: object) -> ServerOptions:
    """Options with the usual ports."""
    return ServerOptions(repository=repository, ports=PORTS, **more)  # type: ignore[arg-type]


def installed(folder: Path, *, cpp: bool = False) -> Path:
    """A backend directory as it is installed."""
    python = folder / "backends" / "python"
    python.mkdir(parents=True)
    for name in ("libtriton_python.so", "triton_python_backend_stub", "triton_python_backend_utils.py"):
        (python / name).write_text(name)
    if cpp:
        onnx = folder / "backends" / "onnxruntime"
        onnx.mkdir()
        for name in ("libtriton_onnxruntime.so", "libonnxruntime.so", "libonnxruntime.so.1.19.2"):
            (onnx / name).touch()
    return folder / "backends"


def test_a_server_listens_on_loopback_alone(tmp_path: Path) -> None:
    """Each of the three endpoints, on the port that was chosen."""
    program = BinaryProgram(path=Path("/x/tritonserver"), backends=installed(tmp_path, cpp=True), origin="PATH")
    argv = program.launch(options(tmp_path), tmp_path).argv
    for kind, port in (("http", 18000), ("grpc", 18001), ("metrics", 18002)):
        assert f"--{kind}-address=127.0.0.1" in argv
        assert f"--{kind}-port={port}" in argv


def test_a_failed_model_does_not_end_the_server(tmp_path: Path) -> None:
    """Ready means that loading is over, so both switches are off unless asked for."""
    plain = options(tmp_path).arguments()
    assert {"--exit-on-error=false", "--strict-readiness=false", "--model-control-mode=none"} <= set(plain)
    assert "--exit-on-error=true" in options(tmp_path, exit_on_error=True).arguments()


def test_every_option_has_its_argument(tmp_path: Path) -> None:
    """Explicit and poll mode, overlays, strict mode and what the user adds, which comes last and wins."""
    made = options(
        tmp_path, control="explicit", load_models=("a", "b"), model_config_name="cpu", strict=True, extra_args=("--x",)
    ).arguments()
    assert {"--model-control-mode=explicit", "--load-model=a", "--load-model=b", "--model-config-name=cpu"} <= set(made)
    assert "--disable-auto-complete-config" in made
    assert made[-1] == "--x"
    assert "--repository-poll-secs=1" in options(tmp_path, control="poll").arguments()


def test_a_cpp_backend_is_used_where_it_is(tmp_path: Path) -> None:
    """The installed directory is passed on as it is, and the library's name gives the version."""
    program = BinaryProgram(path=Path("/x/tritonserver"), backends=installed(tmp_path, cpp=True), origin="PATH")
    assert (program.implementation, program.onnxruntime) == ("nvidia-cpp", "1.19.2")
    assert f"--backend-directory={tmp_path / 'backends'}" in program.launch(options(tmp_path), tmp_path).argv


def test_without_one_our_backend_is_put_beside_the_others(tmp_path: Path) -> None:
    """A directory is assembled in the workspace, and stubs are started by our program."""
    libraries = tmp_path / "libs"
    program = BinaryProgram(
        path=Path("/x/tritonserver"), backends=installed(tmp_path), origin="wheel", libraries=libraries
    )
    work = tmp_path / "work"
    work.mkdir()
    launch = program.launch(options(Path("repository")), work)
    assert program.implementation == "aitune-python"
    assert (work / "backends" / "onnxruntime" / "model.py").is_file()
    assert launch.env["PATH"].split(os.pathsep)[:2] == [str(work / "bin"), str(Path(sys.executable).parent)]
    assert launch.env["LD_LIBRARY_PATH"].split(os.pathsep)[0] == str(libraries)
    assert launch.env["PYTHONDONTWRITEBYTECODE"] == "1"
    assert f"--model-repository={Path('repository').absolute()}" in launch.argv


def test_the_version_of_the_python_implementation_is_the_installed_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And unknown where that package is not installed."""
    program = BinaryProgram(path=Path("/x"), backends=installed(tmp_path), origin="PATH")
    monkeypatch.setattr(programs.metadata, "version", {"onnxruntime": "1.32.0"}.__getitem__)
    assert program.onnxruntime == "1.32.0"

    def missing(name: str) -> str:
        raise programs.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(programs.metadata, "version", missing)
    assert program.onnxruntime is None


def test_a_container_publishes_on_loopback_and_mounts_read_only(tmp_path: Path) -> None:
    """The whole docker command, which no test here can run."""
    argv = docker_argv("image:1", options(tmp_path / "my repo"), name="n", gpus="all")
    line = " ".join(argv)
    assert argv[:6] == ("docker", "run", "--rm", "--name", "n", "--network")
    assert "-p 127.0.0.1:18000:8000 -p 127.0.0.1:18001:8001 -p 127.0.0.1:18002:8002" in line
    assert f"type=bind,source={tmp_path}/my repo,target=/models,readonly" in argv
    assert "--gpus all" in line
    assert argv.index("image:1") + 1 == argv.index("tritonserver")
    assert "--model-repository=/models" in argv


def test_a_container_is_removed_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killing the client would leave the container; its name is that of the server's folder."""
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(programs, "run_program", lambda argv, *, timeout_s: ran.append(argv))
    program = DockerProgram(image="image:1", docker=Path("/usr/bin/docker"))
    launch = program.launch(options(tmp_path), tmp_path / "server-ab_c")
    assert "aitune-server-ab_c" in launch.argv
    launch.undo()
    assert ran == [("/usr/bin/docker", "rm", "--force", "aitune-server-ab_c")]


def test_a_path_that_docker_cannot_mount_is_refused() -> None:
    """A comma would start another mount option."""
    with pytest.raises(ServerError, match="cannot mount"):
        docker_argv("image", options(Path("/a,b")), name="n")


def test_an_image_says_what_it_is() -> None:
    """Its backend is NVIDIA's; the version behind it cannot be seen from outside."""
    program = DockerProgram(image="image:1")
    assert (program.label, program.implementation, program.onnxruntime) == ("Docker image image:1", "nvidia-cpp", None)
