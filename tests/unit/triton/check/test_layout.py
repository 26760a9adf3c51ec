"""What lies in a repository: links, folders, versions, overlays, other tools' files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from aitune.errors import RepositoryError, UsageError
from aitune.records.interface import Interface
from aitune.triton.check import versions

from .conftest import LINEAR, Repository

CONFIG = """backend: "onnxruntime"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
"""


def told(repository: Repository, **options: Any) -> list[tuple[str, str, str]]:
    """Severity, rule and file of every finding."""
    return [(one.severity, one.rule, one.file) for one in repository.check(**options)]


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    """R26 is bad input, not a verdict."""
    with pytest.raises(RepositoryError, match="does not exist"):
        Repository(tmp_path / "no").check()
    (tmp_path / "file").write_text("")
    with pytest.raises(RepositoryError, match="is not a directory"):
        Repository(tmp_path / "file").check()


@pytest.mark.parametrize("target", ["tpu", "gpu:0", "gpu:x", "cpu:2"])
def test_a_target_that_is_none_is_refused(repository: Repository, target: str) -> None:
    """The message names what was given."""
    with pytest.raises(UsageError, match=target):
        repository.check(target=target)


def test_an_empty_repository_is_a_warning(repository: Repository) -> None:
    """R32: the server starts, with nothing in it; plain files do not count."""
    repository.file("README.md")
    assert told(repository) == [("warning", "R32", ".")]


def test_a_link_to_nowhere_in_the_root_stops_everything(repository: Repository) -> None:
    """R10 is about the repository."""
    repository.model(CONFIG)
    (repository.root / "current").symlink_to("gone")
    assert told(repository) == [("error", "R10", "current")]


@pytest.mark.parametrize("stray", ["lost+found", ".git", "docs"])
def test_a_stray_folder_is_a_model_that_fails(repository: Repository, stray: str) -> None:
    """R27: so a server with default flags exits, which is what is reported."""
    repository.model(CONFIG)
    (repository.root / stray).mkdir()
    assert told(repository) == [("error", "R27", stray)]


def test_files_of_other_tools_say_nothing(repository: Repository) -> None:
    """What the server ignores is not mentioned."""
    repository.model(CONFIG)
    for name in ("m/README.md", "m/.ipynb_checkpoints/a", "m/configs/gpu.pbtxt", "m/warmup/x", "m/1/notes", "x.txt"):
        repository.file(name, "}{")
    (repository.root / "m" / "1" / "gone").symlink_to("nowhere")
    assert told(repository) == []


def test_a_mounted_volume_says_nothing(repository: Repository) -> None:
    """A config map is mounted as links through ..data; they stay inside and are followed."""
    repository.file("m/..2026_01_01/config.pbtxt", CONFIG)
    (repository.root / "m" / "..data").symlink_to("..2026_01_01")
    (repository.root / "m" / "config.pbtxt").symlink_to("..data/config.pbtxt")
    repository.file("m/1/model.onnx")
    assert told(repository) == []


def test_a_link_out_of_the_repository_is_not_followed(repository: Repository, tmp_path: Path) -> None:
    """A model, a config or a file elsewhere is a warning, and stays unread."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "config.pbtxt").write_text("}")
    (repository.root / "a").symlink_to(tmp_path / "elsewhere")
    repository.model(None, "b")
    (repository.root / "b" / "config.pbtxt").symlink_to(tmp_path / "elsewhere" / "config.pbtxt")
    repository.model(CONFIG, "c", {"1/other": ""})
    (repository.root / "c" / "1" / "model.onnx").symlink_to(tmp_path / "elsewhere" / "config.pbtxt")
    assert told(repository) == [
        ("warning", "R27", "a"),
        ("warning", "R33", "b/config.pbtxt"),
        ("warning", "R211", "c/1/model.onnx"),
    ]


def test_a_circle_of_links_ends(repository: Repository) -> None:
    """A link to itself leads nowhere."""
    repository.model(CONFIG)
    (repository.root / "m" / "loop").symlink_to("loop")
    assert told(repository) == [("error", "R11", "m/loop")]


def test_a_folder_in_place_of_the_config_kills_the_server(repository: Repository) -> None:
    """R9."""
    repository.model(None)
    (repository.root / "m" / "config.pbtxt").mkdir()
    assert told(repository) == [("error", "R9", "m/config.pbtxt")]


def test_a_pipe_in_place_of_the_config_does_not_hang(repository: Repository) -> None:
    """Opening it would wait for ever."""
    repository.model(None)
    os.mkfifo(repository.root / "m" / "config.pbtxt")
    assert told(repository) == [("error", "R33", "m/config.pbtxt")]


def test_a_huge_config_is_not_read(repository: Repository) -> None:
    """A config is text of at most some megabytes."""
    repository.model(None)
    with repository.file("m/config.pbtxt").open("wb") as opened:
        opened.truncate(1 << 40)
    assert told(repository) == [("error", "R33", "m/config.pbtxt")]


def test_without_a_config_the_server_guesses(repository: Repository) -> None:
    """R34: default mode takes what the model says, strict mode refuses; a near miss is mentioned."""
    repository.model(None, files={"1/model.onnx": "", "config.pbtxt.txt": ""})
    assert told(repository) == [("warning", "R34", "m/config.pbtxt"), ("warning", "R186", "m/config.pbtxt")]
    assert ("error", "R34", "m/config.pbtxt") in told(repository, strict=True)


def test_another_config_is_read_by_name(repository: Repository) -> None:
    """R33: --model-config-name, where the release has it and the file exists."""
    repository.model(CONFIG)
    repository.file("m/configs/cpu.pbtxt", CONFIG.replace("8", "-8"))
    repository.model(CONFIG, "other")
    assert told(repository, model_config_name="cpu") == [("error", "R57", "m/configs/cpu.pbtxt")]
    assert told(repository, model_config_name="cpu", triton="24.04") == []


@pytest.mark.parametrize(
    ("name", "number"),
    [("1", 1), ("10", 10), ("0", 0), ("1abc", 1), ("1.5", 1), ("+2", 2), (" 3", 3), ("-1", -1), ("007", None),
     ("abc", None), ("warmup", None), ("0x1", None), ("", None), ("99999999999999999999", 99999999999999999999)],
)  # fmt: skip
def test_a_folder_name_is_read_as_the_server_reads_it(name: str, number: int | None) -> None:
    """R37 to R39: the leading integer, unless the name begins with 0."""
    assert versions.number_of(name) == number


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [("", [10]), ("latest { num_versions: 2 }", [2, 10]), ("latest { }", []), ("all { }", [1, 2, 10]),
     ("specific { versions: [ 1, 7 ] }", [1]), ("specific { }", [])],
)  # fmt: skip
def test_versions_are_picked_by_policy(repository: Repository, policy: str, chosen: list[int]) -> None:
    """R41 to R44: only what is picked has to load."""
    files = {f"{number}/model.onnx": b"" if number in chosen else b"bad" for number in (1, 2, 10)}
    repository.model(CONFIG + (f"version_policy {{ {policy} }}" if policy else ""), files=files)
    assert repository.check().fails() is (not chosen)


def test_names_that_mislead_are_told(repository: Repository) -> None:
    """R38, R39, R37: leading zero, trailing text, a file."""
    repository.model(CONFIG)
    for name in ("01/x", "1_old/x"):
        repository.file(f"m/{name}")
    repository.file("m/2", "")
    assert told(repository) == [
        ("warning", "R38", "m/01"), ("warning", "R39", "m/1_old"), ("warning", "R37", "m/2"),
    ]  # fmt: skip


def test_a_number_beyond_64_bits_kills_the_server(repository: Repository) -> None:
    """R8."""
    repository.model(CONFIG)
    (repository.root / "m" / "99999999999999999999").mkdir()
    assert told(repository) == [("error", "R8", "m/99999999999999999999")]


def test_a_version_is_looked_for_under_its_number(repository: Repository) -> None:
    """R40: 1_old alone is version 1, and there is no 1/."""
    repository.model(CONFIG, files={"1_old/model.onnx": ""})
    assert ("error", "R40", "m/1") in told(repository)


@pytest.mark.parametrize(
    ("files", "config", "hint"),
    [({"1/model.onnx.txt": ""}, CONFIG, "rename 'model.onnx.txt'"),
     ({"1/x": "", "model.onnx": ""}, CONFIG, "move m/model.onnx to m/1/model.onnx"),
     ({"1/x": ""}, CONFIG, "put the model there, as m/1/model.onnx"),
     ({"1/model.onnx/net.onnx": ""}, CONFIG, "rename the file in it"),
     ({"1/model.onnx": ""}, CONFIG + 'default_model_filename: "net.onnx"', 'default_model_filename: "model.onnx"')],
)  # fmt: skip
def test_a_missing_file_comes_with_what_to_do(
    repository: Repository, files: dict[str, str], config: str, hint: str
) -> None:
    """R211: the likeliest mistakes are recognised."""
    repository.model(config, files=files)
    found = [one for one in repository.check() if one.rule == "R211"]
    assert hint in found[0].fix


def test_a_folder_that_holds_the_model_is_as_good(repository: Repository) -> None:
    """R211: model.onnx/model.onnx, and a file outside the version with a warning."""
    repository.model(CONFIG, "a", {"1/model.onnx/model.onnx": ""})
    repository.model(CONFIG + 'default_model_filename: "../s.onnx"', "b", {"1/x": "", "s.onnx": ""})
    assert told(repository) == [("warning", "R211", "b/config.pbtxt")]


def test_only_the_wanted_models_are_reported(repository: Repository) -> None:
    """A pattern chooses; the others are still looked at for ensembles."""
    repository.model("}", "aa")
    repository.model(CONFIG, "b")
    assert told(repository, models=["b*"]) == []


@pytest.mark.parametrize(
    ("files", "config", "backend"),
    [({"1/model.plan": "", "1/model.onnx": ""}, "", "tensorrt"), ({"1/model.onnx": ""}, "", "onnxruntime"),
     ({"1/model.xml": ""}, "", "openvino"), ({"1/model.pt": ""}, "", "pytorch"), ({"1/model.py": ""}, "", "python"),
     ({"1/model.savedmodel/x": ""}, "", "tensorflow"), ({"1/x": ""}, 'platform: "tensorrt_plan"', "tensorrt"),
     ({"1/x": ""}, 'platform: "pytorch_libtorch"', "pytorch"), ({".git/x": "", "1/model.onnx": ""}, "", ""),
     ({"1/x": ""}, 'default_model_filename: "model.py"', "python")],
)  # fmt: skip
def test_the_backend_is_detected_as_the_server_does(
    repository: Repository, files: dict[str, str], config: str, backend: str
) -> None:
    """R163 to R172: one folder is inspected, and the chain decides."""
    from aitune.triton.check.autofill import fill
    from aitune.triton.check.folder import read_folder
    from aitune.triton.check.judge import read_config
    from aitune.triton.check.model import Model
    from aitune.triton.check.options import Options

    repository.model(config, files=files)
    folder = read_folder(repository.root / "m")
    model = Model(repository.root, "m", folder, Options(), "m/config.pbtxt")
    assert list(read_config(model)) == []
    assert fill(model).text("backend") == backend


def test_a_dotted_name_is_a_backend(repository: Repository) -> None:
    """R171: what follows the first dot."""
    repository.model("", "b.dot.name", {"1/x": ""})
    finding = next(one for one in repository.check() if one.rule == "R106")
    assert "'dot.name'" in finding.message


def test_nothing_that_can_read_a_model_is_a_warning(repository: Repository) -> None:
    """A1: never silence."""
    repository.model(CONFIG)
    assert told(repository, read_interface=None) == [("warning", "A1", "m/1/model.onnx")]


def test_a_folder_that_cannot_be_read_is_an_error(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server cannot read it either."""
    from aitune.triton.check import repository as walk

    real = walk.read_folder

    def refuse(path: Path) -> Any:
        if path.name == "m":
            raise RepositoryError("permission denied")
        return real(path)

    repository.model(CONFIG)
    monkeypatch.setattr(walk, "read_folder", refuse)
    assert told(repository) == [("error", "R27", "m")]


def test_names_in_a_config_are_joined_as_triton_does(repository: Repository) -> None:
    """An absolute name stays below its folder; one that no disk can hold names nothing."""
    repository.model(CONFIG + 'default_model_filename: "/net.onnx"', "a", {"1/net.onnx": ""})
    repository.model(CONFIG + 'default_model_filename: "n\\x00"', "b")
    repository.model(CONFIG + f'default_model_filename: "{"n" * 5000}"', "c")
    assert [(rule, file.split("/")[0]) for _, rule, file in told(repository)] == [("R211", "b"), ("R211", "c")]


def test_a_file_that_nobody_may_read_is_an_error_of_its_model(repository: Repository) -> None:
    """The rest of the repository is judged; the server is thought to run under the same user."""

    def read(path: Path) -> Interface:
        if path.parts[-3] == "m":
            raise PermissionError(13, "Permission denied", str(path))
        return LINEAR

    repository.model(CONFIG)
    repository.model(CONFIG, "other")
    report = repository.check(read_interface=read)
    assert [(one.rule, one.file, one.message) for one in report] == [
        ("R45", "m/1/model.onnx", "1/model.onnx cannot be read: permission denied")
    ]


def rules_for_nobody(repository: Repository) -> list[str]:
    """Root may read everything, so a process that is nobody, and is let through to the folder, looks."""
    repository.check()  # imports all there is to import, from where nobody may not go
    before = {path: path.stat().st_mode for path in (repository.root, *repository.root.parents)}
    closed = [path for path, mode in before.items() if not mode & 0o001]
    for path in closed:
        path.chmod(before[path] | 0o055)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(writing, json.dumps([one.rule for one in repository.check()]).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    for path in closed:
        path.chmod(before[path])
    return json.loads(told)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("locked", "mode", "rule"),
    [("m", 0, "R27"), ("m", 0o644, "R27"), ("m/config.pbtxt", 0, "R33"), ("m/1", 0, "R45"), ("m/1/model.pt", 0, "R45")],
)
def test_what_is_locked_is_told(repository: Repository, locked: str, mode: int, rule: str) -> None:
    """Folders, configs and files, each with what it stops."""
    repository.model('backend: "pytorch"', files={"1/model.pt": b"PK\x03\x04"})
    path = repository.root / locked
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        found = [one.rule for one in repository.check()] if os.geteuid() else rules_for_nobody(repository)
        assert found == [rule]
    finally:
        path.chmod(before)
