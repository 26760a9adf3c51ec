"""Which version directories the server picks (rules R37 to R46)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aitune.errors import RepositoryError
from aitune.triton.check.finding import ERROR, WARNING, Finding
from aitune.triton.check.folder import FILE, Folder, inside, read_folder
from aitune.triton.check.model import RESERVED, Model, Version

__all__ = ["available", "number_of", "select", "selection_findings", "stray_findings"]

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_INT64 = 2**63


def number_of(name: str) -> int | None:
    """The version a folder name stands for, as C++ ``stoll`` reads it; None when it is not a version."""
    if name in RESERVED or (len(name) > 1 and name.startswith("0")):
        return None
    found = _NUMBER.match(name)
    return int(found.group(1)) if found else None


def available(model: Model) -> list[int]:
    """Numbers of all version folders, lowest first."""
    numbers = {number_of(entry.name) for entry in model.folder.directories}
    return sorted(n for n in numbers if n is not None and -_INT64 <= n < _INT64)


def select(model: Model) -> list[Version]:
    """The versions that the policy picks."""
    numbers = available(model)
    policy = model.config.message("version_policy")
    chosen = numbers[-1:]
    if policy is not None:
        latest, specific = policy.message("latest"), policy.message("specific")
        if latest is not None:
            count = latest.number("num_versions")
            chosen = numbers[-count:] if count else []
        elif specific is not None:
            chosen = sorted(set(numbers) & set(specific.numbers("versions")))
        else:
            chosen = numbers
    return [_version(model, number) for number in chosen]


def _version(model: Model, number: int) -> Version:
    path = model.folder.path / str(number if number >= 0 else number + 2 * _INT64)
    folder: Folder | None = None
    if inside(model.root, path) and path.is_dir():
        try:
            folder = read_folder(path)
        except RepositoryError:
            folder = None
    return Version(number, path, folder, model.config)


def selection_findings(model: Model) -> Iterator[Finding]:
    """R8, R41 to R44: nothing, or not everything, can be loaded."""
    for entry in model.folder.directories:
        number = number_of(entry.name)
        if number is not None and not -_INT64 <= number < _INT64:
            message = f"the folder {entry.name!r} reads as a number beyond 64 bits: the server aborts"
            yield model.at_file(ERROR, "R8", entry.name, message, "rename it to a small number")
    policy = model.config.message("version_policy")
    if not model.versions:
        yield _nothing(model)
    specific = policy.message("specific") if policy is not None else None
    if specific is not None and model.versions:
        missing = sorted(set(specific.numbers("versions")) - set(available(model)))
        if missing:
            names = ", ".join(map(str, missing))
            yield model.warning(
                "R43", specific, "versions", f"version {names} is listed but has no folder: it is skipped"
            )


def _nothing(model: Model) -> Finding:
    gist = "at least one version must be available under the version policy"
    policy = model.config.message("version_policy")
    numbers = available(model)
    if numbers and policy is not None:
        latest, specific = policy.message("latest"), policy.message("specific")
        have = ", ".join(map(str, numbers))
        if latest is not None:
            message = f"num_versions 0 selects no version ({gist})"
            return model.error("R41", latest, "num_versions", message, "num_versions: 1")
        if specific is not None:
            listed = ", ".join(map(str, specific.numbers("versions"))) or "none"
            message = f"versions listed: {listed}; folders: {have} ({gist})"
            return model.error("R43", specific, "versions", message, f"versions: [ {numbers[-1]} ]")
    rule = "R46" if model.is_ensemble else "R44"
    also = "; an ensemble needs one too, it may be empty" if model.is_ensemble else ""
    message = f"no version folder: {gist}{also}"
    return model.at_file(ERROR, rule, "", message, f"make the folder {model.name}/1")


def stray_findings(model: Model) -> Iterator[Finding]:
    """R38 to R40: folders whose name does not mean what it seems to mean."""
    loaded = {version.number for version in model.versions}
    for entry in model.folder.directories:
        name, number = entry.name, number_of(entry.name)
        if name in RESERVED or number is None:
            if len(name) > 1 and name.startswith("0"):
                message = f"the folder {name!r} is ignored: a version must not begin with 0"
                yield model.at_file(WARNING, "R38", name, message, f"rename it to {name.lstrip('0') or '0'}")
            continue
        if name == str(number) or not -_INT64 <= number < _INT64:
            continue
        used = "and is loaded" if number in loaded else "and is not selected"
        message = f"the folder {name!r} counts as version {number} {used}; the server looks for it in {number}/"
        yield model.at_file(WARNING, "R39", name, message, "move it out of the model directory, or rename it")
    for name in (entry.name for entry in model.folder.entries if entry.kind == FILE):
        if name.isdigit() and str(int(name)) == name:
            yield model.at_file(WARNING, "R37", name, f"{name!r} is a file, not a version folder: it is ignored")
