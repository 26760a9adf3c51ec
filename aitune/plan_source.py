"""The part of the flow that turns an ONNX artifact into a TensorRT plan, or several plans into one artifact.

It belongs to the pipeline: it sees the two frontends and nothing of Triton.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aitune.errors import AituneError, MissingDependencyError, UnavailableError, UsageError
from aitune.records.artifact import Artifact, ONNXArtifact, TensorRTPlanArtifact

if TYPE_CHECKING:
    from aitune.tensorrt import BuildOptions
    from aitune.tuning.candidate import Candidate
    from aitune.tuning.progress import Progress

__all__ = ["DEVICES", "FORMATS", "OPTION_KEYS", "PlanRequest", "Race", "parse_build_options", "with_plan"]

FORMATS = ("auto", "onnx", "plan")
DEVICES = ("auto", "cpu", "gpu")
_TRUE = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
OPTION_KEYS: Mapping[str, str] = {
    "precision": "model, tf32, fp16 or bf16",
    "compute_capability": "GPU to build for where the library can, e.g. 8.9",
    "workspace_mib": "most memory that one layer may use, in MiB",
    "timing_cache": "file with timings of earlier builds",
    "optimization_level": "0 (builds fast) to 5 (runs fast)",
    "version_compatible": "true: later TensorRTs may load it",
    "hardware_compatibility": "none, ampere_plus or same_compute_capability",
    "split.SYMBOL": "upper bounds of further profiles, e.g. split.sequence=32,128",
    "layout.TENSOR": "memory layout of an input or output, e.g. layout.x=CHW32",
}
"""What ``--plan-option KEY=VALUE`` understands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What the user wants of TensorRT.

    Attributes:
        format: ``"onnx"``, ``"plan"``, or ``"auto"``: a plan where it can be measured and is faster.
        device: ``"cpu"`` never tries a plan, ``"gpu"`` demands a GPU, ``"auto"`` takes what is there.
        builder: ``"tensorrt"``, or ``"tensorrt_rtx"``, whose plans Triton does not load.
        options: ``--plan-option`` pairs, see `OPTION_KEYS`.
        plans: Further plans: (compute capability, file).
    """

    format: str = "auto"
    device: str = "auto"
    builder: str = "tensorrt"
    options: Mapping[str, str] = field(default_factory=dict)
    plans: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.format not in FORMATS or self.device not in DEVICES:
            raise UsageError(f"format {self.format!r} on device {self.device!r} is not something that can be made")
        if self.format == "plan" and self.device == "cpu":
            raise UsageError(
                "a TensorRT plan is not for the device cpu", hint="leave --device out, or give --artifact onnx"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """How a plan is measured against the model it was built from.

    Attributes:
        tune: Whether to measure at all.
        seconds: Budget, in seconds.
        objective: ``"throughput"`` or ``"latency"``.
        p95_ms: Time within which 95 % of the runs must end, in milliseconds; None for no limit.
    """

    tune: bool = True
    seconds: float = 60.0
    objective: str = "throughput"
    p95_ms: float | None = None


def with_plan(
    artifact: Artifact, request: PlanRequest, *, race: Race, workspace: Path, progress: Progress | None = None
) -> Artifact:
    """The artifact that is to be served: the one given, or a plan of it.

    Args:
        artifact: What a frontend made.
        request: What the user wants.
        race: How to decide where that is left open.
        workspace: Folder for new files.
        progress: Told of every step.

    Raises:
        UnavailableError: If a GPU is demanded and not there, or TensorRT is not.
        UsageError: If the wish makes no sense for this artifact.
        SourceError: If TensorRT cannot build the model and a plan is demanded.
    """
    if isinstance(artifact, ONNXArtifact):
        artifact = _of_model(artifact, request, race, workspace, progress)
    elif request.format == "onnx":
        raise UsageError("a TensorRT plan cannot become an ONNX model", hint="build from the ONNX model instead")
    if not request.plans:
        return artifact
    if not isinstance(artifact, TensorRTPlanArtifact):
        raise UsageError("--plan adds plans to a plan, and this is an ONNX model", hint="give --artifact plan as well")
    return _bundled(artifact, request, workspace)


def _bundled(artifact: TensorRTPlanArtifact, request: PlanRequest, workspace: Path) -> Artifact:
    from aitune.tensorrt.bundling import bundle, parse_capability

    plans: dict[str, Path] = {}
    for text, path in request.plans:
        capability = parse_capability(text)
        if capability in plans:
            raise UsageError(f"--plan is given twice for compute capability {capability}")
        plans[capability] = Path(path)
    return bundle(artifact, plans, workspace=workspace / "plans")


def _of_model(
    artifact: ONNXArtifact, request: PlanRequest, race: Race, workspace: Path, progress: Progress | None
) -> Artifact:
    if request.format == "onnx" or request.device == "cpu":
        return artifact
    if request.format == "plan":
        return _build(artifact, request, workspace, progress)
    from aitune.tensorrt.cuda import device_problem

    problem = device_problem()
    if problem:
        if request.device == "gpu":
            raise UnavailableError(f"no GPU can be used here: {problem}", hint="run it on a machine with an NVIDIA GPU")
        return artifact
    return _raced(artifact, request, race, workspace, progress) if race.tune else artifact


def _build(
    artifact: ONNXArtifact, request: PlanRequest, workspace: Path, progress: Progress | None
) -> TensorRTPlanArtifact:
    from aitune.tensorrt import build, load_tensorrt
    from aitune.tuning.progress import SILENT

    return build(
        artifact,
        options=parse_build_options(request.options),
        trt=load_tensorrt(request.builder),
        workspace=workspace / "plan",
        progress=progress or SILENT,
    )


def _raced(
    artifact: ONNXArtifact, request: PlanRequest, race: Race, workspace: Path, progress: Progress | None
) -> Artifact:
    """The faster one of the model and its plan; the model where there is no plan, with a note why."""
    from aitune.onnx.candidates import OnnxCandidate
    from aitune.onnx.providers import has_cuda
    from aitune.tensorrt import PlanCandidate, contest, load_tensorrt
    from aitune.tuning.progress import SILENT

    try:
        plan = _build(artifact, request, workspace, progress)
    except MissingDependencyError:
        if request.device == "gpu":
            raise
        return artifact
    except AituneError as error:
        return _noted(artifact, f"no TensorRT plan was measured: {error}")
    settings = {} if artifact.tuning is None else dict(artifact.tuning.settings)
    candidates: list[Candidate] = [
        OnnxCandidate(
            name="onnxruntime",
            path=artifact.path,
            settings=settings,
            precision=artifact.precision,
            device="cuda" if has_cuda() else "cpu",
        ),
        PlanCandidate(plan.path, load_tensorrt(request.builder)),
    ]
    return contest(
        artifact,
        plan,
        candidates,
        objective=race.objective,
        seconds=race.seconds,
        p95_ms=race.p95_ms,
        progress=progress or SILENT,
    )


def _noted(artifact: ONNXArtifact, note: str) -> ONNXArtifact:
    if artifact.evidence is None:
        return artifact
    evidence = dataclasses.replace(artifact.evidence, notes=(*artifact.evidence.notes, note))
    return dataclasses.replace(artifact, evidence=evidence)


def parse_build_options(pairs: Mapping[str, str]) -> BuildOptions:
    """Options of a build from texts.

    Raises:
        UsageError: If a key is unknown or a value makes no sense.

    >>> parse_build_options({"precision": "fp16", "split.sequence": "32,128"}).splits
    {'sequence': (32, 128)}
    """
    from aitune.tensorrt.bundling import parse_capability
    from aitune.tensorrt.options import BuildOptions

    given: dict[str, Any] = {"splits": {}, "formats": {}}
    for key, text in pairs.items():
        group, _, name = key.partition(".")
        if group == "split" and name:
            given["splits"][name] = tuple(_number(key, part) for part in text.split(","))
        elif group == "layout" and name:
            given["formats"][name] = text
        elif key == "workspace_mib":
            given["workspace_bytes"] = _number(key, text) << 20
        elif key == "timing_cache":
            given["timing_cache"] = Path(text)
        elif key == "optimization_level":
            given["optimization_level"] = _number(key, text)
        elif key == "version_compatible":
            given["version_compatible"] = _truth(key, text)
        elif key == "compute_capability":
            given["compute_capability"] = parse_capability(text)
        elif key in ("precision", "hardware_compatibility"):
            given[key] = text
        else:
            known = ", ".join(OPTION_KEYS)
            raise UsageError(f"plan option {key!r} is not known", hint=f"known are {known}")
    return BuildOptions(**given)


def _number(key: str, text: str) -> int:
    if not (text.strip().isdecimal() and text.strip().isascii()):
        raise UsageError(f"plan option {key!r} must be a whole number, got {text!r}")
    return int(text)


def _truth(key: str, text: str) -> bool:
    if text.lower() not in _TRUE:
        raise UsageError(f"plan option {key!r} must be true or false, got {text!r}")
    return _TRUE[text.lower()]
