"""What the pipeline and the command line hand on to the PyTorch frontend."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import torch
from torch import nn

from aitune.cli.building import _output_names, _renames
from aitune.errors import BatchingError, RecordError, SourceError, UsageError
from aitune.pipeline import Request, SourceKind, build, default_model_name, kind_of, make_artifact

SOURCE = """
import torch
def gru():
    torch.manual_seed(0)
    return torch.nn.GRU(4, 5), torch.rand(7, 2, 4)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A linear layer as a program of ``torch.export``, its batch dynamic."""
    dynamic = ({0: torch.export.Dim.DYNAMIC},)
    torch.export.save(
        torch.export.export(nn.Linear(4, 3), (torch.rand(2, 4),), dynamic_shapes=dynamic), tmp_path / "net.pt2"
    )
    return str(tmp_path / "net.pt2")


def test_a_program_is_a_source_with_samples_of_its_own(program: str, tmp_path: Path) -> None:
    """Nothing but the file is needed; inputs and outputs are renamed on the way."""
    assert (kind_of(program), default_model_name(program)) == (SourceKind.PROGRAM, "net")
    names = {"input_names": {"input": "rows"}, "output_names": {"output": "scores"}}
    artifact = make_artifact(Request(source=program, tune=False, **names), tmp_path / "work")
    assert (artifact.input_names, artifact.output_names, artifact.max_batch_size) == (("rows",), ("scores",), 8)


def test_a_batch_is_moved_on_request(tmp_path: Path) -> None:
    """Demanded without the option: the option is the advice. With it: batched."""
    (tmp_path / "source.py").write_text(SOURCE)
    source = f"{tmp_path / 'source.py'}:gru"
    with pytest.raises(BatchingError, match="max_batch_size 4 was asked for") as caught:
        make_artifact(Request(source=source, tune=False, max_batch_size=4), tmp_path / "a")
    assert "--move-batch-axis" in caught.value.hint
    moved = make_artifact(Request(source=source, tune=False, max_batch_size=4, move_batch_axis=True), tmp_path / "b")
    assert moved.max_batch_size == 4
    assert [spec.shape for spec in moved.inputs] == [("batch", 7, 4)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_names": {"a": "b"}}, "--input-name is for PyTorch modules"),
        ({"output_names": ("a",)}, "--output-name is for PyTorch modules"),
        ({"move_batch_axis": True}, "--move-batch-axis is for PyTorch modules"),
    ],
)
def test_options_of_modules_do_not_fit_files(options: dict[str, object], message: str, tmp_path: Path) -> None:
    """An ONNX file keeps its names and axes; the option is named before the file is read."""
    with pytest.raises(UsageError, match=message):
        make_artifact(Request(source="model.onnx", **options), tmp_path)


def test_names_are_given_in_order_or_by_the_old_ones() -> None:
    """One spelling or the other; what is neither is refused with the option's name."""
    assert _output_names(("a", "b")) == ("a", "b")
    assert _output_names(("a=b",)) == {"a": "b"}
    assert _renames("--input-name", ("x.y=z",)) == {"x.y": "z"}
    for text in ("a", "=b", "a="):
        with pytest.raises(click.UsageError, match=f"--input-name '{text}' is not of the form OLD=NEW"):
            _renames("--input-name", (text,))


HALF = """
import torch
def half():
    return torch.nn.Linear(4, 3).to(torch.bfloat16), torch.rand(2, 4).to(torch.bfloat16)
"""


def test_a_type_that_the_server_does_not_take_is_found_before_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module shows its types when it is observed: nothing is exported for a server that will never load it."""
    (tmp_path / "source.py").write_text(HALF)
    monkeypatch.setattr("aitune.torch.artifact.export", None)
    with pytest.raises(RecordError, match="is bfloat16, which Triton's onnxruntime backend takes from"):
        build(Request(source=f"{tmp_path / 'source.py'}:half", tune=False), tmp_path / "models")


def test_an_error_names_what_the_user_named(tmp_path: Path) -> None:
    """The exported file is gone when the message is read; the source is not."""
    (tmp_path / "source.py").write_text(HALF)
    source = f"{tmp_path / 'source.py'}:half"
    with pytest.raises(SourceError, match="uses the operator") as caught:
        make_artifact(Request(source=source, tune=False), tmp_path / "work")
    assert f"model {source!r} uses" in str(caught.value)
    assert str(tmp_path / "work") not in str(caught.value)
