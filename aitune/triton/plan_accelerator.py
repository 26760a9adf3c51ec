"""ONNX Runtime's TensorRT provider as an alternative to a plan: its settings from the same contract (rules §5.5).

The server then builds engines itself when the model is loaded, for whatever GPU it has, and keeps them where it is told
to. On a host without a GPU the settings do nothing (R244).

A person asks for it, or it won when candidates were measured on a GPU, and stands among the settings of the record
(:mod:`aitune.records.accelerators`). What a person says goes before what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from aitune.errors import UsageError
from aitune.records.accelerators import ACCELERATORS, GPU_ACCELERATOR, PRECISIONS, SHAPE_SEPARATORS, GpuAccelerator
from aitune.records.artifact import Artifact, ONNXArtifact
from aitune.records.evidence import Tuning
from aitune.records.shapes import TunedTensorSpec
from aitune.triton.releases import Release

__all__ = [
    "ACCELERATORS",
    "PRECISIONS",
    "AcceleratorOptions",
    "AcceleratorPlan",
    "accelerator_warnings",
    "measured_accelerator",
    "measured_reason",
    "plan_accelerator",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorPlan:
    """One GPU execution accelerator of a config.

    Attributes:
        name: ``"tensorrt"``.
        parameters: (key, value) pairs, sorted.
        notes: What a person should know, one sentence each.
    """

    name: str
    parameters: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorOptions:
    """Choices about an accelerator.

    Attributes:
        name: ``"tensorrt"``.
        precision: One of `PRECISIONS`; None for the one that was measured, and ``"fp32"`` where none was.
        cache: Folder on the server for engines and timings, absolute; ``""`` builds them anew at every start.
        workspace_bytes: Most memory that one layer may use; the provider's own limit when None.
    """

    name: str
    precision: str | None = None
    cache: str = ""
    workspace_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.name not in ACCELERATORS:
            raise UsageError(f"accelerator must be one of {', '.join(ACCELERATORS)}, got {self.name!r}")
        if self.precision is not None and self.precision not in PRECISIONS:
            raise UsageError(
                f"precision of an accelerator must be one of {', '.join(PRECISIONS)}, got {self.precision!r}"
            )
        if self.cache and not self.cache.startswith("/"):
            raise UsageError(
                f"the engine cache must be an absolute path on the server, got {self.cache!r}",
                hint="it must lie outside the model repository: a file that changes there reloads the model",
            )
        if self.workspace_bytes is not None and self.workspace_bytes < 1:
            raise UsageError(f"workspace_bytes must be at least 1, got {self.workspace_bytes}")


def measured_accelerator(artifact: Artifact) -> GpuAccelerator | None:
    """The accelerator among the settings that won, None where there is none.

    Raises:
        RecordError: If the record names one that does not exist.
    """
    tuning = artifact.tuning
    text = None if tuning is None else dict(tuning.settings).get(GPU_ACCELERATOR)
    return None if text is None else GpuAccelerator.read(text)


def plan_accelerator(
    artifact: Artifact,
    options: AcceleratorOptions | None,
    *,
    max_batch_size: int,
    model_name: str,
    target: str,
    release: Release,
) -> AcceleratorPlan | None:
    """The accelerator that serves a contract.

    Args:
        artifact: The ONNX model and its record.
        options: Choices of a person; None for what was measured.
        max_batch_size: Of the config; the batch of its shapes.
        model_name: Name of the model, for the folder of its engines.
        target: ``"auto"``, ``"cpu"`` or ``"gpu"``.
        release: The server.

    Returns:
        None where nobody asked for one and none won, or the one that won is of no use on the target.

    Raises:
        UsageError: If one is asked for and the artifact is no ONNX model, the target is a CPU, or a name or precision
            cannot be said.
    """
    measured = measured_accelerator(artifact)
    if options is None:
        if measured is None or target == "cpu" or not isinstance(artifact, ONNXArtifact):
            return None
        options = AcceleratorOptions(name=measured.name)
    if not isinstance(artifact, ONNXArtifact):
        raise UsageError("an accelerator is for ONNX models: a TensorRT plan is accelerated as it is")
    if target == "cpu":
        raise UsageError("the TensorRT accelerator needs a GPU, the target is cpu", hint="use --target gpu or auto")
    wanted = _wanted(options, measured)
    if wanted.precision == "bf16" and not release.has("onnx_tensorrt_bf16"):
        raise UsageError(f"Triton takes precision bf16 from 26.02 on, not in {release.name}", hint="use fp16 or fp32")
    found = {"precision_mode": wanted.precision.upper()}
    if options.workspace_bytes is not None:
        found["max_workspace_size_bytes"] = str(options.workspace_bytes)
    found.update(_profile(artifact, max_batch_size))
    found.update(_cache(artifact, options.cache, model_name))
    notes = _notes(wanted, options, artifact.tuning if wanted == measured else None)
    return AcceleratorPlan(name=wanted.name, parameters=tuple(sorted(found.items())), notes=notes)


def accelerator_warnings(artifact: Artifact, options: AcceleratorOptions | None, target: str) -> tuple[str, ...]:
    """Where a config serves something else than what was measured on a GPU, one line each.

    Args:
        artifact: The model and its record.
        options: Choices of a person about an accelerator.
        target: ``"auto"``, ``"cpu"`` or ``"gpu"``.
    """
    evidence = artifact.evidence
    if not isinstance(artifact, ONNXArtifact) or evidence is None:
        return ()
    measured = measured_accelerator(artifact)
    if options is not None and measured is not None and _wanted(options, measured) != measured:
        asked = _wanted(options, measured)
        return (f"{str(measured)!r} was measured, {str(asked)!r} is served by request, and was not",)
    if target == "gpu" or (measured is None and dict(evidence.provenance).get("measured_on") != "gpu"):
        return ()
    what = "candidates were measured on a GPU" if measured is None else f"{str(measured)!r} was measured on a GPU"
    if target == "cpu":
        return (f"{what}, and the target is cpu: it is served without, as nobody measured it",)
    return (f"{what}: on a host without one the model is served as nobody measured it; --target gpu pins it",)


def _wanted(options: AcceleratorOptions, measured: GpuAccelerator | None) -> GpuAccelerator:
    """What a person asks for, completed by what was measured of the same accelerator."""
    known = measured.precision if measured is not None and measured.name == options.name else "fp32"
    return GpuAccelerator(name=options.name, precision=options.precision or known)


def _profile(artifact: ONNXArtifact, max_batch_size: int) -> dict[str, str]:
    """One engine for all tuned shapes: smallest, typical and largest full shape of every input that varies."""
    free = [spec for spec in artifact.inputs if spec.min_shape != spec.max_shape]
    if not free:
        return {}
    typical = {
        item.name: item.typical_shape for item in (artifact.evidence.inputs if artifact.evidence is not None else ())
    }
    lines: dict[str, list[str]] = {"min": [], "opt": [], "max": []}
    for spec in free:
        if SHAPE_SEPARATORS & set(spec.name):
            raise UsageError(
                f"input {spec.name!r} has ':' or ',' in its name, which separate the provider's shapes",
                hint="rename it with aitune.onnx.rename_values",
            )
        best = _with_batch(typical.get(spec.name, spec.max_shape), spec, max_batch_size)
        lines["min"].append(_word(spec.name, spec.min_shape))
        lines["opt"].append(_word(spec.name, best))
        lines["max"].append(_word(spec.name, _with_batch(spec.max_shape, spec, max_batch_size)))
    return {f"trt_profile_{word}_shapes": ",".join(shapes) for word, shapes in lines.items()}


def _with_batch(shape: tuple[int, ...], spec: TunedTensorSpec, max_batch_size: int) -> tuple[int, ...]:
    return (max_batch_size, *shape[1:]) if max_batch_size and spec.batch_axis == 0 else shape


def _word(name: str, shape: tuple[int, ...]) -> str:
    return f"{name}:{'x'.join(map(str, shape))}"


def _cache(artifact: ONNXArtifact, folder: str, model_name: str) -> dict[str, str]:
    if not folder:
        return {}
    path = f"{folder.rstrip('/')}/{model_name}-{artifact.identity[:12]}"  # other weights never find old engines
    return {
        "trt_engine_cache_enable": "true",
        "trt_engine_cache_path": path,
        "trt_timing_cache_enable": "true",
        "trt_timing_cache_path": path,
    }


def _notes(wanted: GpuAccelerator, options: AcceleratorOptions, tuning: Tuning | None) -> tuple[str, ...]:
    """What a person should know; ``tuning`` is given where just this was measured."""
    notes = [] if tuning is None else [measured_reason(tuning)]
    notes.append("On a GPU the server builds TensorRT engines of this model when it loads it, for the shapes below.")
    if wanted.precision != "fp32" and tuning is None:
        notes.append(f"Layers may compute in {wanted.precision}: nobody proved these answers, validate them.")
    if wanted.precision != "fp32" and tuning is not None:
        notes.append(f"Layers may compute in {wanted.precision}: the answers were compared, and differ as recorded.")
    if not options.cache:
        notes.append("Engines are not kept: every start builds them again, which takes minutes for a large model.")
    return tuple(notes)


def measured_reason(tuning: Tuning) -> str:
    """What was measured, as a sentence for a comment."""
    return f"Measured for {tuning.objective}: {tuning.reason.strip().rstrip('.')}."
