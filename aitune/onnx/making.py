"""From an ONNX file to an artifact: the ONNX SOURCE of a build."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime

from aitune.errors import SourceError
from aitune.numerics.domains import observe_domains
from aitune.onnx.candidates import discard_losers
from aitune.onnx.measuring import Measured
from aitune.onnx.reading import read_interface
from aitune.onnx.samples import fit_samples, read_npz
from aitune.onnx.workspace import copy_model, workspace_folder
from aitune.records.artifact import ONNXArtifact
from aitune.records.interface import Interface, Port
from aitune.records.shapes import TensorSpec
from aitune.tuning.accuracy import Check
from aitune.tuning.finish import finish
from aitune.tuning.ports import tensor_specs
from aitune.tuning.progress import SILENT, Progress
from aitune.tuning.shapes import resolve_ranges

__all__ = ["check_servable", "tune"]

Shapes = Mapping[str, Sequence[int]]
Samples = Path | str | Sequence[Mapping[str, Any]]


def tune(
    path: Path,
    *,
    samples: Samples | None = None,
    min_shapes: Shapes | None = None,
    opt_shapes: Shapes | None = None,
    max_shapes: Shapes | None = None,
    max_batch_size: int | None = None,
    tune: bool = True,
    tune_seconds: float = 60.0,
    objective: str = "throughput",
    p95_ms: float | None = None,
    precision: Collection[str] = ("fp32",),
    device: str = "cpu",
    accuracy: Check | None = None,
    cache: bool = True,
    isolate: bool = True,
    keep_samples: str = "synthetic",
    workspace: Path | None = None,
    accept: Callable[[Sequence[TensorSpec]], None] | None = None,
    progress: Progress = SILENT,
) -> ONNXArtifact:
    """Prove, tune and record an ONNX file as it is.

    Without samples the first axis is tried at 1 to 8, every other dynamic axis needs a range, and made-up integers are
    0 or 1. With samples, ranges of sizes and values are those the samples show.

    Args:
        path: The ``.onnx`` file, with its external data beside it.
        samples: Requests: arrays by input name, one mapping a request; or an ``.npz`` file, see
            :mod:`aitune.onnx.samples`.
        min_shapes: Smallest full shape by input, first axis included; goes before what samples show.
        opt_shapes: Typical full shape by input.
        max_shapes: Largest full shape by input.
        max_batch_size: The largest batch, exactly; 0 for no batching; None to let it be found.
        tune: Whether to measure candidates.
        tune_seconds: Budget of the measuring, in seconds.
        objective: ``"throughput"`` or ``"latency"``.
        p95_ms: Time within which 95 % of the runs must end, in milliseconds.
        precision: What candidates may compute in: ``"fp32"`` stands for the model's own numbers; ``"fp16"`` and
            ``"int8"`` change them, within :data:`aitune.numerics.tolerance.REDUCED`.
        device: ``"cpu"`` or ``"cuda"``.
        accuracy: Your own check of a candidate: given the expected and its outputs by name, true or why not. It decides
            instead of the thresholds for fewer bits.
        cache: Whether to remember measurements, and go on where an earlier tuning was interrupted.
        isolate: Whether to measure every candidate in a process of its own.
        keep_samples: ``"none"``, ``"synthetic"`` or ``"recorded"``.
        workspace: Folder for the artifact's files; None for a new one under ``$XDG_CACHE_HOME/aitune/artifacts``, which
            the caller may delete when the artifact is no longer used.
        accept: Asked about inputs and outputs once they are known; what it raises ends the work before it is long.
        progress: Told of every step.

    Returns:
        The artifact; its files are copies in the workspace.

    Raises:
        SourceError: If the file or the samples cannot be read or used, or Triton cannot serve the model.
        UsageError: If an option makes no sense, or an axis has no range; all such axes are listed.
        BatchingError: If a batch was demanded and batching was not proved.
    """
    path = Path(path)
    found = read_interface(path, prefer=("onnxruntime",))
    check_servable(path, found)
    inputs = tensor_specs(found.inputs, "input")
    if accept is not None:
        accept((*inputs, *tensor_specs(found.outputs, "output")))
    recorded = _samples(samples, inputs)
    ranges = resolve_ranges(
        inputs, min_shapes=min_shapes, typical_shapes=opt_shapes, max_shapes=max_shapes, samples=recorded
    )
    measuring = Measured(
        tune=tune,
        seconds=tune_seconds,
        objective=objective,
        p95_ms=p95_ms,
        precision=tuple(precision),
        device=device,
        accuracy=accuracy,
        cache=cache,
        isolate=isolate,
    )
    domains = observe_domains(inputs, ranges.shapes("typical"), recorded)
    with workspace_folder(workspace) as folder:
        file = copy_model(path, found.companions, folder)
        artifact = finish(
            file,
            read_interface(file, prefer=("onnxruntime",)),  # what is recorded is said of the copy
            ranges,
            domains,
            measuring.candidates(file, inputs, domains, ranges, recorded),
            requested_max_batch_size=max_batch_size,
            **measuring.options(),
            samples=recorded,
            keep_samples=keep_samples,
            provenance=(*_provenance(found), *measuring.provenance()),
            notes=_notes(found),
            progress=progress,
        )
        discard_losers(file, artifact.path)
    return cast(ONNXArtifact, artifact)  # the format of the interface decides the class


def check_servable(path: Path, interface: Interface) -> None:
    """Refuse a file that Triton's ONNX Runtime backend cannot serve, with the reason.

    Args:
        path: The model file, for messages.
        interface: What it declares.

    Raises:
        SourceError: If a value at its boundary is not a tensor of a type and size that Triton has.
    """
    sides = (("input", interface.inputs), ("optional input", interface.initializers), ("output", interface.outputs))
    for side, ports in sides:
        for port in ports:
            _check_port(path, interface, f"{side} {port.name!r}", port)
    if not interface.outputs:
        raise SourceError(f"model {str(path)!r} has no outputs", hint="export it again")


def _check_port(path: Path, interface: Interface, what: str, port: Port) -> None:
    where = f"{what} of {str(path)!r}"
    if port.kind != "tensor":
        hint = "export the model again with tensors at its boundary"
        if interface.producer.lower().startswith(("skl2onnx", "onnxmltools")):
            hint = "export it again with the option zipmap=False, so that probabilities are one tensor"
        raise SourceError(f"{where} is a {port.kind.replace('_', ' ')}, and Triton carries tensors only", hint=hint)
    if port.dtype is None:
        raise SourceError(
            f"{where} holds {port.element_type or 'an unknown type'}, for which Triton has no data type",
            hint="add a Cast at the boundary of the model, e.g. to FLOAT or INT8",
        )
    if port.shape is not None and 0 in port.shape:
        raise SourceError(
            f"{where} has the fixed size 0 on axis {port.shape.index(0)}, and Triton takes sizes of at least 1",
            hint="remove the empty tensor from the model, or export the axis as dynamic",
        )
    if not port.name.strip():
        raise SourceError(f"{where} has a blank name", hint="rename it with aitune.onnx.rename_values")


def _samples(samples: Samples | None, inputs: Sequence[TensorSpec]) -> tuple[dict[str, np.ndarray[Any, Any]], ...]:
    if samples is None:
        return ()
    if isinstance(samples, Path | str):
        samples = read_npz(Path(samples), [spec.name for spec in inputs])
    return fit_samples(samples, inputs)


def _provenance(interface: Interface) -> tuple[tuple[str, str], ...]:
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in interface.opset_imports)
    return (
        ("source", "onnx"),
        ("producer", interface.producer or "unknown"),
        ("ir_version", str(interface.ir_version)),
        ("opsets", opsets),
        ("onnxruntime", onnxruntime.__version__),
    )


def _notes(interface: Interface) -> tuple[str, ...]:
    """What a person should know about inputs that are not in the contract."""
    return tuple(
        f"input {port.name!r} has a stored value, which is always used: it is not part of the contract"
        for port in interface.initializers
    )
