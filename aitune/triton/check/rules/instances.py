"""Backend library and instance groups (section 3.4)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aitune.triton.check.edits import remove_field, replace_value
from aitune.triton.check.finding import Finding
from aitune.triton.check.folder import Folder
from aitune.triton.check.model import Model
from aitune.triton.check.tree import Node

__all__ = ["backend_library", "groups", "profiles"]

_TOLD = 8
_KINDS = ("KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL")


def backend_library(model: Model) -> Iterator[Finding]:
    """R106: the backend is installed, or comes with the model."""
    backend, runtime = model.backend, model.config.text("runtime")
    if model.is_ensemble or not backend:
        return
    library = runtime or f"libtriton_{backend}.so"
    folders: list[Folder] = [model.folder, *(v.folder for v in model.versions if v.folder is not None)]
    if "/" in library or library in (".", ".."):
        message = f"runtime {library!r} escapes backend directory"
        yield model.error("R106", model.config, "runtime", message, "give the plain name of a library")
        return
    if any(folder.get(library) for folder in folders) or (
        model.options.has_backend(backend) and _is_its_runtime(backend, runtime)
    ):
        return
    known = ", ".join(sorted(name for name in model.options.backends if model.options.has_backend(name)))
    better = _meant(backend)
    edits = replace_value(model.source, model.config, "backend", f'"{better}"') if better else ()
    message = f"unable to find backend library {library!r} for backend {backend!r}; the server has {known}"
    fix = f'backend: "{better}"' if better else ""
    yield model.error("R106", model.config, "runtime backend" if runtime else "backend", message, fix, edits)


def _is_its_runtime(backend: str, runtime: str) -> bool:
    """Whether the installed backend is found under this ``runtime``; Python-based backends go by model.py."""
    compiled = ("onnxruntime", "tensorrt", "openvino", "python", "tensorflow")
    return runtime in ("", f"libtriton_{backend}.so") or (runtime == "model.py" and backend not in compiled)


def _meant(backend: str) -> str:
    """The backend that a near miss names."""
    words = {
        "onnx": "onnxruntime",
        "onnxruntime_onnx": "onnxruntime",
        "ort": "onnxruntime",
        "tensorrt_plan": "tensorrt",
        "trt": "tensorrt",
        "pytorch_libtorch": "pytorch",
        "libtorch": "pytorch",
        "torch": "pytorch",
    }
    return words.get(backend.lower().replace("-", "_").removesuffix("_backend"), "")


def groups(model: Model) -> Iterator[Finding]:
    """R109 to R114: kinds and GPUs of every instance group fit the host."""
    if model.is_ensemble:
        return
    for group in model.config.messages("instance_group"):
        written, kind, gpus = group.choice("kind"), model.resolve_kind(group), group.numbers("gpus")
        if written not in _KINDS:
            yield model.error("R114", group, "kind", f"instance group kind {written}: unexpected kind KIND_AUTO")
        elif kind == "KIND_CPU" and gpus:
            yield _cpu_with_gpus(model, group, written)
        elif kind == "KIND_MODEL" and gpus:
            message = "the group has kind KIND_MODEL but specifies one or more GPUs"
            edits = remove_field(model.source, group, "gpus")
            yield model.error("R110", group, "gpus", message, "remove gpus", edits)
        elif kind == "KIND_GPU":
            yield from _gpu_group(model, group, gpus)


def _cpu_with_gpus(model: Model, group: Node, written: str) -> Finding:
    why = ""
    if written == "KIND_AUTO":
        why = "; KIND_AUTO became KIND_CPU because a listed GPU is not usable on this host"
    message = f"the group has kind KIND_CPU but specifies one or more GPUs{why}"
    return model.error("R109", group, "gpus", message, "remove gpus", remove_field(model.source, group, "gpus"))


def _gpu_group(model: Model, group: Node, gpus: tuple[int, ...]) -> Iterator[Finding]:
    if not gpus and not model.serves_gpu:
        message = "the group has kind KIND_GPU but no GPUs are available on the target"
        # KIND_AUTO would become KIND_CPU, which TensorRT refuses (R250).
        fix = "serve it on a host with a GPU" if model.backend == "tensorrt" else "kind: KIND_AUTO"
        yield model.error("R111", group, "kind", message, fix)
    wrong = sorted(set(gpus) - set(model.options.gpus))
    if wrong:
        usable = ", ".join(map(str, model.options.gpus)) or "none"
        told = ", ".join(map(str, wrong[:_TOLD])) + (f" and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else "")
        message = f"the group specifies invalid or unsupported gpu id {told}; usable are: {usable}"
        yield model.error("R112", group, "gpus", message)


def profiles(model: Model) -> Iterator[Finding]:
    """R115, R116: optimisation profiles are numbers, and TensorRT's."""
    for group in model.config.messages("instance_group"):
        names = group.texts("profile")
        if names and model.config.text("platform") != "tensorrt_plan":
            message = "the group specifies profile, which is only supported for TensorRT models"
            edits = remove_field(model.source, group, "profile")
            yield model.error("R115", group, "profile", message, "remove profile", edits)
            continue
        for name in names:
            found = re.match(r"\s*([+-]?[0-9]{1,1000})", name)
            if not name:
                yield model.error("R116", group, "profile", "profile name must not be empty")
            elif found is None:
                yield model.error("R116", group, "profile", f"unable to parse profile {name!r}: it must be a number")
            elif int(found.group(1)) < 0:
                yield model.error("R116", group, "profile", f"invalid profile {name!r}: it must not be negative")
