"""From a module and its samples to a tuned artifact."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aitune.errors import BatchingError, SourceError
from aitune.numerics.dtypes import Array
from aitune.onnx.candidates import discard_losers
from aitune.onnx.measuring import Measured
from aitune.onnx.workspace import workspace_folder
from aitune.records import ONNXArtifact, TensorSpec
from aitune.records.interface import Interface
from aitune.torch.arrays import to_array, to_tensor
from aitune.torch.execution import call, settled
from aitune.torch.exporting import Exported, export
from aitune.torch.observation import Observation, observe
from aitune.torch.verification import verify
from aitune.tuning.accuracy import Check
from aitune.tuning.admission import Ask
from aitune.tuning.finish import finish
from aitune.tuning.ports import tensor_specs
from aitune.tuning.progress import SILENT, Progress
from aitune.tuning.shapes import Ranges, ShapeRange

__all__ = ["tune"]

Shapes = Mapping[str, Sequence[int]]


def tune(
    module: nn.Module,
    samples: Any,
    *,
    input_names: Sequence[str] | Mapping[str, str] | None = None,
    output_names: Sequence[str] | Mapping[str, str] | None = None,
    max_batch_size: int | None = None,
    min_shapes: Shapes | None = None,
    opt_shapes: Shapes | None = None,
    max_shapes: Shapes | None = None,
    opset: int | None = None,
    move_batch_axis: bool = False,
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
    """A tuned ONNX artifact of a module: observed, exported, compared with the module, proved to batch, measured.

    Args:
        module: The module; it is left as it was found.
        samples: A dict keyed by parameter of ``forward``, possibly nested, or an iterable of them. What varies across
            them becomes dynamic.
        input_names: New names for the inputs, all in order or a mapping from the default ones.
        output_names: The same for outputs. By default a dict's keys, ``output`` for a bare tensor, or ``output_0``…
        max_batch_size: Largest batch, exactly; 0 for no batching; None lets it be found by measuring.
        min_shapes: Smallest full shape by input name, instead of what the samples show.
        opt_shapes: Typical full shape by input name.
        max_shapes: Largest full shape by input name.
        opset: Version of the default ONNX operator set; by default what Triton 24.10 reads.
        move_batch_axis: Whether a batch on another axis than the first is moved to axis 0, where Triton can batch it.
        tune: Whether to measure.
        tune_seconds: Budget of the measuring, in seconds.
        objective: ``"throughput"`` or ``"latency"``.
        p95_ms: See :func:`aitune.onnx.tune`; so for the next five.
        precision: What candidates may compute in; by default numbers never change.
        device: ``"cpu"`` or ``"cuda"``.
        accuracy: Your own check of a candidate.
        cache: Whether to remember measurements.
        isolate: Whether to measure every candidate in a process of its own.
        keep_samples: ``"none"``, ``"synthetic"`` or ``"recorded"``.
        workspace: Folder for the files; a new one in the cache by default.
        accept: Asked about inputs and outputs once they are known; what it raises ends the work before it is long.
        progress: Told of every step.

    Raises:
        SourceError: If module or samples are of no use, or no exporter gives a file as asked.
        NumericsError: If the exported file differs from the module.
        BatchingError: If a batch was asked for and is not there.
        UsageError: If an option makes no sense.
    """
    progress.start("running the module on its samples", None)
    observation = observe(
        module,
        samples,
        input_names=input_names,
        output_names=output_names,
        min_shapes=min_shapes,
        opt_shapes=opt_shapes,
        max_shapes=max_shapes,
        max_batch_size=max_batch_size or None,
        move_batch_axis=move_batch_axis,
    )
    progress.done()
    if accept is not None:
        accept((*observation.inputs, *observation.outputs))
    with workspace_folder(workspace) as folder:
        exported = export(observation, folder / "model.onnx", opset=opset, progress=progress)
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
        artifact = _finished(exported, max_batch_size, max_shapes, measuring, keep_samples, progress)
        _check_largest(exported, artifact)
    if move_batch_axis and max_batch_size != 0:
        _check_batched(artifact)
    return artifact


def _finished(
    exported: Exported,
    max_batch_size: int | None,
    max_shapes: Shapes | None,
    measuring: Measured,
    keep_samples: str,
    progress: Progress,
) -> ONNXArtifact:
    observation = exported.observation
    names = [port.name for port in exported.interface.inputs]
    samples = _recorded(observation, names)
    domains = [domain for domain in observation.domains if domain.name in names]
    ranges = _ranges(observation, exported.interface, max_shapes)
    inputs = tensor_specs(exported.interface.inputs, "input")
    try:
        artifact = finish(
            exported.path,
            exported.interface,
            ranges,
            domains,
            measuring.candidates(exported.path, inputs, domains, ranges, samples),
            requested_max_batch_size=max_batch_size,
            **measuring.options(),
            reference=_reference(observation, names),
            samples=samples,
            keep_samples=keep_samples,
            provenance=(*_provenance(exported), *measuring.provenance()),
            notes=(*observation.notes, *exported.notes),
            progress=progress,
        )
    except BatchingError as error:
        if not observation.batch_elsewhere:
            raise
        advice = f"the batch lies on {observation.batch_elsewhere}: --move-batch-axis moves it to axis 0"
        raise BatchingError(str(error), hint=advice) from error
    discard_losers(exported.path, artifact.path)
    if not isinstance(artifact, ONNXArtifact):
        raise SourceError(f"an ONNX file was expected, found {artifact.format}")
    return _with_place(artifact, observation.batch_elsewhere)


def _with_place(artifact: ONNXArtifact, elsewhere: str) -> ONNXArtifact:
    """The artifact, the reason why it does not batch completed by where its batch is."""
    evidence = artifact.evidence
    if not elsewhere or evidence is None or evidence.batching is None or evidence.batching.proved:
        return artifact
    batching = replace(evidence.batching, reason=f"{evidence.batching.reason}; the batch lies on {elsewhere}")
    return replace(artifact, evidence=replace(evidence, batching=batching))


def _ranges(observation: Observation, interface: Interface, max_shapes: Shapes | None) -> Ranges:
    """The shapes to prove and tune at: those of the symbols, inputs in the order of the file."""
    symbols = observation.symbols
    low = observation.shapes({symbol.name: symbol.low for symbol in symbols})
    typical = observation.shapes({symbol.name: symbol.typical for symbol in symbols})
    high = observation.shapes({symbol.name: symbol.high for symbol in symbols})
    inputs = tuple(
        ShapeRange(
            name=port.name,
            min_shape=low[port.name],
            typical_shape=typical[port.name],
            max_shape=high[port.name],
        )
        for port in interface.inputs
    )
    batch = [symbol for symbol in symbols if symbol.batch and all(axis == 0 for _, axis in symbol.axes)]
    said = {observation.inputs[index].name for symbol in batch for index, _ in symbol.axes} & set(max_shapes or {})
    return Ranges(inputs=inputs, max_batch_size=batch[0].high if said else None)


def _recorded(observation: Observation, names: Sequence[str]) -> list[dict[str, Any]]:
    """The user's samples as arrays, those that still fit where an axis had to be fixed."""
    return [
        {
            spec.name: to_array(tensor)
            for spec, tensor in zip(observation.inputs, sample, strict=True)
            if spec.name in names
        }
        for sample in observation.samples
        if observation.fits(sample)
    ]


def _reference(observation: Observation, names: Sequence[str]) -> Ask | None:
    """The module itself as candidates are compared with it; None where the file lacks one of its inputs."""
    if {spec.name for spec in observation.inputs} != set(names):
        return None

    def ask(request: Mapping[str, Array]) -> dict[str, Array]:
        tensors = [to_tensor(request[spec.name], spec.dtype, observation.device) for spec in observation.inputs]
        with settled(observation.flat):
            answer = call(observation.flat, *tensors, what="forward")
        return {spec.name: to_array(item) for spec, item in zip(observation.outputs, answer, strict=True)}

    return ask


def _provenance(exported: Exported) -> tuple[tuple[str, str], ...]:
    verification = exported.verification
    return (
        ("source", "torch"),
        ("torch", torch.__version__),
        ("exporter", exported.way),
        ("opset", str(dict(exported.interface.opset_imports).get("", 0))),
        ("compared_runs", str(verification.runs)),
        ("compared_largest_difference", f"{verification.largest:.3g}"),
    )


def _check_batched(artifact: ONNXArtifact) -> None:
    batching = artifact.evidence.batching if artifact.evidence else None
    if batching is not None and not batching.proved:
        raise BatchingError(
            f"the batch axis was moved to axis 0, and the model does not batch: {batching.reason}",
            hint="leave --move-batch-axis out",
        )


def _check_largest(exported: Exported, artifact: ONNXArtifact) -> None:
    """Compare with the module at the largest batch as well, where measuring went beyond what was compared."""
    observation = exported.observation
    batch = next((symbol for symbol in observation.symbols if symbol.batch), None)
    largest = artifact.max_batch_size
    if batch is None or largest is None or largest <= batch.high:
        return
    only = replace(batch, low=largest, high=largest, typical=largest)
    at_typical = [
        only if one is batch else replace(one, low=one.typical, high=one.typical) for one in observation.symbols
    ]
    only_there = replace(observation, symbols=tuple(at_typical), samples=observation.samples[:1])
    verify(only_there, exported.path, exported.interface)
