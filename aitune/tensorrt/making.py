"""From an ONNX artifact to the artifact of a plan."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from aitune.errors import SourceError, UsageError
from aitune.records.artifact import ONNXArtifact, TensorRTPlanArtifact
from aitune.records.fingerprints import write_atomically
from aitune.records.plans import PlanFacts, PlanTensor, Profile
from aitune.tensorrt.building import make_config, resolve_capability, serialize, wants_strong_types
from aitune.tensorrt.cuda import device_problem
from aitune.tensorrt.engine import engine_facts, inspect_engine, open_engine
from aitune.tensorrt.files import make_workspace
from aitune.tensorrt.header import read_header
from aitune.tensorrt.library import load_tensorrt, package_of
from aitune.tensorrt.messages import logger_of
from aitune.tensorrt.network import check_contract, interface_of, layer_counts, parse_onnx, plan_tensors, set_formats
from aitune.tensorrt.options import BuildOptions
from aitune.tensorrt.profiles import profiles_of
from aitune.tensorrt.proof import carry_over, domains_of, prove_plan
from aitune.tuning.progress import SILENT, Progress

__all__ = ["PLAN_FILE", "build"]

PLAN_FILE = "model.plan"
_INSPECTION_LIMIT = 256 * 1024
"""So many characters of the engine's description go into a record at most."""


def build(
    artifact: ONNXArtifact,
    *,
    options: BuildOptions | None = None,
    trt: ModuleType | None = None,
    workspace: Path | None = None,
    progress: Progress = SILENT,
) -> TensorRTPlanArtifact:
    """Build the plan of an ONNX artifact.

    Names, types and ranks are those of the network as the library parsed it, and must be the record's. Profiles come
    from the contract. Where a GPU is, the plan is loaded, held against the ONNX model's answer, and batching is proved
    again on it; elsewhere the record says that it was not run.

    Args:
        artifact: The ONNX model with its contract.
        options: Choices of a person; the defaults when None.
        trt: The library's module: ``tensorrt`` when None; ``tensorrt_rtx`` builds without a GPU, for TensorRT-RTX.
        workspace: Folder for the artifact's files; None for a new one in the cache.
        progress: Told of every step.

    Returns:
        The artifact; its plan lies in the workspace.

    Raises:
        ArtifactIntegrityError: If the model is not the recorded one.
        SourceError: If the library cannot build the model; every node that stops it is named.
        UsageError: If the library cannot do what an option asks for.
        UnavailableError: If there is no GPU and the library needs one.
        MissingDependencyError: If ``tensorrt`` is not installed.
    """
    options = options or BuildOptions()
    trt = trt if trt is not None else load_tensorrt()
    capability = resolve_capability(trt, options)
    artifact.verify()
    progress.start(
        f"building a plan with {package_of(trt)} {trt.__version__} for compute capability {capability}", None
    )
    began = time.monotonic()
    builder = trt.Builder(logger_of(trt))
    network = parse_onnx(trt, builder, artifact.path, strongly_typed=wants_strong_types(options))
    interface = interface_of(trt, network)
    check_contract(trt, interface, artifact.inputs, artifact.outputs)
    set_formats(trt, network, options.formats)
    tensors = plan_tensors(network, options.formats)
    profiles = _profiles(artifact, options, tensors)
    config = make_config(trt, builder, options, capability)
    plan = make_workspace(workspace) / PLAN_FILE
    write_atomically(plan, serialize(trt, builder, network, config, profiles, options.timing_cache))
    progress.done()
    facts = _facts(trt, plan, capability, options, profiles, tensors)
    provenance = _provenance(artifact, facts, options, network, time.monotonic() - began)
    problem = device_problem()
    if problem:
        return carry_over(artifact, plan, facts, options, [*provenance, ("engine", "not inspected: no GPU")], problem)
    engine = open_engine(trt, plan.read_bytes(), plan.name)
    _check_engine(facts, engine_facts(trt, engine, read_header(plan), capability))
    provenance.append(("engine", _inspection(inspect_engine(trt, engine))))
    return prove_plan(trt, artifact, plan, interface, facts, options, provenance, progress)


def _profiles(artifact: ONNXArtifact, options: BuildOptions, tensors: Sequence[PlanTensor]) -> tuple[Profile, ...]:
    """Profiles that were given, or those of the contract."""
    if not options.profiles:
        shape_tensors = {item.name for item in tensors if item.shape_tensor}
        return profiles_of(artifact.inputs, domains_of(artifact), splits=options.splits, shape_tensors=shape_tensors)
    names = set(artifact.input_names)
    for index, profile in enumerate(options.profiles):
        given = {item.name for item in profile.inputs}
        if given != names:
            odd = ", ".join(sorted(given ^ names))
            raise UsageError(f"profile {index} needs a range for every input and for nothing else; look at {odd}")
    return options.profiles


def _facts(
    trt: ModuleType,
    plan: Path,
    capability: str,
    options: BuildOptions,
    profiles: tuple[Profile, ...],
    tensors: tuple[PlanTensor, ...],
) -> PlanFacts:
    header = read_header(plan)
    return PlanFacts(
        builder=header.builder,
        version=header.version or str(trt.__version__),
        compute_capability=capability,
        hardware_compatibility=options.hardware_compatibility,
        version_compatible=options.version_compatible,
        profiles=profiles,
        tensors=tensors,
    )


def _check_engine(expected: PlanFacts, found: PlanFacts) -> None:
    """The engine decides: what it says of itself must be what goes into the record.

    Raises:
        SourceError: If it does not.
    """
    for index, (asked, got) in enumerate(zip(expected.profiles, found.profiles, strict=True)):
        ranges = {item.name: item for item in asked.inputs}
        for item in got.inputs:
            if item != ranges.get(item.name):
                raise SourceError(f"profile {index} of the engine is {item}, {ranges.get(item.name)} was asked for")
    for tensor in found.tensors:
        if tensor != expected.tensor(tensor.name):
            raise SourceError(f"the engine made {tensor} of {expected.tensor(tensor.name)}")


def _provenance(
    artifact: ONNXArtifact, facts: PlanFacts, options: BuildOptions, network: Any, seconds: float
) -> list[tuple[str, str]]:
    return [
        ("source", "onnx"),
        ("source_identity", artifact.identity),
        (facts.builder, facts.version),
        ("compute_capability", facts.compute_capability),
        ("precision", options.precision),
        ("build_seconds", f"{seconds:.1f}"),
        ("layers", json.dumps(layer_counts(network), separators=(",", ":"))),
    ]


def _inspection(text: str) -> str:
    """The engine's description as compact JSON, or its layers' names where that is too long."""
    data = json.loads(text)
    compact = json.dumps(data, separators=(",", ":"))
    if len(compact) <= _INSPECTION_LIMIT:
        return compact
    layers = [layer.get("Name", "") if isinstance(layer, dict) else str(layer) for layer in data.get("Layers", [])]
    return json.dumps({"Layers": layers}, separators=(",", ":"))[:_INSPECTION_LIMIT]
