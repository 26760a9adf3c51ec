"""Calling a function that the user names: the only place where code of a user is executed.

Only the file or module that was named is run; files from elsewhere are data. Whatever that code raises becomes one line
that names the line of the user's file.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from aitune.errors import SourceError

__all__ = ["call_function", "load_function"]

T = TypeVar("T")


def call_function(spec: str, take: Callable[[Any], T], *, folder: Path | None = None) -> T:
    """What a function that the user names returns, taken in by ``take``.

    What the function prints goes to stderr: stdout carries results.

    Args:
        spec: ``"path/file.py:function"`` or ``"package.module:function"``; the function takes no arguments.
        take: Given what the function returned; iterates it where it is a generator, so that what that raises is
            reported like the function's own errors.
        folder: Folder that relative paths and packages are looked up in; the current one by default.

    Raises:
        SourceError: If there is no such file, module or function, or if it raises.
    """
    where, name = _split(spec)
    with _loaded(where, folder) as module:
        function = _function(module, name, where)
        result = _guarded(function, f"{name} of {where!r}", module)
        taken: T = _guarded(lambda: take(result), f"taking what {spec!r} returned", module)
    return taken


def load_function(spec: str, *, folder: Path | None = None) -> Callable[..., Any]:
    """A function that the user names, for calling later.

    Args:
        spec: ``"path/file.py:function"`` or ``"package.module:function"``.
        folder: Folder that relative paths and packages are looked up in; the current one by default.

    Raises:
        SourceError: If there is no such file, module or function.
    """
    where, name = _split(spec)
    with _loaded(where, folder) as module:
        return _function(module, name, where)


@contextlib.contextmanager
def _loaded(where: str, folder: Path | None) -> Iterator[ModuleType]:
    """The module that is named, what lies beside it importable and its talk on stderr."""
    folder = Path.cwd() if folder is None else folder
    path = folder / where
    is_file = where.endswith(".py") or "/" in where or path.is_file()
    with _importing_from(path.parent if is_file else folder), contextlib.redirect_stdout(sys.stderr):
        yield _load_file(path, where) if is_file else _load_module(where)


def _split(spec: str) -> tuple[str, str]:
    where, colon, function = spec.rpartition(":")
    if not colon or not where or not function.isidentifier():
        raise SourceError(
            f"a source must be 'file.py:function' or 'package.module:function', found {spec!r}",
            hint="name the function that returns the module and its samples after a colon",
        )
    return where, function


@contextlib.contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Let the user's code import what lies beside it, and leave the search path as it was."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


def _load_file(path: Path, shown: str) -> ModuleType:
    if not path.is_file():
        found = "a folder" if path.is_dir() else "nothing"
        close = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.py")], n=1)
        raise SourceError(
            f"source file {shown!r} does not exist, found {found} there",
            hint=f"did you mean {close[0]!r}?" if close else "",
        )
    digest = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]
    name = f"aitune_source_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SourceError(f"source {shown!r} must be a Python file whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and exporters look their code up there, later too
    loader = spec.loader
    try:
        _guarded(lambda: loader.exec_module(module), f"source file {shown!r}", module)
    except SourceError:
        del sys.modules[name]
        raise
    return module


def _load_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise SourceError(f"a source must be a Python file or module, found {name!r}")
    importlib.invalidate_caches()
    try:
        present = importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        present = False
    if not present and not _parents_import(name):
        raise SourceError(
            f"module {name!r} does not exist", hint="give a path that ends in .py, or install the package"
        )
    return _guarded(lambda: importlib.import_module(name), f"module {name!r}", None)  # type: ignore[no-any-return]


def _parents_import(name: str) -> bool:
    """Whether a parent package is there, so that importing it tells more than that the module is not."""
    try:
        return "." in name and importlib.util.find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _function(module: ModuleType, name: str, where: str) -> Callable[[], Any]:
    found = getattr(module, name, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    if found is not None:
        raise SourceError(f"{name!r} of {where!r} must be a function, found a {type(found).__name__}")
    own = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
    defined = [key for key in own if getattr(getattr(module, key), "__module__", "") == module.__name__]
    close = difflib.get_close_matches(name, defined or own, n=3) or defined[:5]
    raise SourceError(
        f"{where!r} has no function {name!r}", hint=f"it has: {', '.join(close)}" if close else "it has no functions"
    )


def _guarded(function: Callable[[], Any], what: str, module: ModuleType | None) -> Any:
    """What a user's code returns; whatever it raises becomes one line."""
    try:
        return function()
    except SourceError:
        raise
    except (Exception, SystemExit) as error:  # the boundary to a user's code
        raise SourceError(f"{what} raised {_told(error, module)}", hint=_advice(error)) from error


def _told(error: BaseException, module: ModuleType | None) -> str:
    """Type, message and line of the user's own file: ``ValueError: no weights (line 12)``."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{type(error).__name__}: {error.msg} (line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if module is not None and frame.filename == module.__file__]
    if own:
        return f"{text} (line {own[-1].lineno})"
    theirs = [f for f in frames if not f.filename.startswith("<frozen") and Path(f.filename) != Path(__file__)]
    place = [frame for frame in theirs if not Path(frame.filename).is_relative_to(Path(importlib.__file__).parent)]
    return f"{text} ({Path(place[-1].filename).name}:{place[-1].lineno})" if place else text


def _advice(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"install what provides {error.name.partition('.')[0]!r}, or put it beside the source file"
    if isinstance(error, TypeError) and "required positional argument" in str(error):
        return "a source function takes no arguments"
    return ""
