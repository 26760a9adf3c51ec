"""ONNX Runtime's TensorRT provider as an alternative to a plan: its settings from the same contract (rules §5.5).

The server then builds engines itself when the model is loaded, for whatever GPU it has, and keeps them where it is told
to. On a host without a GPU the settings do nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from aitune.errors import UsageError
from aitune.records.artifact import Artifact, ONNXArtifact
from aitune.records.shapes import TunedTensorSpec
from aitune.triton.releases import Release

__all__ = ["ACCELERATORS", "PRECISIONS", "AcceleratorOptions", "AcceleratorPlan", "plan_accelerator"]

ACCELERATORS = ("tensorrt",)
PRECISIONS = ("fp32", "fp16", "bf16")


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
        precision: One of `PRECISIONS`.
        cache: Folder on the server for engines and timings, absolute; ``""`` builds them anew at every start.
        workspace_bytes: Most memory that one layer may use; the provider's own limit when None.
    """

    name: str
    precision: str = "fp32"
    cache: str = ""
    workspace_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.name not in ACCELERATORS:
            raise UsageError(f"accelerator must be one of {', '.join(ACCELERATORS)}, got {self.name!r}")
        if self.precision not in PRECISIONS:
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


def plan_accelerator(
    artifact: Artifact,
    options: AcceleratorOptions,
    *,
    max_batch_size: int,
    model_name: str,
    target: str,
    release: Release,
) -> AcceleratorPlan:
    """The accelerator that serves a contract.

    Args:
        artifact: The ONNX model and its record.
        options: Choices of a person.
        max_batch_size: Of the config; the batch of its shapes.
        model_name: Name of the model, for the folder of its engines.
        target: ``"auto"``, ``"cpu"`` or ``"gpu"``.
        release: The server.

    Raises:
        UsageError: If the artifact is no ONNX model, the target is a CPU, or a name or precision cannot be said.
    """
    if not isinstance(artifact, ONNXArtifact):
        raise UsageError("an accelerator is for ONNX models: a TensorRT plan is accelerated as it is")
    if target == "cpu":
        raise UsageError("the TensorRT accelerator needs a GPU, the target is cpu", hint="use --target gpu or auto")
    if options.precision == "bf16" and not release.has("onnx_tensorrt_bf16"):
        raise UsageError(f"Triton takes precision bf16 from 26.02 on, not in {release.name}", hint="use fp16 or fp32")
    found = {"precision_mode": options.precision.upper()}
    if options.workspace_bytes is not None:
        found["max_workspace_size_bytes"] = str(options.workspace_bytes)
    found.update(_profile(artifact, max_batch_size))
    found.update(_cache(artifact, options.cache, model_name))
    return AcceleratorPlan(name=options.name, parameters=tuple(sorted(found.items())), notes=_notes(options))


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
        if set(spec.name) & set(":,"):
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


def _notes(options: AcceleratorOptions) -> tuple[str, ...]:
    notes = ["On a GPU the server builds TensorRT engines of this model when it loads it, for the shapes below."]
    if options.precision != "fp32":
        notes.append(f"Layers may compute in {options.precision}: nobody proved these answers, validate them.")
    if not options.cache:
        notes.append("Engines are not kept: every start builds them again, which takes minutes for a large model.")
    return tuple(notes)
