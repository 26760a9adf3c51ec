"""Functions that the user names are called; whatever is wrong with them is one line about the user's own code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aitune.errors import SourceError
from aitune.functions import call_function, load_function

CODE = """
import os
from beside import VALUE

def value():
    print("talk")
    return VALUE

def broken():
    return 1 / 0

def with_argument(x):
    return x

def endless():
    yield 1
    raise ValueError("ran out")

def leaving():
    raise SystemExit("bye")

constant = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file with functions, one that it imports, and one that cannot be read."""
    (tmp_path / "user.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "beside.py").write_text("VALUE = 42\n", encoding="utf-8")
    (tmp_path / "typo.py").write_text("def f(:\n", encoding="utf-8")
    (tmp_path / "absent_import.py").write_text("import nowhere_at_all\n", encoding="utf-8")
    (tmp_path / "it's a file.py").write_text("def f():\n    return 'odd'\n", encoding="utf-8")
    (tmp_path / "package_of_user").mkdir()
    (tmp_path / "package_of_user" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "package_of_user" / "part.py").write_text("def f():\n    return 'part'\n", encoding="utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Modules of one test are not those of the next."""
    yield
    for name in [name for name in sys.modules if name.startswith(("beside", "package_of_user", "aitune_source_"))]:
        del sys.modules[name]


def same(value: Any) -> Any:
    """What came, as it came."""
    return value


def test_a_function_of_a_file_sees_what_lies_beside_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The search path is as before, and what the function prints is talk."""
    before = list(sys.path)
    assert call_function("user.py:value", same, folder=folder) == 42
    assert sys.path == before
    assert capsys.readouterr() == ("", "talk\n")


def test_a_function_of_a_package_is_found_from_the_current_folder(folder: Path) -> None:
    """``package.module:function``, as Python itself would import it."""
    assert call_function("package_of_user.part:f", same, folder=folder) == "part"
    assert call_function("it's a file.py:f", same, folder=folder) == "odd"


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("user.py", "must be 'file.py:function'", "after a colon"),
        ("user.py:no way", "must be 'file.py:function'", "after a colon"),
        ("usr.py:value", "'usr.py' does not exist, found nothing there", "did you mean 'user.py'?"),
        ("package_of_user/:f", "does not exist, found a folder", ""),
        ("user.py:valeu", "has no function 'valeu'", "it has: value"),
        ("user.py:constant", "must be a function, found a int", ""),
        ("user.py:broken", r"ZeroDivisionError: division by zero \(line 10\)", ""),
        ("user.py:with_argument", "missing 1 required positional argument", "takes no arguments"),
        ("user.py:leaving", "raised SystemExit: bye", ""),
        ("typo.py:f", r"SyntaxError: .*\(line 1\)", ""),
        ("absent_import.py:f", "No module named 'nowhere_at_all'", "install what provides 'nowhere_at_all'"),
        ("nowhere.module:f", "module 'nowhere.module' does not exist", "give a path that ends in .py"),
        ("package_of_user.nothing:f", "No module named 'package_of_user.nothing'", ""),
        ("a-b:f", "must be a Python file or module", ""),
    ],
)
def test_every_fault_is_one_line(spec: str, message: str, hint: str, folder: Path) -> None:
    """The error says what was found, in the user's own file where it lies there."""
    with pytest.raises(SourceError, match=message) as caught:
        call_function(spec, same, folder=folder)
    assert hint in caught.value.hint
    assert "\n" not in caught.value.message


def test_what_a_generator_raises_is_reported_like_the_function(folder: Path) -> None:
    """Taking the samples runs the user's code too."""
    with pytest.raises(SourceError, match=r"taking what 'user.py:endless' returned raised ValueError: ran out"):
        call_function("user.py:endless", list, folder=folder)


def test_our_own_errors_pass_through(folder: Path) -> None:
    """They are one line already."""

    def refuse(value: Any) -> Any:
        raise SourceError("no good")

    with pytest.raises(SourceError, match=r"^no good$"):
        call_function("user.py:value", refuse, folder=folder)


def test_a_function_in_a_folder_whose_name_is_not_utf8_is_called(tmp_path: Path) -> None:
    """Python reads such a file, and so does everything around it."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "source.py").write_text("def f():\n    return 3\n")
    assert load_function(f"{folder}/source.py:f")() == 3
