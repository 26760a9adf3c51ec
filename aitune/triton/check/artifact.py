"""Finding the model file of a version and learning what it declares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aitune.errors import AituneError
from aitune.triton.check.edits import set_field
from aitune.triton.check.finding import ERROR, WARNING, Finding
from aitune.triton.check.folder import DIRECTORY, FILE, Folder, inside, joined, kind_of
from aitune.triton.check.model import Model, Version
from aitune.triton.check.scalars import quote

__all__ = ["companions", "locate", "open_artifact"]


def locate(model: Model, version: Version) -> Iterator[Finding]:
    """Find the model file; R211 when there is none."""
    name = version.config.text("default_model_filename") or "model.onnx"
    path = joined(version.path, name)
    shown = f"{version.number}/{name}"
    if not inside(model.root, path):
        message = f"{shown} leads out of the repository and is not opened: only the config is checked"
        yield model.at_file(WARNING, "R211", shown, message)
        return
    if not kind_of(path):
        yield _missing(model, version, name, shown)
    elif kind_of(path) == DIRECTORY:
        inner = path / "model.onnx"
        if kind_of(inner) == FILE and inside(model.root, inner):
            version.artifact = inner
        else:
            message = f"unable to find '{shown}/model.onnx': a folder in place of the file must hold a model.onnx"
            yield model.at_file(ERROR, "R211", shown, message, f"rename the file in it to {shown}/model.onnx")
    elif kind_of(path) != FILE:
        message = f"{shown} is neither a file nor a folder: the server waits for what never comes"
        yield model.at_file(ERROR, "R211", shown, message, f"put the model there, as {model.name}/{shown}")
    else:
        version.artifact = path
        if ".." in Path(name).parts:
            message = f"default_model_filename {name!r} leaves the version directory: versions then share one file"
            yield model.warning("R211", version.config, "default_model_filename", message)


def _missing(model: Model, version: Version, name: str, shown: str) -> Finding:
    fix = f"put the model there, as {model.name}/{shown}"
    if version.folder is None:
        message = f"failed to stat file {shown}: there is no folder {version.number}/"
        return model.at_file(
            ERROR, "R40", str(version.number), message, f"rename the version folder to {version.number}"
        )
    candidate = _candidate(version.folder, Path(name).suffix)
    if candidate and version.config.given("default_model_filename"):
        message = f"failed to stat file {shown}; the folder holds {candidate!r}"
        text = f"default_model_filename: {quote(candidate)}"
        edits = set_field(model.source, model.written, "default_model_filename", text)
        if model.written.given("default_model_filename"):
            return model.error("R211", model.written, "default_model_filename", message, text, edits)
        return model.at_file(ERROR, "R211", shown, message, f"rename {candidate!r}, or write {text}")
    if model.folder.has(name, FILE):
        message = f"failed to stat file {shown}; {name} lies in the model directory instead"
        return model.at_file(ERROR, "R211", shown, message, f"move {model.name}/{name} to {model.name}/{shown}")
    return model.at_file(ERROR, "R211", shown, f"failed to stat file {shown}: there is no such file", fix)


def _candidate(folder: Folder, suffix: str) -> str:
    """The one file that might be meant."""
    names = [entry.name for entry in folder.entries if entry.kind == FILE and suffix and suffix in entry.name]
    return names[0] if len(names) == 1 else ""


def open_artifact(model: Model, version: Version) -> Iterator[Finding]:
    """Read what the model file declares; R213 when a runtime refuses it."""
    read, path = model.options.read_interface, version.artifact
    if path is None:
        return
    shown = str(path.relative_to(model.folder.path)) if path.is_relative_to(model.folder.path) else path.name
    if read is None:
        message = "nothing on this machine can read the model file: names, types and shapes are not compared with it"
        yield model.at_file(WARNING, "A1", shown, message, "install onnxruntime: pip install 'aitune-triton[onnx]'")
        return
    try:
        version.interface = read(path)
    except AituneError as error:
        if error.exit_code == 3:
            yield model.at_file(WARNING, "A1", shown, f"the model file is not compared: {error}", error.hint)
        else:
            yield model.at_file(ERROR, "R213", shown, f"ONNX Runtime refuses the file: {error}", error.hint)


def companions(model: Model, version: Version) -> Iterator[Finding]:
    """R212: files with external data lie where the target's ONNX Runtime opens them."""
    if version.interface is None or version.artifact is None:
        return
    folder = version.artifact.parent
    for name in version.interface.companions:
        path, shown = folder / name, f"{version.number}/{name}"
        fix = "keep the data beside the model"
        if not inside(model.root, path):
            message = f"external data {name!r} lies outside the repository: it is not checked"
            yield model.at_file(WARNING, "R212", shown, message, fix)
        elif kind_of(path) == FILE and not inside(folder, path):
            runtime = f"ONNX Runtime {model.options.release.onnxruntime}"
            if model.has("onnx_external_data_confined"):
                message = f"external data {name!r} leaves the model's folder: {runtime} refuses it"
                yield model.at_file(ERROR, "R212", shown, message, fix)
            else:
                message = f"external data {name!r} leaves the model's folder: {runtime} loads it, later ones refuse it"
                yield model.at_file(WARNING, "R212", shown, message, fix)
        elif kind_of(path) != FILE:
            message = f"external data {name!r} is not there; ONNX Runtime loads the model only if no node reads it"
            yield model.at_file(WARNING, "R212", shown, message, f"put it at {model.name}/{shown}")
