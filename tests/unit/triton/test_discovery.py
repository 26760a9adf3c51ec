"""Where a server is looked for, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitune.errors import ServerError, UsageError
from aitune.triton import discovery
from aitune.triton.discovery import ENVIRONMENT, find_server, find_wheel
from aitune.triton.programs import BinaryProgram, DockerProgram, ServerProgram

WHEEL = BinaryProgram(path=Path("/wheel/bin/tritonserver"), backends=Path("/wheel/backends"), origin="the package")


def look(
    explicit: str | None = None,
    *,
    env: dict[str, str] | None = None,
    programs: dict[str, str] | None = None,
    wheel: BinaryProgram | None = None,
) -> ServerProgram:
    """find_server in a world of our own."""
    return find_server(explicit, env=env or {}, which=(programs or {}).get, wheel=lambda: wheel)


@pytest.fixture(autouse=True)
def _no_wheel_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed where the tests run does not count."""
    monkeypatch.setattr(discovery, "find_wheel", lambda: None)


def test_the_option_wins_over_everything() -> None:
    """--server is followed even when there are other servers."""
    found = look(
        "/a/bin/tritonserver",
        env={ENVIRONMENT: "/b"},
        programs={"/a/bin/tritonserver": "/a/bin/tritonserver", "tritonserver": "/c/tritonserver"},
        wheel=WHEEL,
    )
    assert isinstance(found, BinaryProgram)
    assert (found.path, found.origin) == (Path("/a/bin/tritonserver"), "--server")


def test_the_environment_wins_over_path_and_wheel() -> None:
    """AITUNE_TRITONSERVER takes what --server takes."""
    found = look(env={ENVIRONMENT: "other"}, programs={"other": "/b/other", "tritonserver": "/c/t"}, wheel=WHEEL)
    assert "/b/other (from AITUNE_TRITONSERVER)" in found.label


def test_path_wins_over_the_wheel_and_the_wheel_comes_last() -> None:
    """A tritonserver on PATH, as in NVIDIA's container, is preferred."""
    assert "from PATH" in look(programs={"tritonserver": "/c/bin/tritonserver"}, wheel=WHEEL).label
    assert look(wheel=WHEEL) is WHEEL


def test_no_server_at_all_names_every_place_and_the_cure() -> None:
    """One line that says where was looked, and a hint that says what to install."""
    with pytest.raises(
        ServerError, match=r"no --server given, AITUNE_TRITONSERVER .* PATH, .* nvidia-pytriton"
    ) as error:
        look()
    assert "\n" not in str(error.value)
    assert "pip install 'aitune-triton[server]'" in error.value.hint


@pytest.mark.parametrize("text", ["docker:nvcr.io/nvidia/tritonserver:24.10-py3", "docker://nvcr.io/nvidia/t:1"])
def test_an_image_is_named_with_a_docker_prefix(text: str) -> None:
    """Both spellings."""
    found = look(text, programs={"docker": "/usr/bin/docker"})
    assert isinstance(found, DockerProgram)
    assert found.image.startswith("nvcr.io/")
    assert found.docker == Path("/usr/bin/docker")


def test_an_image_without_docker_is_an_error() -> None:
    """Nothing falls back silently to another server."""
    with pytest.raises(ServerError, match="no docker on PATH"):
        look("docker:image", wheel=WHEEL)


def test_a_url_is_not_something_to_start() -> None:
    """The hint names the option for a running server."""
    with pytest.raises(UsageError, match="runs already") as error:
        look("grpc://localhost:8001")
    assert "--url" in error.value.hint


def test_the_wheel_can_be_asked_for_by_name() -> None:
    """Also past a tritonserver on PATH; asked for and missing is an error."""
    assert look("wheel", programs={"tritonserver": "/c/t"}, wheel=WHEEL) is WHEEL
    with pytest.raises(ServerError, match="nvidia-pytriton, which is not installed"):
        look("wheel")


def test_a_named_server_that_is_not_there_is_an_error() -> None:
    """The message says who named it and what it is not."""
    with pytest.raises(ServerError, match=r"--server names '/x/y', which is no executable file"):
        look("/x/y", wheel=WHEEL)


def test_backends_beside_a_binary_belong_to_it(tmp_path: Path) -> None:
    """../backends where it exists, NVIDIA's place otherwise."""
    (tmp_path / "bin").mkdir()
    binary = str(tmp_path / "bin" / "tritonserver")
    before, after = look(binary, programs={binary: binary}), None
    (tmp_path / "backends").mkdir()
    after = look(binary, programs={binary: binary})
    assert isinstance(before, BinaryProgram)
    assert isinstance(after, BinaryProgram)
    assert (before.backends, after.backends) == (Path("/opt/tritonserver/backends"), tmp_path / "backends")


def test_the_wheels_binary_named_by_path_keeps_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named with --server it is still the wheel's, which needs a stub and libraries."""
    monkeypatch.setattr(discovery, "find_wheel", lambda: WHEEL)
    assert look("server", programs={"server": str(WHEEL.path)}) is WHEEL


def test_a_wheel_for_another_python_is_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub for the running Python has to be there."""
    monkeypatch.undo()
    package = tmp_path / "pytriton"
    stub = package / "tritonserver" / "python_backend_stubs"
    for folder in (package / "tritonserver" / "bin", stub):
        folder.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "tritonserver" / "bin" / "tritonserver").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert find_wheel() is None
    version = ".".join(map(str, __import__("sys").version_info[:2]))
    (stub / version).mkdir()
    (stub / version / "triton_python_backend_stub").touch()
    found = find_wheel()
    assert found is not None
    assert found.libraries == tmp_path / "nvidia_pytriton.libs"


def test_without_the_package_there_is_no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without nvidia-pytriton."""
    monkeypatch.undo()
    monkeypatch.setattr(discovery.importlib.util, "find_spec", lambda name: None)
    assert find_wheel() is None
