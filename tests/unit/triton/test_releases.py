"""The release table."""

from __future__ import annotations

import itertools

import pytest

from aitune.errors import UsageError
from aitune.triton import releases
from aitune.triton.releases import release
from aitune.triton.schema import model_config


@pytest.mark.parametrize("text", ["24.10", "r24.10", "24.10-py3", "2.51.0", "2.51", "v2.51.0", " 24.10 "])
def test_every_way_to_name_a_release_is_understood(text: str) -> None:
    """Container and server number lead to the same release."""
    assert release(text) is release(releases.DEFAULT_RELEASE)


def test_latest_is_the_newest_known() -> None:
    """``latest`` needs no upkeep beside the table."""
    assert release("latest") is releases.RELEASES[-1]


def test_an_unknown_release_names_the_range() -> None:
    """The error says what was asked, its hint what exists."""
    with pytest.raises(UsageError, match=r"no Triton release is called '19\.99'") as caught:
        release("19.99")
    assert "21.10 (2.15.0)" in caught.value.hint


@pytest.mark.parametrize("text", ["26.10", "27.01", "26.11-py3", "r26.12", "2.99.0", "2.99"])
def test_a_release_that_came_later_is_not_called_unknown(text: str) -> None:
    """It may well exist: the message says where the knowledge ends, and what to do."""
    with pytest.raises(UsageError, match="is newer than every release known here") as caught:
        release(text)
    assert caught.value.hint.startswith(f"name {releases.RELEASES[-1].name}:")


@pytest.mark.parametrize("text", ["26.13", "19.99", "3.0.0", "2.5.9.1", "26", "26.1", "abc", "2.52.7"])
def test_what_cannot_be_a_release_is_not_called_newer(text: str) -> None:
    """No such month, no such server, or one between those that are known."""
    with pytest.raises(UsageError, match="no Triton release is called"):
        release(text)


@pytest.mark.parametrize(
    ("name", "server"),
    [("21.10", "2.15.0"), ("22.07", "2.24.0"), ("23.10", "2.39.0"), ("24.01", "2.42.0"), ("24.05", "2.46.0"),
     ("24.08", "2.49.0"), ("25.01", "2.54.0"), ("25.11", "2.63.0"), ("26.03", "2.67.0"), ("26.06", "2.70.0"),
     ("26.08", "2.72.0")],
)  # fmt: skip
def test_server_numbers_match_the_reference(name: str, server: str) -> None:
    """The pairs that the rule reference states hold in the table."""
    assert release(name).server == server


def test_releases_are_ordered_and_ceilings_never_sink() -> None:
    """A newer release never loads less."""
    known = releases.RELEASES
    assert [r.name for r in known] == sorted(r.name for r in known)
    for old, new in itertools.pairwise(known):
        assert (new.max_opset, new.max_ml_opset, new.max_ir_version) >= (
            old.max_opset,
            old.max_ml_opset,
            old.max_ir_version,
        )


def test_ceilings_of_the_bundled_server() -> None:
    """24.10 carries ONNX Runtime 1.19.2, which stops at opset 21 and IR 10."""
    bundled = release("24.10")
    assert (bundled.onnxruntime, bundled.max_opset, bundled.max_ir_version) == ("1.19.2", 21, 10)


def test_behaviours_and_fields_begin_where_the_reference_says() -> None:
    """Before its first release a behaviour does not hold and a field is not parsed."""
    assert not release("24.10").has("onnx_bf16")
    assert release("26.03").has("onnx_bf16")
    assert not release("24.10").knows_field("ModelConfig.model_metrics")
    assert release("24.11").knows_field("ModelConfig.model_metrics")
    assert release("21.10").knows_field("ModelConfig.name")


@pytest.mark.parametrize("key", sorted(releases.FIELDS))
def test_every_dated_field_exists_in_the_schema(key: str) -> None:
    """A misspelt key would silently never apply."""
    *path, last = key.split(".")
    holder = model_config().DESCRIPTOR
    scope = path[0]
    described = holder.message_types_by_name.get(scope) or holder.enum_types_by_name[scope]
    for part in path[1:]:
        described = described.nested_types_by_name.get(part) or described.enum_types_by_name[part]
    names = getattr(described, "fields_by_name", None) or described.values_by_name
    assert last in names
