"""Programs of ``torch.export`` as sources: read as data, called as they were exported."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from aitune.errors import SourceError
from aitune.torch.observation import observe
from aitune.torch.program_file import check_program, is_arithmetic, load_program

DYNAMIC = torch.export.Dim.DYNAMIC


class Scaled(nn.Module):
    """One argument by position, one by keyword, one nested."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor, more: dict[str, torch.Tensor]) -> dict[str, Any]:
        """Two outputs."""
        y = self.layer(x)
        return {"y": y * scale, "z": y.sum(-1) + more["k"]}


def numbers(*shape: int) -> torch.Tensor:
    """The same numbers in every run of the tests."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def saved(path: Path, module: nn.Module, *args: Any, dynamic: Any = None, **kwargs: Any) -> Path:
    """The file of an exported module."""
    torch.export.save(torch.export.export(module, args, kwargs, dynamic_shapes=dynamic), path)
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linear layer with a dynamic batch."""
    return saved(tmp_path_factory.mktemp("plain") / "net.pt2", nn.Linear(4, 3), numbers(2, 4), dynamic=({0: DYNAMIC},))


def rewritten(source: Path, target: Path, change: Callable[[str, bytes], bytes], more: dict[str, bytes]) -> Path:
    """The archive with some members changed and others added."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
        folder = old.namelist()[0].partition("/")[0]
        for name, data in more.items():
            new.writestr(f"{folder}/{name}", data)
    return target


def test_a_program_brings_its_own_sample(plain: Path) -> None:
    """Name, module and the inputs it was exported with; its batch is dynamic."""
    source = load_program(plain)
    seen = observe(source.module, source.samples)
    assert source.name == "net"
    assert [spec.shape for spec in seen.inputs] == [("batch", 4)]


def test_arguments_go_as_they_were_exported(tmp_path: Path) -> None:
    """By position what was by position, by keyword what was by keyword; nested ones keep their names."""
    dynamic = {"x": {0: DYNAMIC}, "scale": {0: DYNAMIC}, "more": {"k": {0: DYNAMIC}}}
    path = saved(
        tmp_path / "m.pt2", Scaled(), numbers(2, 4), dynamic=dynamic, scale=numbers(2, 1), more={"k": numbers(2)}
    )
    source = load_program(path)
    seen = observe(source.module, source.samples)
    assert [(spec.name, spec.shape[0]) for spec in seen.inputs] == [
        ("x", "batch"),
        ("scale", "batch"),
        ("more.k", "batch"),
    ]
    assert [spec.name for spec in seen.outputs] == ["y", "z"]


def test_a_program_without_a_dynamic_batch_stays_fixed(tmp_path: Path) -> None:
    """What the program refuses is not served."""
    source = load_program(saved(tmp_path / "m.pt2", nn.Linear(4, 3), numbers(2, 4)))
    assert [spec.shape for spec in observe(source.module, source.samples).inputs] == [(2, 4)]


def test_an_axis_that_samples_fix_is_said(tmp_path: Path) -> None:
    """The program could do more than one sample shows."""
    path = saved(tmp_path / "m.pt2", nn.ReLU(), numbers(2, 4), dynamic=({0: DYNAMIC, 1: DYNAMIC},))
    source = load_program(path)
    seen = observe(source.module, source.samples)
    assert "axis 1 of input 'input' is dynamic in the program and fixed here" in " ".join(seen.notes)
    wider = observe(source.module, source.samples, max_shapes={"input": (8, 16)})
    assert "dynamic in the program" not in " ".join(wider.notes)


def test_a_program_in_memory_is_taken_too() -> None:
    """The same module as from a file."""
    program = torch.export.export(nn.Linear(4, 3), (numbers(2, 4),), dynamic_shapes=({0: DYNAMIC},))
    assert observe(program, numbers(2, 4)).inputs[0].shape == ("batch", 4)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("max(1, L['x'].size()[1] // 4) == (L['x'].size()[1] // 4)", True),
        ("Max(Integer(1), FloorDiv(Symbol('s94', positive=True, integer=True), Integer(2)))", True),
        ("L['x'].dtype == torch.float32", True),
        ("__import__('os').system('true')", False),
        ("L['x'].__class__", False),
        ("torch.load('x')", False),
        ("[c for c in ().__class__.__base__.__subclasses__()]", False),
        ("(lambda: 1)()", False),
        ("open('x')", False),
        ("1 +", False),
        ("(" * 5000, False),
    ],
)
def test_only_formulas_about_sizes_are_evaluated(text: str, good: bool) -> None:
    """PyTorch evaluates these texts as Python, so nothing else may be among them."""
    assert is_arithmetic(text) is good


def test_a_guard_that_runs_code_is_refused_before_it_runs(plain: Path, tmp_path: Path) -> None:
    """The file is looked at before PyTorch sees it."""
    proof = tmp_path / "proof"

    def poison(name: str, data: bytes) -> bytes:
        if "/models/" not in name:
            return data
        return json.dumps({**json.loads(data), "guards_code": [f"open({str(proof)!r}, 'w')"]}).encode()

    with pytest.raises(SourceError, match=r"holds code besides sizes: \"open\(") as caught:
        load_program(rewritten(plain, tmp_path / "bad.pt2", poison, {}))
    assert "file.py:function" in caught.value.hint
    assert not proof.exists()


class Opener:
    """Opens a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def test_a_pickle_that_runs_code_is_refused_before_it_runs(plain: Path, tmp_path: Path) -> None:
    """Sample inputs must be tensors; PyTorch itself would fall back to unpickling anything."""
    proof = tmp_path / "proof"

    def poison(name: str, data: bytes) -> bytes:
        return pickle.dumps(Opener(proof)) if "sample_inputs" in name else data

    with pytest.raises(SourceError, match="holds objects besides tensors in 'data/sample_inputs/"):
        load_program(rewritten(plain, tmp_path / "bad.pt2", poison, {}))
    assert not proof.exists()


@pytest.mark.parametrize("name", ["data/aotinductor/model/code.so", "data/constants/custom_obj_0", "xl/model.so"])
def test_what_is_no_program_is_not_loaded(plain: Path, tmp_path: Path, name: str) -> None:
    """Libraries and objects of other classes."""
    path = rewritten(plain, tmp_path / "bad.pt2", lambda _, data: data, {name: b"x"})
    with pytest.raises(SourceError, match=f"holds '{name}' besides the program"):
        check_program(path)


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    """Missing, no archive, weights."""
    with pytest.raises(SourceError, match="does not exist"):
        load_program(tmp_path / "none.pt2")
    (tmp_path / "text.pt2").write_text("text")
    with pytest.raises(SourceError, match=r"is no file of torch\.export: File is not a zip file"):
        load_program(tmp_path / "text.pt2")
    torch.save({"w": numbers(2)}, tmp_path / "weights.pt2")
    with pytest.raises(SourceError, match="holds no exported program") as caught:
        load_program(tmp_path / "weights.pt2")
    assert "weights of torch.save" in caught.value.hint


def test_a_file_of_another_torch_is_one_line(plain: Path, tmp_path: Path) -> None:
    """What PyTorch says about a schema it does not know."""

    def newer(name: str, data: bytes) -> bytes:
        if "/models/" not in name:
            return data
        return json.dumps({**json.loads(data), "schema_version": {"major": 999, "minor": 0}}).encode()

    with pytest.raises(SourceError, match=r"cannot be read by torch .*: \w+") as caught:
        load_program(rewritten(plain, tmp_path / "new.pt2", newer, {}))
    assert "\n" not in str(caught.value)
