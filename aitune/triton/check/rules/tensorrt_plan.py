"""A TensorRT plan against the config, as far as its header and its record tell (sections 6.1 and 6.3 to 6.5)."""

from __future__ import annotations

from collections.abc import Iterator

from aitune.errors import AituneError
from aitune.records.artifact import Artifact, TensorRTPlanArtifact
from aitune.records.dtypes import DType
from aitune.records.plans import PlanFacts, PlanHeader, Profile, ProfileRange, read_plan_header
from aitune.records.shapes import TunedTensorSpec
from aitune.triton.check.edits import dims_text
from aitune.triton.check.finding import ERROR, WARNING, Finding
from aitune.triton.check.folder import FILE, inside, joined, kind_of
from aitune.triton.check.model import Model, Version
from aitune.triton.check.tree import Node
from aitune.triton.compatibility import Writer, loads, say_loading

__all__ = ["layouts", "library", "open_plan", "plan_files", "profiles", "shape_tensors"]

_REFUSED = "unable to create TensorRT engine"
_GUESSES = (
    (b"version https://git-lfs", "a git-lfs pointer", "fetch it with: git lfs pull"),
    (b"<!doctype", "an HTML page", "download the plan itself"),
    (b"<html", "an HTML page", "download the plan itself"),
    (b"pk", "a zip archive", "unpack it"),
    (b"ptrt", "a plan of TensorRT 7 or older", "build it again with the server's TensorRT"),
)


def plan_files(version: Version) -> tuple[str, ...]:
    """Names of the plans that GPUs may get: the default one, then those by compute capability (R251)."""
    named = sorted({entry.text("value") for entry in version.config.map("cc_model_filenames").values()})
    return tuple(dict.fromkeys((version.config.text("default_model_filename") or "model.plan", *named)))


def library(model: Model, version: Version) -> Iterator[Finding]:
    """R252, R253: each plan is one, and of the TensorRT that the release has."""
    facts = _facts(version)
    for name in plan_files(version):
        path, shown = joined(version.path, name), f"{version.number}/{name}"
        if not inside(model.root, path) or kind_of(path) != FILE:
            continue
        header = read_plan_header(path)
        if not header.builder:
            yield _no_plan(model, shown, header)
            continue
        writer = Writer(
            builder=header.builder,
            version=header.version,
            version_compatible=facts is not None and facts.version_compatible,
        )
        yield from _judge_library(model, shown, writer, facts)


def _no_plan(model: Model, shown: str, header: PlanHeader) -> Finding:
    if not header.start:
        return model.at_file(ERROR, "R252", shown, f"{_REFUSED}: the file is empty", "build it again")
    start = header.start.lstrip().lower()
    guess = next(((what, fix) for magic, what, fix in _GUESSES if start.startswith(magic)), None)
    what, fix = guess or ("no TensorRT plan", "build it again")
    return model.at_file(ERROR, "R252", shown, f"{_REFUSED}: the file is {what}, not a TensorRT plan", fix)


def _judge_library(model: Model, shown: str, writer: Writer, facts: PlanFacts | None) -> Iterator[Finding]:
    found = loads(model.options.release, writer)
    if writer.builder == "tensorrt_rtx":
        declared = facts is not None and facts.builder == writer.builder
        message = f"{_REFUSED}: the file is an engine of TensorRT-RTX, not of TensorRT"
        if declared:
            message += "; its record says so, so it stands in for a plan that is still to be built"
        severity = WARNING if declared else ERROR
        yield model.at_file(severity, "R252", shown, message, "build it with TensorRT on the target GPU")
    elif found.verdict is False:
        message, where = f"{_REFUSED}: {found.reason}", say_loading(writer)
        yield model.at_file(ERROR, "R252", shown, message, f"it loads in {where}; or build it again for this release")
    elif found.verdict is None and not found.confirmed:
        message = f"it is not known whether the server loads it: {found.reason}"
        yield model.at_file(WARNING, "R252", shown, message, f"it loads in {say_loading(writer)}")
    elif found.verdict and writer.version_compatible and "needs" in found.reason:
        yield model.at_file(WARNING, "R253", shown, found.reason, "start the server with that option")


def open_plan(model: Model, version: Version) -> Iterator[Finding]:
    """Without a record: ask the engine, where something on this machine can load it (A1 otherwise)."""
    read, path = model.options.read_interface, version.artifact
    if read is None or path is None or read_plan_header(path).builder != "tensorrt":
        return
    try:
        version.interface = read(path)
    except AituneError as error:
        shown = f"{version.number}/{path.name}"
        message = f"names, types and shapes are not compared with the plan: {error}"
        yield model.at_file(WARNING, "A1", shown, message, error.hint)


def profiles(model: Model, version: Version) -> Iterator[Finding]:
    """R196, R199, R268, R277, R280, R281, R294: what the selected profiles hold is what the config asks for."""
    artifact = _artifact(version)
    if artifact is None:
        return
    held = artifact.plan.profiles if artifact.plan is not None else ()
    held = held or (_contract_profile(artifact),)
    chosen: dict[int, Profile] = {}
    for group in version.config.messages("instance_group") or (None,):
        for index in _selected(group):
            if 0 <= index < len(held):
                chosen[index] = held[index]
            else:
                message = f"configuration specified invalid profile {index}: the plan has {len(held)}, numbered from 0"
                yield model.error("R280", group, "profile", message, 'profile: [ "0" ]')
    yield from _batch(model, version.config, chosen)
    for index, profile in chosen.items():
        yield from _fixed_sizes(model, version, index, profile, {spec.name: spec for spec in artifact.inputs})


def _selected(group: Node | None) -> tuple[int, ...]:
    texts = group.texts("profile") if group is not None else ()
    return tuple(int(text) for text in texts if text.isdecimal()) if texts else (0,)


def _batch(model: Model, config: Node, chosen: dict[int, Profile]) -> Iterator[Finding]:
    size = config.number("max_batch_size")
    if size <= 0 or not chosen:
        return
    limit = max(profile.max_batch_size for profile in chosen.values())
    if size > limit > 0 and not model.options.strict:
        message = f"max_batch_size is {size}, but the TensorRT engine only supports max-batch {limit}"
        yield model.error("R199", config, "max_batch_size", message, f"max_batch_size: {limit}")
    for index, profile in chosen.items():
        if profile.min_batch_size > 1:
            message = (
                f"profile {index} of the plan needs at least {profile.min_batch_size} rows: a request of one row fails "
                "(Triton never pads)"
            )
            yield model.warning("R294", config, "max_batch_size", message, "build the plan with a smallest batch of 1")


def _fixed_sizes(
    model: Model, version: Version, index: int, profile: Profile, specs: dict[str, TunedTensorSpec]
) -> Iterator[Finding]:
    config = version.config
    batching = config.number("max_batch_size") > 0
    ranges = {item.name: item for item in profile.inputs if not item.values}
    for node in config.messages("input"):
        item = ranges.get(node.text("name"))
        reshape = node.message("reshape")
        dims = reshape.numbers("shape") if reshape is not None else node.numbers("dims")
        full = (-1, *dims) if batching else dims
        if item is None or len(full) != len(item.min):
            continue
        for wanted, low, high in zip(full, item.min, item.max, strict=True):
            if wanted != -1 and not low <= wanted <= high:
                message = (
                    f"model configuration specified invalid shape for input {item.name!r}: {wanted} must be between "
                    f"{low} and {high} (profile {index})"
                )
                yield model.error("R268", node, "dims", message, _free_dims(specs.get(item.name), batching))
                break


def _free_dims(spec: TunedTensorSpec | None, batching: bool) -> str:
    if spec is None:
        return ""
    dims = tuple(size if isinstance(size, int) else -1 for size in spec.shape)
    return f"dims: {dims_text(dims[1:] if batching else dims)}"


def _contract_profile(artifact: Artifact) -> Profile:
    """The one profile of a record that names none: the shapes it was tuned for."""
    return Profile(
        inputs=tuple(
            ProfileRange(name=spec.name, min=spec.min_shape, opt=spec.max_shape, max=spec.max_shape)
            for spec in artifact.inputs
        )
    )


def shape_tensors(model: Model, version: Version) -> Iterator[Finding]:
    """R264, R270, R271, R272: values that decide shapes are marked as such, and only they."""
    facts = _facts(version)
    if facts is None or not facts.tensors:
        return
    artifact = _artifact(version)
    specs = {spec.name: spec for spec in (*artifact.inputs, *artifact.outputs)} if artifact is not None else {}
    known = {tensor.name for tensor in facts.tensors}
    for kind, node in model.tensors(version.config):
        name = node.text("name")
        if name not in known:
            continue
        decides, marked = facts.tensor(name).shape_tensor, node.flag("is_shape_tensor")
        if decides and not marked:
            message = f"{kind} {name!r} is a shape tensor but the model configuration doesn't mark it as a shape tensor"
            yield model.error("R264", node, "name", message, "is_shape_tensor: true")
        elif marked and not decides:
            message = f"{kind} {name!r} is incorrectly marked as a shape tensor"
            yield model.error("R264", node, "is_shape_tensor", message, "remove is_shape_tensor")
        elif decides and name in specs:
            yield from _shape_tensor(model, node, kind, specs[name], version.config.number("max_batch_size") > 0)


def _shape_tensor(model: Model, node: Node, kind: str, spec: TunedTensorSpec, batching: bool) -> Iterator[Finding]:
    if kind == "input":
        allowed = ["TYPE_INT32", *(["TYPE_INT64"] if model.has("tensorrt_int64_shape_input") else [])]
        rule = "R270"
    else:
        allowed, rule = ["TYPE_INT64"], "R271"
    engine = {DType.INT32: "TYPE_INT32", DType.INT64: "TYPE_INT64"}.get(spec.dtype, "")
    if node.choice("data_type") not in allowed or (kind == "input" and node.choice("data_type") != engine):
        message = f"unexpected datatype {node.choice('data_type')} for shape {kind} {spec.name!r}, expecting {engine}"
        yield model.error(rule, node, "data_type", message, f"data_type: {engine}")
    dims = node.numbers("dims")
    wanted = tuple(size - (1 if batching else 0) for size in spec.max_shape)
    if dims != wanted:
        message = f"shape tensor {spec.name!r}: its dims {dims_text(dims)} don't match model configuration shape"
        yield model.error("R272", node, "dims", message, f"dims: {dims_text(wanted)}")


def layouts(model: Model, version: Version) -> Iterator[Finding]:
    """R265: vectorised layouts are marked as such, and only they."""
    facts = _facts(version)
    if facts is None or not model.has("tensorrt_non_linear_io"):
        return
    known = {tensor.name for tensor in facts.tensors}
    for kind, node in model.tensors(version.config):
        name = node.text("name")
        if name not in known:
            continue
        linear, marked = facts.tensor(name).linear, node.flag("is_non_linear_format_io")
        if not linear and not marked:
            message = f"{kind} {name!r} uses a non-linear IO format, but is_non_linear_format_io is set to false"
            yield model.error("R265", node, "name", message, "is_non_linear_format_io: true")
        elif linear and marked:
            message = f"{kind} {name!r} uses a linear IO format, but is_non_linear_format_io is set to true"
            yield model.error("R265", node, "is_non_linear_format_io", message, "remove is_non_linear_format_io")


def _artifact(version: Version) -> TensorRTPlanArtifact | None:
    artifact = version.document.artifact if version.document is not None else None
    return artifact if isinstance(artifact, TensorRTPlanArtifact) else None


def _facts(version: Version) -> PlanFacts | None:
    artifact = _artifact(version)
    return artifact.plan if artifact is not None else None
