"""What the server fills in before it validates, in both modes: name, backend, platform, file name (R163 to R174)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aitune.errors import RepositoryError
from aitune.triton.check.edits import set_field
from aitune.triton.check.finding import Finding
from aitune.triton.check.folder import DIRECTORY, FILE, Folder, inside, read_folder
from aitune.triton.check.model import Model
from aitune.triton.check.tree import Node

__all__ = ["fill", "undetermined"]


@dataclass(frozen=True, slots=True)
class _Family:
    """A backend that core recognises: by platform, by file name in the config, or by a file in a version directory."""

    backend: str
    platforms: tuple[str, ...]
    files: tuple[tuple[str, tuple[str, ...]], ...]

    def claims(self, platform: str, filename: str, inspected: Folder | None) -> bool:
        """Whether core takes the model for one of this family; ``inspected`` is None when no file may decide."""
        if platform in self.platforms or filename in [name for name, _ in self.files]:
            return True
        return inspected is not None and any(inspected.has(name, k) for name, kinds in self.files for k in kinds)


_FAMILIES = (
    _Family(
        "tensorflow",
        ("tensorflow_graphdef", "tensorflow_savedmodel"),
        (("model.savedmodel", (DIRECTORY,)), ("model.graphdef", (FILE,))),
    ),
    _Family("tensorrt", ("tensorrt_plan",), (("model.plan", (FILE,)),)),
    _Family("onnxruntime", ("onnxruntime_onnx",), (("model.onnx", (FILE, DIRECTORY)),)),
    _Family("openvino", (), (("model.xml", (FILE,)),)),
    _Family("pytorch", ("pytorch_libtorch",), (("model.pt", (FILE,)),)),
    _Family("python", (), (("model.py", (FILE,)),)),
)
_PLATFORMS = {"tensorrt": "tensorrt_plan", "onnxruntime": "onnxruntime_onnx", "pytorch": "pytorch_libtorch"}
_FILES = {"tensorrt": "model.plan", "onnxruntime": "model.onnx", "openvino": "model.xml", "python": "model.py"}


def fill(model: Model) -> Node:
    """The config after the server filled in what it could; nothing that was written changes."""
    config = model.written.copy()
    if not config.text("name"):
        config.set("name", model.name)
    if not config.text("backend"):
        backend = _detect(model, config)
        if backend:
            config.set("backend", backend)
    _fill_family(model, config)
    return config


def undetermined(model: Model) -> Iterator[Finding]:
    """R172, R173, R53: nothing says which backend serves the model."""
    config = model.config
    if config.text("backend") or config.text("platform") == "ensemble":
        return
    if config.text("platform") or config.text("default_model_filename"):
        name = config.text("platform") or config.text("default_model_filename")
        field = "platform" if config.text("platform") else "default_model_filename"
        yield model.error(
            "R53", config, field, f"{name!r} names no backend that Triton knows: unexpected platform type",
            'backend: "onnxruntime"',
        )  # fmt: skip
        return
    inspected = _inspected_name(model)
    where = (
        f"only the folder {inspected!r} is inspected, and it holds no model file" if inspected else "no folder in it"
    )
    better = _guess(model)
    yield model.error(
        "R172", config, "backend",
        f"could not determine backend for model {model.name!r}: neither backend nor platform is written, {where}",
        f'backend: "{better}"' if better else "",
        set_field(model.source, model.written, "backend", f'backend: "{better}"') if better else (),
    )  # fmt: skip


def _inspected_name(model: Model) -> str:
    directories = model.folder.directories
    return directories[0].name if directories else ""


def _inspected(model: Model) -> Folder | None:
    """The one folder core looks into: the first of all subfolders in byte order, whatever it is (R163)."""
    name = _inspected_name(model)
    if not name or not inside(model.root, model.folder.path / name):
        return None
    try:
        return read_folder(model.folder.path / name)
    except RepositoryError:
        return None


def _detect(model: Model, config: Node) -> str:
    platform, filename = config.text("platform"), config.text("default_model_filename")
    bare = not platform and not filename
    inspected = _inspected(model) if bare else None
    for family in _FAMILIES:
        if family.claims(platform, filename, inspected):
            return family.backend
    if platform == "torch_aoti" and model.has("torch_aoti"):
        return "pytorch"
    if bare and "." in model.name and model.has("backend_from_dotted_name"):
        return model.name.partition(".")[2]
    return ""


def _fill_family(model: Model, config: Node) -> None:
    backend, platform = config.text("backend"), config.text("platform")
    if not platform and backend in _PLATFORMS:
        config.set("platform", _PLATFORMS[backend])
    if backend == "tensorflow":
        _fill_tensorflow(model, config)
    if config.text("default_model_filename"):
        return
    if backend in _FILES:
        config.set("default_model_filename", _FILES[backend])
    elif backend == "pytorch" and _fills_torch_file(model, config, platform):
        config.set("default_model_filename", "model.pt")
    elif not model.written.text("backend") and not platform and backend and backend != "tensorflow":
        config.set("default_model_filename", f"model.{backend}")


def _fills_torch_file(model: Model, config: Node, platform: str) -> bool:
    if model.has("pytorch_file_name_by_platform"):
        return not platform
    return config.text("runtime") != "model.py"


def _fill_tensorflow(model: Model, config: Node) -> None:
    inspected = _inspected(model)
    saved = inspected is not None and inspected.has("model.savedmodel", DIRECTORY)
    if not config.text("platform"):
        graph = config.text("default_model_filename") == "model.graphdef" or not saved
        config.set("platform", "tensorflow_graphdef" if graph else "tensorflow_savedmodel")
    if not config.text("default_model_filename"):
        graph = config.text("platform") == "tensorflow_graphdef"
        config.set("default_model_filename", "model.graphdef" if graph else "model.savedmodel")


def _guess(model: Model) -> str:
    """The backend that a file in some version directory asks for; for the fix, not for the verdict."""
    for entry in model.folder.directories:
        path = model.folder.path / entry.name
        if not inside(model.root, path):
            continue
        try:
            folder = read_folder(path)
        except RepositoryError:
            continue
        for family in _FAMILIES:
            if family.claims("", "", folder):
                return family.backend
    return ""
