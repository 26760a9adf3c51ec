"""A repository as it lies on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import handmade
import pytest

from aitune.errors import RepositoryError
from aitune.triton import Repository, publish
from aitune.triton.layout import leading_number, version_folders
from aitune.triton.repository import served_versions
from aitune.triton.schema import parse_config


def put(root: Path, name: str, text: str | bytes) -> None:
    """Write a file and its folders."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def test_a_published_model_is_read_back(tmp_path: Path) -> None:
    """Versions, records, config and history."""
    artifact = handmade.fake(tmp_path / "a")
    publish(artifact, tmp_path / "root", model_name="m")
    repository = Repository(tmp_path / "root")
    (model,) = repository.models()
    assert (model.name, model.versions, model.served, model.current) == ("m", (1,), (1,), 1)
    assert model.ours
    assert model.document is not None
    assert model.document.artifact.identity == artifact.identity
    assert model.document.config == model.config_text
    assert [event.action for event in repository.history()] == ["staged", "published"]


def test_a_foreign_model_is_read_without_a_record(tmp_path: Path) -> None:
    """Triton's default policy serves the highest version."""
    put(tmp_path, "m/config.pbtxt", "max_batch_size: 8")
    for number in ("1", "3", "10", "01", "x", "1_old"):
        put(tmp_path, f"m/{number}/model.onnx", "")
    model = Repository(tmp_path).model("m")
    assert (model.versions, model.current, model.ours, model.document) == ((1, 3, 10), 10, False, None)
    assert model.config.max_batch_size == 8


def test_a_model_whose_config_alone_is_ours_is_ours(tmp_path: Path) -> None:
    """The contract in the config tells."""
    put(tmp_path, "m/config.pbtxt", "parameters { key: 'aitune.record.1' value { string_value: '{}' } }")
    assert Repository(tmp_path).model("m").ours


@pytest.mark.parametrize(
    ("text", "problem"), [("dims {", "config.pbtxt cannot be parsed: 1:"), (None, "there is no config.pbtxt")]
)
def test_a_config_that_cannot_be_used_is_told(tmp_path: Path, text: str | None, problem: str) -> None:
    """The view never raises for what is in a model."""
    put(tmp_path, "m/1/model.onnx", "")
    if text is not None:
        put(tmp_path, "m/config.pbtxt", text)
    model = Repository(tmp_path).model("m")
    assert model.config is None
    assert model.problem.startswith(problem)
    assert model.current == 1


def test_a_config_that_is_a_folder_is_told(tmp_path: Path) -> None:
    """R9 ends the server; here it is a line."""
    (tmp_path / "m" / "config.pbtxt").mkdir(parents=True)
    assert Repository(tmp_path).model("m").problem == "config.pbtxt cannot be read: is a directory"


def test_latin_1_in_a_comment_is_read(tmp_path: Path) -> None:
    """The server takes any byte there (§10)."""
    put(tmp_path, "m/config.pbtxt", b"# caf\xe9\nname: 'm'")
    assert Repository(tmp_path).model("m").config.name == "m"


def test_a_broken_record_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    """One bad file does not hide the model."""
    put(tmp_path, "m/config.pbtxt", "")
    put(tmp_path, "m/1/aitune.json", "{}")
    model = Repository(tmp_path).model("m")
    assert "schema_version" in model.record_problems[1]
    assert (model.documents, model.ours) == ({}, True)


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("", (3,)),
        ("version_policy { }", (1, 2, 3)),
        ("version_policy { all { } }", (1, 2, 3)),
        ("version_policy { latest { num_versions: 2 } }", (2, 3)),
        ("version_policy { latest { } }", ()),
        ("version_policy { specific { versions: [1, 7] } }", (1,)),
    ],
)
def test_the_policy_selects(policy: str, served: tuple[int, ...]) -> None:
    """R41 to R43, R175."""
    config: Any = parse_config(policy)
    assert served_versions(config, (1, 2, 3)) == served


@pytest.mark.parametrize(
    ("name", "number"), [("1", 1), ("1abc", 1), (" 3", 3), ("+2", 2), ("007", 7), ("abc", None), (".a1", None)]
)
def test_a_folder_may_take_a_number(name: str, number: int | None) -> None:
    """What Triton reads off it (R39)."""
    assert leading_number(name) == number


def test_only_plain_numbers_are_versions(tmp_path: Path) -> None:
    """Everything else is ignored by Triton, or should be."""
    for name in ("0", "1", "01", "1x", "-1", "99999999999999999999", "configs"):
        (tmp_path / name).mkdir()
    (tmp_path / "2").write_text("a file")
    assert list(version_folders(tmp_path)) == [0, 1]


def test_no_repository_is_one_line(tmp_path: Path) -> None:
    """The hint says how to get one."""
    with pytest.raises(RepositoryError, match="there is no model repository at"):
        Repository(tmp_path / "none")


def test_a_file_is_no_repository(tmp_path: Path) -> None:
    """It is named."""
    (tmp_path / "f").write_text("")
    with pytest.raises(RepositoryError, match="is a file, not a directory"):
        Repository(tmp_path / "f")


def test_a_model_is_no_repository(tmp_path: Path) -> None:
    """One level too deep is the usual mistake."""
    put(tmp_path, "m/config.pbtxt", "")
    with pytest.raises(RepositoryError, match="is a model") as caught:
        Repository(tmp_path / "m")
    assert str(tmp_path) in caught.value.hint


def test_an_unknown_model_names_the_known_ones(tmp_path: Path) -> None:
    """Names of what is there, in the hint."""
    put(tmp_path, "m/config.pbtxt", "")
    with pytest.raises(RepositoryError, match="no model 'x'") as caught:
        Repository(tmp_path).model("x")
    assert caught.value.hint == "there are: m"


def test_a_link_in_a_circle_is_no_model(tmp_path: Path) -> None:
    """It is passed over."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert Repository(tmp_path).names() == ()
