"""Samples for ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aitune.errors import SourceError
from aitune.onnx.samples import fit_samples, read_npz
from aitune.records import DType, TensorSpec


def _fit(dtype: DType, value: Any) -> Any:
    return fit_samples([{"x": value}], [TensorSpec("x", dtype, ("N",))])[0]["x"]


def test_one_array_per_input_is_one_sample(tmp_path: Path) -> None:
    """The plain form: the arrays of one request under the names of the inputs."""
    np.savez(tmp_path / "s.npz", ids=np.arange(3), mask=np.ones(3))
    (sample,) = read_npz(tmp_path / "s.npz", ["ids", "mask"])
    assert (sample["ids"].tolist(), sample["mask"].tolist()) == ([0, 1, 2], [1, 1, 1])


def test_numbered_arrays_are_several_samples_in_order(tmp_path: Path) -> None:
    """``NAME#10`` comes after ``NAME#2``, and an input whose own name has a ``#`` is left whole."""
    arrays = {f"x#{number}": np.array([number]) for number in (10, 2)} | {f"a#1#{n}": np.zeros(1) for n in (2, 10)}
    np.savez(tmp_path / "s.npz", **arrays)
    samples = read_npz(tmp_path / "s.npz", ["x", "a#1"])
    assert [sample["x"].item() for sample in samples] == [2, 10]
    np.savez(tmp_path / "t.npz", **{"a#1": np.zeros(1)})
    assert list(read_npz(tmp_path / "t.npz", ["a#1"])[0]) == ["a#1"]


def test_files_that_hold_no_samples_are_refused(tmp_path: Path) -> None:
    """Each way of not being a sample file has its own line, and nothing is ever unpickled."""
    path = tmp_path / "s.npz"
    cases: list[tuple[Any, str]] = [
        (lambda: np.savez(path, y=np.zeros(1)), "hold 'y', which is no input"),
        (lambda: np.savez(path, **{"x": np.zeros(1), "x#0": np.zeros(1)}), "input 'x' of sample 0 twice"),
        (lambda: np.savez(path), "hold no arrays"),
        (lambda: np.savez(path, x=np.array([{}], dtype=object)), "hold objects"),
        (lambda: path.write_bytes(b"nothing of the kind"), "hold objects or are no .npz file"),
        (lambda: path.write_bytes(b"PK\x03\x04 broken"), "are broken"),
        (lambda: np.save(path.open("wb"), np.zeros(1)), "are one array without a name"),
        (path.unlink, "cannot be read: no such file"),
    ]
    for prepare, message in cases:
        prepare()
        with pytest.raises(SourceError, match=message):
            read_npz(path, ["x"])


@pytest.mark.parametrize(
    ("dtype", "given", "held"),
    [
        (DType.INT64, np.array([1, 2], np.int32), [1, 2]),
        (DType.INT8, [1, -2], [1, -2]),
        (DType.BOOL, [0, 1], [False, True]),
        (DType.INT64, [True, False], [1, 0]),
        (DType.FLOAT32, np.array([0.5, np.inf]), [0.5, np.inf]),
        (DType.FLOAT16, [1, 2], [1.0, 2.0]),
        (DType.BFLOAT16, np.array([1.0], np.float32), [0x3F80]),
        (DType.BFLOAT16, np.array([0x3F80], np.uint16), [0x3F80]),
        (DType.BFLOAT16, np.array([b"\x80\x3f"], "V2"), [0x3F80]),
        (DType.STRING, np.array(["é", ""]), ["é".encode(), b""]),
        (DType.STRING, np.array([b"a\xff"], "S2"), [b"a\xff"]),
        (DType.STRING, np.array([b"a", "b"], object), [b"a", b"b"]),
    ],
)
def test_values_are_held_as_the_contract_holds_them(dtype: DType, given: Any, held: list[Any]) -> None:
    """Types that users save are converted where nothing is lost."""
    found = _fit(dtype, given)
    assert found.tolist() == held
    assert found.shape == np.shape(given)


@pytest.mark.parametrize(
    ("dtype", "given", "message"),
    [
        (DType.INT8, [300], "has values that int8 cannot hold"),
        (DType.UINT64, np.array([-1]), "has values that uint64 cannot hold"),
        (DType.BOOL, [2], "has values that bool cannot hold"),
        (DType.FLOAT16, [1e9], "has values that float16 cannot hold"),
        (DType.INT64, [0.5], "is float64, and the input takes int64"),
        (DType.FLOAT32, ["a"], "is <U1, and the input takes float32"),
        (DType.BFLOAT16, ["a"], "is <U1, and the input takes bfloat16"),
        (DType.STRING, [1], "is int64, and the input takes strings"),
        (DType.STRING, np.array([1], object), "neither text nor bytes"),
    ],
)
def test_values_that_would_change_are_refused(dtype: DType, given: Any, message: str) -> None:
    """A sample that the input cannot hold is named with its number and input."""
    with pytest.raises(SourceError, match=f"sample 0 of input 'x' .*{message}"):
        _fit(dtype, given)


def test_a_sample_with_other_inputs_is_refused() -> None:
    """A missing and a surplus input are told apart."""
    specs = [TensorSpec("x", DType.INT64, ("N",)), TensorSpec("y", DType.INT64, ("N",))]
    with pytest.raises(SourceError, match="sample 0 lacks input 'y'"):
        fit_samples([{"x": [1]}], specs)
    with pytest.raises(SourceError, match="sample 0 has 'z', which is no input"):
        fit_samples([{"x": [1], "y": [1], "z": [1]}], specs)
