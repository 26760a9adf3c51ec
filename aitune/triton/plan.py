"""Everything a config decides, decided: from a record and a few choices to a plan that only has to be written down."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aitune.errors import RepositoryError, UsageError
from aitune.records.accelerators import GPU_ACCELERATOR
from aitune.records.artifact import Artifact, ONNXArtifact, TensorRTPlanArtifact
from aitune.triton.contract import PARAMETER_PREFIX, contract_of, contract_text
from aitune.triton.plan_accelerator import (
    AcceleratorPlan,
    accelerator_warnings,
    measured_reason,
    plan_accelerator,
)
from aitune.triton.plan_batching import BatchPlan, plan_batching
from aitune.triton.plan_options import PlanOptions
from aitune.triton.plan_tensorrt import (
    EnginePlan,
    engine_warnings,
    facts_of,
    limit_by_profiles,
    mark_tensors,
    plan_engine,
)
from aitune.triton.plan_tensors import PlannedTensor, check_dtypes, plan_tensor
from aitune.triton.plan_warmup import WarmupPlan, plan_warmup
from aitune.triton.releases import release

__all__ = ["Batcher", "Plan", "PlanOptions", "check_model_name", "model_filename", "plan"]

GRAPH_LEVEL = "optimization.graph.level"
_FORMATS = {ONNXArtifact.format: ("onnxruntime", "model.onnx"), TensorRTPlanArtifact.format: ("tensorrt", "model.plan")}
_RESERVED_FILES = ("aitune.json", "aitune_samples.bin")
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_RESERVED_NAMES = ("aitune_history.jsonl",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batcher:
    """The dynamic batcher of a config.

    Attributes:
        preferred_batch_sizes: Sizes that are sent off without waiting.
        max_queue_delay_us: How long a request may wait for others, in microseconds.
        max_queue_size: Requests that may wait; None for any number.
        note: What a person should know, ``""`` for nothing.
    """

    preferred_batch_sizes: tuple[int, ...]
    max_queue_delay_us: int
    max_queue_size: int | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A config before it is written down.

    Attributes:
        model_name: Name of the model and of its folder.
        version: The one version that is served.
        release: Oldest Triton that must understand it.
        target: ``"auto"``, ``"cpu"`` or ``"gpu"``.
        backend: ``"onnxruntime"`` or ``"tensorrt"``.
        filename: Model file inside the version's folder.
        batching: Largest batch, and why.
        inputs: Inputs, in the file's order.
        outputs: Outputs, in the file's order.
        kind: Kind of the instances, e.g. ``"KIND_AUTO"``.
        instance_count: Number of instances, per GPU or host.
        batcher: The dynamic batcher, None where it cannot pay.
        warmup: Warm-up requests, and why.
        graph_level: ``optimization.graph.level``, None to leave it to the backend.
        settings: (key, value) pairs for ``parameters``, sorted.
        settings_reason: Where they come from.
        contract: JSON of the contract.
        identity: SHA-256 over the model and its companions.
        engine: What only a TensorRT plan needs; None for an ONNX model.
        accelerator: What speeds an ONNX model up on a GPU; None for nothing.
        warnings: What a person should know.
    """

    model_name: str
    version: int
    release: str
    target: str
    backend: str
    filename: str
    batching: BatchPlan
    inputs: tuple[PlannedTensor, ...]
    outputs: tuple[PlannedTensor, ...]
    kind: str
    instance_count: int
    batcher: Batcher | None
    warmup: WarmupPlan
    graph_level: int | None
    settings: tuple[tuple[str, str], ...]
    settings_reason: str
    contract: str
    identity: str
    engine: EnginePlan | None = None
    accelerator: AcceleratorPlan | None = None
    warnings: tuple[str, ...] = ()

    @property
    def max_batch_size(self) -> int:
        """Largest batch; 0 when Triton must not batch."""
        return self.batching.max_batch_size


def plan(artifact: Artifact, *, model_name: str, version: int = 1, options: PlanOptions | None = None) -> Plan:
    """The config that serves an artifact.

    Args:
        artifact: The record; its files are not looked at.
        model_name: Name on the server.
        version: Version to serve.
        options: Choices of a person; the defaults when None.

    Raises:
        RepositoryError: If the name is one that Triton or a URL would trip over.
        RecordError: If no config can say what the record says.
        BatchingError: If a batch is demanded and not there.
        UsageError: If the choices contradict the record.
    """
    check_model_name(model_name)
    options = options or PlanOptions()
    backend, _ = _format(artifact)
    asked_for = release(options.triton)
    facts = facts_of(artifact)
    batching = _batching(artifact, options)
    batched = batching.max_batch_size > 0
    check_dtypes(artifact.inputs + artifact.outputs, backend=backend, release=asked_for)
    inputs, outputs = (
        mark_tensors([plan_tensor(spec, batched=batched) for spec in specs], specs, facts, release=asked_for)
        for specs in (artifact.inputs, artifact.outputs)
    )
    settings, graph_level = _settings(artifact, options)
    return Plan(
        model_name=model_name,
        version=version,
        release=asked_for.name,
        target=options.target,
        backend=backend,
        filename=model_filename(artifact),
        batching=batching,
        inputs=inputs,
        outputs=outputs,
        kind=_kind(backend, options.target),
        instance_count=options.instance_count,
        batcher=_batcher(batching.max_batch_size, inputs, options),
        warmup=_warmup(artifact, inputs, batching.max_batch_size, options),
        graph_level=graph_level,
        settings=settings,
        settings_reason=_settings_reason(artifact, options),
        contract=contract_text(artifact),
        identity=artifact.identity,
        engine=_engine(artifact, options, batching.max_batch_size),
        accelerator=plan_accelerator(
            artifact,
            options.accelerator,
            max_batch_size=batching.max_batch_size,
            model_name=model_name,
            target=options.target,
            release=asked_for,
        ),
        warnings=(
            *((batching.warning,) if batching.warning else ()),
            *(engine_warnings(facts, asked_for) if isinstance(artifact, TensorRTPlanArtifact) else ()),
            *accelerator_warnings(artifact, options.accelerator, options.target),
            *_lost_probe(artifact),
            *_random_answers(artifact),
        ),
    )


def _batching(artifact: Artifact, options: PlanOptions) -> BatchPlan:
    """What record, profiles and wish allow."""
    found = limit_by_profiles(plan_batching(artifact, options.max_batch_size), facts_of(artifact), options.profiles)
    asked = options.max_batch_size
    if asked and found.max_batch_size < asked:
        raise UsageError(
            f"a batch of {asked} was asked for: {found.reason}", hint="ask for less, or for other profiles of the plan"
        )
    return found


def _warmup(
    artifact: Artifact, inputs: tuple[PlannedTensor, ...], max_batch_size: int, options: PlanOptions
) -> WarmupPlan:
    """Zeros where they were seen to work; never for values that decide shapes."""
    deciding = next((tensor.name for tensor in inputs if tensor.shape_tensor), None)
    if deciding is not None:
        return WarmupPlan(samples=(), reason=f"No warm-up: input {deciding!r} decides shapes, and zeros are none.")
    return plan_warmup(artifact, max_batch_size=max_batch_size, wanted=options.warmup)


def _engine(artifact: Artifact, options: PlanOptions, max_batch_size: int) -> EnginePlan | None:
    if isinstance(artifact, TensorRTPlanArtifact):
        return plan_engine(
            artifact, max_batch_size=max_batch_size, profiles=options.profiles, cuda_graphs=options.cuda_graphs
        )
    if options.profiles or options.cuda_graphs:
        raise UsageError("profiles and CUDA graphs are for TensorRT plans, and this is an ONNX model")
    return None


def check_model_name(name: str) -> None:
    """Refuse a name that Triton, a URL or a shell would trip over (R29, R30, R13).

    Raises:
        RepositoryError: If it is not made of letters, digits, ``_``, ``.`` and ``-``, starts with a dot, or is taken.
    """
    if not _NAME.fullmatch(name) or len(name) > 200:
        raise RepositoryError(
            f"a model cannot be called {name!r}",
            hint="use letters, digits, '_', '-' and '.', not starting with '.', at most 200 of them",
        )
    if name in _RESERVED_NAMES:
        raise RepositoryError(f"a model cannot be called {name!r}: aitune keeps a file of that name")


def model_filename(artifact: Artifact) -> str:
    """Name of the model file inside a version's folder.

    Raises:
        UsageError: If Triton has no backend for this kind of artifact.
        RecordError: If a companion has a name that aitune needs.
    """
    standard = _format(artifact)[1]
    taken = {item.name for item in artifact.companions}
    for name in _RESERVED_FILES:
        if name in taken:
            raise UsageError(
                f"companion {name!r} has the name of a file that aitune writes", hint="rename it in the model"
            )
    return artifact.path.name if standard in taken else standard


def _format(artifact: Artifact) -> tuple[str, str]:
    found = _FORMATS.get(artifact.format)
    if found is None:
        raise UsageError(
            f"Triton has no backend for an artifact of format {artifact.format!r}",
            hint="make an ONNXArtifact or a TensorRTPlanArtifact of it",
        )
    return found


def _kind(backend: str, target: str) -> str:
    if backend == "tensorrt" and target == "cpu":
        raise UsageError("a TensorRT plan needs a GPU, the target is cpu", hint="publish the ONNX model instead")
    if target == "auto":
        # R250: TensorRT takes nothing else. Others: R181 turns AUTO into what the host has.
        return "KIND_GPU" if backend == "tensorrt" else "KIND_AUTO"
    return f"KIND_{target.upper()}"


def _batcher(max_batch_size: int, inputs: tuple[PlannedTensor, ...], options: PlanOptions) -> Batcher | None:
    """The dynamic batcher, where it can form batches: with batches of one it only costs time (R60)."""
    if max_batch_size <= 1:
        return None
    for size in options.preferred_batch_sizes:
        if size > max_batch_size:  # R59
            raise UsageError(f"a preferred batch of {size} is larger than the largest batch, {max_batch_size}")
    free = dict.fromkeys(axis for tensor in inputs for axis in tensor.free_axes)
    note = ""
    if free:
        names = ", ".join(repr(axis) for axis in free)
        note = f"Only requests of equal shape are put into one batch: those that differ in {names} run apart."
    return Batcher(
        preferred_batch_sizes=options.preferred_batch_sizes or (max_batch_size,),
        max_queue_delay_us=options.max_queue_delay_us,
        max_queue_size=options.max_queue_size,
        note=note,
    )


def _settings(artifact: Artifact, options: PlanOptions) -> tuple[tuple[tuple[str, str], ...], int | None]:
    """Tuned and chosen settings, and the one among them that is a field of its own (R243).

    The accelerator is a field of its own as well, see :func:`plan_accelerator`.
    """
    merged = {**_tuned(artifact), **dict(options.settings)}
    level = merged.pop(GRAPH_LEVEL, None)
    for key, value in merged.items():
        if key.startswith(PARAMETER_PREFIX) or not key or not value:  # an empty value is refused (rules §10)
            raise UsageError(f"setting {key!r} cannot be {value!r}", hint="give KEY=VALUE; aitune.record.N is taken")
    if level is not None and level not in ("-1", "0", "1", "2"):
        raise UsageError(f"setting {GRAPH_LEVEL!r} must be -1, 0, 1 or 2, got {level!r}")
    return tuple(sorted(merged.items())), None if level is None else int(level)


def _tuned(artifact: Artifact) -> dict[str, str]:
    """The settings that won, but for the accelerator."""
    settings = () if artifact.tuning is None else artifact.tuning.settings
    return {key: value for key, value in settings if key != GPU_ACCELERATOR}


def _settings_reason(artifact: Artifact, options: PlanOptions) -> str:
    parts = []
    if artifact.tuning is not None and _tuned(artifact):
        parts.append(measured_reason(artifact.tuning))
    if options.settings:
        parts.append(f"By request: {', '.join(key for key, _ in options.settings)}.")
    return " ".join(parts)


def _random_answers(artifact: Artifact) -> tuple[str, ...]:
    batching = artifact.evidence.batching if artifact.evidence is not None else None
    for trial in batching.evidence if batching is not None else ():
        if trial.check in ("repeat", "signed repeat") and not trial.passed:
            return (
                f"two equal requests get different answers in output {trial.tensor!r}: the model is served without "
                "batching, and nobody can tell from its answers which weights answer",
            )
    return ()


def _lost_probe(artifact: Artifact) -> tuple[str, ...]:
    has_probe = artifact.evidence is not None and artifact.evidence.probe is not None
    if has_probe and contract_of(artifact).probe is None:
        return ("the golden probe does not fit into the config: a server alone cannot prove what it serves",)
    return ()
