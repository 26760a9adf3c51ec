"""Python models: what can be said without running them (sections 4.8 and 5 of the rules' basis)."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from aitune.triton.check.finding import ERROR, WARNING, Finding
from aitune.triton.check.folder import inside
from aitune.triton.check.model import Model, Version

__all__ = ["completes", "directory_name", "file", "settings", "source"]

_MAX_BYTES = 4 << 20
_CLASS = "TritonPythonModel"


def directory_name(model: Model) -> Iterator[Finding]:
    """R13, R30: the stub's command line breaks on blanks and semicolons."""
    if model.backend != "python":
        return
    for char, word in ((" ", "a space"), (";", "a semicolon")):
        if char in model.name:
            message = f"the directory name contains {word}: the Python backend never finishes loading it"
            yield model.at_file(ERROR, "R13", "", message, f"rename it to {model.name.replace(char, '_')!r}")
    if not model.name.isascii():
        message = "the directory name is not ASCII: the Python backend fails on it under an ASCII locale"
        yield model.at_file(WARNING, "R30", "", message)


def file(model: Model, version: Version) -> Iterator[Finding]:
    """R12: without its file the load never finishes."""
    if version.artifact is None:
        name = version.config.text("default_model_filename") or "model.py"
        message = f"there is no {name} in version {version.number}: the load never finishes and the server hangs"
        yield model.at_file(ERROR, "R12", f"{version.number}/{name}", message, f"put {name} there")
    elif inside(model.root, version.artifact) and not os.access(version.artifact, os.R_OK):
        shown = str(version.artifact.relative_to(model.folder.path))
        message = f"{shown} may not be read: the load never finishes and the server hangs"
        yield model.at_file(ERROR, "R12", shown, message, "let the user of the server read it")


def source(model: Model, version: Version) -> Iterator[Finding]:
    """R203: the file is Python and has the class that the backend looks for."""
    tree, fault = _parse(model, version)
    path = f"{version.number}/{version.artifact.name}" if version.artifact is not None else ""
    if fault is not None:
        message = f"not Python: {fault.msg}"
        where = f"{model.name}/{path}"
        yield Finding(ERROR, "R203", "", where, fault.lineno or 0, max(fault.offset or 0, 1), message)
    elif tree is not None and (doomed := _doomed(tree)):
        line, message = doomed
        yield Finding(ERROR, "R203", "", f"{model.name}/{path}", line, 1, message)
    elif tree is not None and not _defines(tree, _CLASS):
        message = f"the file defines no class {_CLASS}: the stub cannot start it"
        yield model.at_file(ERROR, "R203", path, message, f"class {_CLASS}: …")


def _parse(model: Model, version: Version) -> tuple[ast.Module | None, SyntaxError | None]:
    path = version.artifact
    if path is None or not inside(model.root, path) or path.stat().st_size > _MAX_BYTES:
        return None, None
    try:
        return ast.parse(path.read_bytes()), None
    except SyntaxError as error:
        return None, error
    except (OSError, ValueError, RecursionError, MemoryError):
        return None, None


def _doomed(tree: ast.Module) -> tuple[int, str] | None:
    """Line and message of something that fails whatever the environment is."""
    for node in tree.body:
        if isinstance(node, ast.Raise):
            return node.lineno, "the file raises while it is imported: the stub cannot start it"
    methods = [one for node in tree.body if isinstance(node, ast.ClassDef) and node.name == _CLASS for one in node.body]
    for method in methods:
        if isinstance(method, ast.FunctionDef) and method.name == "initialize":
            for node in method.body:
                if isinstance(node, ast.Raise):
                    return node.lineno, "initialize raises in every case: the model fails to load"
    return None


def _defines(tree: ast.Module, name: str) -> bool:
    """Whether the module may have ``name``: defined, imported, assigned, or out of sight."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return True
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.alias) and (node.name == "*" or (node.asname or node.name) == name):
            return True
        if isinstance(node, ast.Constant) and node.value == name:
            return True
    return False


def completes(model: Model, version: Version) -> bool:
    """R203: whether the model fills in its own config, so that what is missing may not be missing."""
    if model.options.strict or model.backend != "python":
        return False
    tree, _ = _parse(model, version)
    return tree is not None and _defines(tree, "auto_complete_config")


def settings(model: Model) -> Iterator[Finding]:
    """R210: FORCE_CPU_ONLY_INPUT_TENSORS is yes or no."""
    entry = model.config.map("parameters").get("FORCE_CPU_ONLY_INPUT_TENSORS")
    holder = entry.message("value") if entry is not None else None
    text = holder.text("string_value") if holder is not None else ""
    if model.backend == "python" and entry is not None and text.lower() not in ("yes", "no"):
        message = f"incorrect value {text!r} for FORCE_CPU_ONLY_INPUT_TENSORS: expected values are 'yes' or 'no'"
        yield model.error("R210", holder or entry, "string_value", message, 'string_value: "yes"')
