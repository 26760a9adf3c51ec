"""Reading a ``torch.export`` program (``model.pt2``) without running anything that hides in the file.

PyTorch evaluates the guards and the sizes in such a file as Python, and falls back to pickle for what it does not know.
A file from elsewhere is data: here every piece of text that would be evaluated must be arithmetic on sizes, and every
tensor must load as a tensor, before PyTorch sees the file.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from aitune.errors import SourceError
from aitune.torch.execution import one_line
from aitune.torch.program import ProgramModule, samples_of
from aitune.torch.source import Source

__all__ = ["check_program", "load_program"]

_MEMBERS = re.compile(
    r"models/[^/]+\.json|data/(weights|constants|sample_inputs)/(?!custom_obj|opaque_obj)[^/]+|archive_\w+|byteorder|"
    r"version|\.data/\w+|\.format_version|\.storage_alignment|extra/[^/]*"
)
"""What may be in the archive: no libraries, no objects of other classes."""
_PICKLES = re.compile(r".*\.pt$")
_EVALUATED = ("expr_str", "guards_code")
_ARITHMETIC = (
    *(ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Tuple, ast.Subscript, ast.Attribute, ast.Call, ast.keyword),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
_NAMES = re.compile(r"L|max|min|abs|int|float|math|floor|ceiling|torch|[A-Z]\w*|[a-z]{1,3}\d+|(int_)?oo|zoo|nan")
_METHODS = frozenset({"size", "stride", "storage_offset", "shape", "dtype", "device", "floor", "ceil", "trunc", "sqrt"})
_OWN_CODE = "load the program in Python, where you trust it, and give file.py:function"


def load_program(path: Path) -> Source:
    """The module of an exported program, and the inputs it was exported with as its only sample.

    Args:
        path: A file written by ``torch.export.save``.

    Raises:
        SourceError: If it is missing, no such file, made by a PyTorch that this one cannot read, or holds more than a
            program.
    """
    check_program(path)
    try:
        program = torch.export.load(path)
        module = ProgramModule(program)
    except Exception as error:  # the boundary to a foreign reader: its errors have no common base
        raise SourceError(
            f"program {str(path)!r} cannot be read by torch {torch.__version__}: {one_line(error)}",
            hint="save it again with this version of torch",
        ) from error
    return Source(module=module, samples=samples_of(program, module), name=path.stem)


def check_program(path: Path) -> None:
    """Refuse a file that would run anything while it is read.

    Raises:
        SourceError: If it is missing, no program, or holds more than one.
    """
    if not path.is_file():
        raise SourceError(f"program {str(path)!r} does not exist", hint="give a file written by torch.export.save")
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name.partition("/")[2]: name for name in archive.namelist()}
            if not any(name.startswith("models/") for name in members):
                raise SourceError(f"program {str(path)!r} holds no exported program", hint=_written_by(members))
            for name, member in members.items():
                _check_member(path, name, archive, member)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise SourceError(
            f"program {str(path)!r} is no file of torch.export: {error}",
            hint="give a file written by torch.export.save",
        ) from error


def _written_by(members: Mapping[str, str]) -> str:
    if any(name.endswith("data.pkl") for name in members):
        return "it looks like weights of torch.save: write a function that returns (module, samples)"
    return "give a file written by torch.export.save"


def _check_member(path: Path, name: str, archive: zipfile.ZipFile, member: str) -> None:
    if not _MEMBERS.fullmatch(name):
        raise SourceError(f"program {str(path)!r} holds {name!r} besides the program", hint=_OWN_CODE)
    if name.startswith("models/"):
        for text in _evaluated(json.loads(archive.read(member))):
            if not is_arithmetic(text):
                raise SourceError(f"program {str(path)!r} holds code besides sizes: {text[:80]!r}", hint=_OWN_CODE)
    elif _PICKLES.fullmatch(name):
        try:
            torch.load(io.BytesIO(archive.read(member)), weights_only=True, map_location="cpu")
        except Exception as error:  # the boundary to a foreign reader: its errors have no common base
            raise SourceError(
                f"program {str(path)!r} holds objects besides tensors in {name!r}: {one_line(error)}", hint=_OWN_CODE
            ) from error


def _evaluated(value: Any, key: str = "") -> Iterator[str]:
    """Every text in a program that PyTorch evaluates."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _evaluated(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from _evaluated(part, key)
    elif isinstance(value, str) and key in _EVALUATED:
        yield value


def is_arithmetic(text: str) -> bool:
    """Whether a text is a formula about sizes and nothing else.

    >>> is_arithmetic("L['x'].size()[1] % 8 == 0"), is_arithmetic("Symbol('s77', positive=True, integer=True)")
    (True, True)
    >>> is_arithmetic("__import__('os').system('ls')"), is_arithmetic("exit()"), is_arithmetic("L.__class__")
    (False, False, False)
    """
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_is_formula(node) for node in ast.walk(tree))


def _is_formula(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return _NAMES.fullmatch(node.id) is not None
    if isinstance(node, ast.Attribute):
        return node.attr in _METHODS or (
            isinstance(node.value, ast.Name) and node.value.id == "torch" and _is_dtype(node)
        )
    return isinstance(node, _ARITHMETIC)


def _is_dtype(node: ast.Attribute) -> bool:
    return isinstance(getattr(torch, node.attr, None), torch.dtype)
