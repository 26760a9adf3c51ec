"""A source on the command line: what is executed, what is returned, and one line for every fault."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from aitune.errors import SourceError
from aitune.torch.source import load_source

GOOD = """
import torch
def model():
    return torch.nn.Linear(4, 3), [{"input": torch.zeros(2, 4)}, {"input": torch.zeros(3, 4)}]
"""


def written(folder: Path, text: str, name: str = "source.py") -> str:
    """The path of a file with some Python in it."""
    (folder / name).write_text(text)
    return str(folder / name)


def returning(folder: Path, expression: str) -> str:
    """A source whose function returns what an expression gives."""
    return written(folder, f"import torch\nfrom torch import nn\ndef model():\n    return {expression}\n") + ":model"


def test_a_file_gives_module_samples_and_name(tmp_path: Path) -> None:
    """The function of a file is called; its samples are taken one by one."""
    source = load_source(written(tmp_path, GOOD) + ":model")
    assert isinstance(source.module, torch.nn.Linear)
    assert (len(source.samples), source.name) == (2, "model")


def test_a_package_module_is_found_from_the_current_folder(tmp_path: Path) -> None:
    """``package.module:function`` is looked up beside the user, without leaving the folder on the search path."""
    (tmp_path / "nets_of_mine").mkdir()
    written(tmp_path, GOOD, "nets_of_mine/digits.py")
    before = list(sys.path)
    assert load_source("nets_of_mine.digits:model", folder=tmp_path).name == "model"
    assert sys.path == before


def test_a_file_imports_what_lies_beside_it(tmp_path: Path) -> None:
    """A helper module in the folder of the file is found, and the search path is restored."""
    written(tmp_path, "SIZE = 4\n", "helper_beside_it.py")
    before = list(sys.path)
    text = (
        "import torch, helper_beside_it\ndef model():\n    return torch.nn.Identity(), {'input': torch.zeros(2, 3)}\n"
    )
    assert load_source(written(tmp_path, text) + ":model").name == "model"
    assert sys.path == before


@pytest.mark.parametrize("name", ["a b.py", "x:y.py", "modèle.py", "json.py"])
def test_odd_file_names_are_read(tmp_path: Path, name: str) -> None:
    """Blanks, colons, other scripts and names of the standard library do no harm."""
    standard = sys.modules.get("json")
    assert load_source(f"{written(tmp_path, GOOD, name)}:model").name == "model"
    assert sys.modules.get("json") is standard


def test_an_endless_generator_ends_early(tmp_path: Path) -> None:
    """Only so many samples are taken as are looked at."""
    text = GOOD + "\ndef endless():\n    m, s = model()\n    return m, (s[0] for _ in iter(int, 1))\n"
    assert len(load_source(written(tmp_path, text) + ":endless").samples) == 64


def test_what_the_source_prints_stays_out_of_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stdout is the result of a command; what a source prints goes to stderr."""
    load_source(written(tmp_path, "print('loading')\n" + GOOD) + ":model")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "loading\n")


@pytest.mark.parametrize("spec", ["model.py", ":f", "m.py:", "m.py:not a name", "a b:f"])
def test_a_source_that_names_nothing_is_refused(spec: str) -> None:
    """The form is part of the message."""
    with pytest.raises(SourceError, match="source must be"):
        load_source(spec)


def test_a_missing_file_suggests_one_that_is_there(tmp_path: Path) -> None:
    """A slip of the pen is seen."""
    written(tmp_path, GOOD, "models.py")
    with pytest.raises(SourceError, match="does not exist, found nothing") as caught:
        load_source(str(tmp_path / "model.py") + ":model")
    assert "models.py" in caught.value.hint


def test_a_missing_module_is_told_from_a_broken_one(tmp_path: Path) -> None:
    """A name that is nowhere, and a module whose own import fails, are different faults."""
    written(tmp_path, "import nothing_of_the_kind\n", "broken_import_here.py")
    with pytest.raises(SourceError, match="does not exist"):
        load_source("nowhere.at.all:model", folder=tmp_path)
    with pytest.raises(SourceError, match=r"ModuleNotFoundError.*broken_import_here\.py:1") as caught:
        load_source("broken_import_here:model", folder=tmp_path)
    assert "nothing_of_the_kind" in caught.value.hint


def test_an_absent_function_lists_those_that_are_there(tmp_path: Path) -> None:
    """The nearest names come as advice; what is no function says so."""
    path = written(tmp_path, GOOD + "\nmodel_2 = 3\n")
    with pytest.raises(SourceError, match="has no function 'modle'") as caught:
        load_source(path + ":modle")
    assert caught.value.hint == "it has: model"
    with pytest.raises(SourceError, match="must be a function, found a int"):
        load_source(path + ":model_2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import torch\nraise ValueError('no\\nweights')\n", r"raised ValueError: no \(line 2\)$"),
        ("def model(:\n", r"raised SyntaxError: .*\(line 1\)$"),
        ("import sys\nsys.exit('usage')\n", r"raised SystemExit: usage \(line 2\)$"),
        ("def model():\n    return 1 / 0\n", r"model of .* raised ZeroDivisionError: .*\(line 2\)$"),
        ("def model(size):\n    return size\n", r"raised TypeError: .*positional argument"),
    ],
)
def test_code_that_raises_is_one_line_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    """Type, first line and the line of the user's own file; the error itself is the cause."""
    with pytest.raises(SourceError, match=message) as caught:
        load_source(written(tmp_path, text) + ":model")
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_file_that_failed_leaves_no_module_behind(tmp_path: Path) -> None:
    """A half-run file is not found by the next import."""
    before = set(sys.modules)
    with pytest.raises(SourceError):
        load_source(written(tmp_path, "raise ValueError\n") + ":model")
    assert not {name for name in set(sys.modules) - before if name.startswith("aitune_source")}


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("None", "found None"),
        ("nn.Identity()", "found the module alone"),
        ("(nn.Identity(),)", "found 1 values"),
        ("({'x': 1}, nn.Identity())", "the other way round"),
        ("('weights.pt', [])", "found a str where the torch.nn.Module should be"),
        ("{'module': nn.Identity()}", "found a dict"),
        ("(nn.Identity(), [])", "there are no samples"),
        ("(nn.Identity(), 3)", "samples must be a dict"),
        ("(nn.Identity(), (1 / 0 for _ in 'x'))", "raised ZeroDivisionError"),
    ],
)
def test_a_wrong_return_value_says_what_was_found(tmp_path: Path, expression: str, found: str) -> None:
    """A function that returns anything but a module and samples is refused."""
    with pytest.raises(SourceError, match=found):
        load_source(returning(tmp_path, expression))


def test_an_exported_program_is_taken_for_its_module(tmp_path: Path) -> None:
    """A source may hold what ``torch.export`` returned."""
    program = "torch.export.export(nn.Linear(4, 3), (torch.zeros(2, 4),))"
    source = load_source(returning(tmp_path, f"({program}, torch.zeros(2, 4))"))
    assert isinstance(source.module, torch.nn.Module)
