"""Files that are not ONNX models, and what is said about each."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from aitune.errors import SourceError
from aitune.onnx import opening
from aitune.onnx.reading import describe, read_interface


def _zip(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return file.getvalue()


def _whole() -> bytes:
    """A model with something in every part that is read."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    inner = helper.make_graph([helper.make_node("Constant", [], ["c"], value=weights)], "inner", [], [])
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])
    graph = helper.make_graph(
        [helper.make_node("If", ["x"], ["s"], then_branch=inner)], "g", [x], [sequence], [weights]
    )
    graph.sparse_initializer.add().values.CopyFrom(weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="maker")
    model.training_info.add().algorithm.CopyFrom(inner)
    model.functions.add().node.append(graph.node[0])
    return model.SerializeToString()


_DAMAGED = _whole()
STRANGERS = {
    "git-LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
    "web page": b"\n  <!DOCTYPE html><html><body>404</body></html>",
    "PyTorch checkpoint": _zip("archive/data.pkl"),
    "zip archive": _zip("model.onnx"),
    "Python pickle": pickle.dumps({"a": 1}),
    "compressed file": b"\x1f\x8b\x08\x00rest",
    "TensorRT plan": b"ftrt\x00\x00\x01",
    "HDF5 file": b"\x89HDF\r\n\x1a\n",
    "ONNX Runtime's own format": b"\x20\x00\x00\x00ORTM\x00",
    "TensorFlow Lite": b"\x1c\x00\x00\x00TFL3\x00",
    "safetensors": (10).to_bytes(8, "little") + b'{"a":null}',
    "text form": b'ir_version: 8\nproducer_name: "x"\n',
    "text file": ("plain words, é, and so on\n" * 400).encode(),
    "not a protobuf message": b"\x00\x01\x02garbage",
    "holds no graph": b"\x08\x08\x12\x01x",
}


@pytest.mark.parametrize("what", STRANGERS)
def test_a_file_that_is_something_else_is_named_with_advice(tmp_path: Path, what: str) -> None:
    """A file given by mistake is called what it is, in one line, with what to do about it."""
    path = tmp_path / "model.onnx"
    path.write_bytes(STRANGERS[what])
    with pytest.raises(SourceError, match=what) as caught:
        describe(path)
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_a_missing_file_a_folder_and_an_empty_file_are_told_apart(tmp_path: Path) -> None:
    """Three ways to have no model, three messages; a folder says which models it holds."""
    (tmp_path / "a.onnx").touch()
    (tmp_path / "link.onnx").symlink_to("nowhere")
    with pytest.raises(SourceError, match="does not exist"):
        describe(tmp_path / "none.onnx")
    with pytest.raises(SourceError, match="is a link to a file that does not exist"):
        describe(tmp_path / "link.onnx")
    with pytest.raises(SourceError, match="is empty"):
        describe(tmp_path / "a.onnx")
    with pytest.raises(SourceError, match="is a folder") as caught:
        describe(tmp_path)
    assert "a.onnx" in caught.value.hint


def test_a_pipe_and_a_path_through_a_file_are_refused(tmp_path: Path) -> None:
    """Neither a special file nor an impossible path is waited for or crashed on."""
    os.mkfifo(tmp_path / "pipe.onnx")
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(SourceError, match="not a regular file"):
        describe(tmp_path / "pipe.onnx")
    with pytest.raises(SourceError, match="cannot be read: not a directory"):
        describe(tmp_path / "file" / "model.onnx")


def test_a_file_without_permission_is_refused(relu: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system says about a file that may not be read is passed on (root may read all, so open is denied)."""

    def denied(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = relu()
    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(SourceError, match="cannot be read: permission denied"):
        describe(path)


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_a_model_that_is_cut_short_says_how_much_is_there(relu: Callable[..., Path], kept: float) -> None:
    """A broken download is not called garbage: the message says that the file is cut short."""
    path = relu()
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(SourceError, match=rf"is cut short: .*\({int(len(data) * kept)} bytes are there\)"):
        describe(path)


def test_a_model_that_ends_before_its_opsets_is_incomplete(build: Callable[..., Path]) -> None:
    """A cut exactly between two fields leaves a valid message, and still no model."""
    value = ("x", TensorProto.FLOAT, [1])
    path = build([helper.make_node("Relu", ["x"], ["y"])], [value], [("y", TensorProto.FLOAT, [1])], opsets=())
    with pytest.raises(SourceError, match="names no opset"):
        describe(path)


def test_a_file_over_two_gigabytes_is_refused_before_it_is_read(
    relu: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protobuf cannot hold such a file; the advice is external data."""
    monkeypatch.setattr(opening, "_LIMIT_BYTES", 10)
    with pytest.raises(SourceError, match="no ONNX file can be larger than 2 GB") as caught:
        describe(relu())
    assert "external data" in caught.value.hint


def test_text_that_ends_inside_a_character_is_still_text() -> None:
    """The cut through the last character of the first 4 KiB does not make a text file binary."""
    head = ("a" + "é" * 4000).encode()[:4096]
    assert opening._is_text(head)
    assert not opening._is_text(b"abc\xff")
    assert not opening._is_text(np.arange(9, dtype=np.uint8).tobytes())


@given(st.data())
def test_a_damaged_model_is_read_or_refused(data: st.DataObject) -> None:
    """Whatever happened to the bytes of a model, the answer is an interface or one clear error."""
    damaged = bytearray(_DAMAGED)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(damaged[: data.draw(st.integers(1, len(damaged)))])
        with contextlib.suppress(SourceError):
            assert read_interface(path, prefer=("declared",)).source == "declared"
