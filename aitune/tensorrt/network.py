"""An ONNX model as the library parses it: a network, or the reason of every node that it cannot build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from aitune.errors import SourceError, UsageError
from aitune.records.interface import Interface, Port
from aitune.records.plans import LINEAR, PlanTensor
from aitune.records.shapes import TunedTensorSpec
from aitune.tensorrt.dtypes import check_supported, dtype_of
from aitune.tensorrt.library import has_flag, package_of
from aitune.tensorrt.messages import Heard, listening

__all__ = ["NodeProblem", "check_contract", "interface_of", "layer_counts", "parse_onnx", "plan_tensors", "set_formats"]

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class NodeProblem:
    """Why one node cannot be built.

    Attributes:
        index: Its place in the graph; -1 where it is about the model as a whole.
        name: Its name, may be ``""``.
        operator: Its operator, e.g. ``"NonZero"``.
        reason: The library's own words, in one line.
    """

    index: int
    name: str
    operator: str
    reason: str

    def __str__(self) -> str:
        if self.index < 0:
            return self.reason
        name = f" {self.name!r}" if self.name else ""
        return f"node {self.index}{name} ({self.operator}): {self.reason}"


def parse_onnx(trt: ModuleType, builder: Any, path: Path, *, strongly_typed: bool) -> Any:
    """The network of a model file, its external data beside it.

    Args:
        trt: The library.
        builder: Its builder.
        path: The ONNX file.
        strongly_typed: Whether every layer computes in the types the model declares, where the library lets one choose.

    Raises:
        SourceError: If the library cannot build it; every node that stops it is named, with the reason.
    """
    network = builder.create_network(_network_flags(trt, strongly_typed))
    with listening(trt) as heard:
        parser = trt.OnnxParser(network, builder.logger)
        parsed = parser.parse_from_file(str(path))
    if not parsed:
        raise SourceError(
            _refusal(trt, path, [_problem(parser.get_error(index)) for index in range(parser.num_errors)], heard),
            hint="serve the ONNX model as it is, or replace these operators in the model",
        )
    return network


def _network_flags(trt: ModuleType, strongly_typed: bool) -> int:
    wanted = ["EXPLICIT_BATCH"]  # TensorRT 10 knows the flag and ignores it, 11 has it no more
    if strongly_typed:
        wanted.append("STRONGLY_TYPED")
    kind = "NetworkDefinitionCreationFlag"
    names = [name for name in wanted if has_flag(trt, kind, name)]
    return sum(1 << int(getattr(trt.NetworkDefinitionCreationFlag, name)) for name in names)


def _problem(error: Any) -> NodeProblem:
    return NodeProblem(error.node(), error.node_name(), error.node_operator(), _reason(error.desc()))


def _reason(text: str) -> str:
    """The library's sentence without the C++ around it."""
    words = " ".join(text.split()).removeprefix("Assertion failed: ")
    told = words.rpartition('&& "')[2].rstrip('"') if '&& "' in words else words
    return told.rstrip(".")


def _refusal(trt: ModuleType, path: Path, problems: Sequence[NodeProblem], heard: Heard) -> str:
    shown = "; ".join(str(problem) for problem in problems[:_SHOWN]) or heard.last()
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return f"{package_of(trt)} {trt.__version__} cannot build {path.name!r}: {shown}{more}"


def interface_of(trt: ModuleType, network: Any) -> Interface:
    """What a network declares at its boundary."""
    return Interface(
        format="tensorrt_plan",
        inputs=tuple(_port(trt, network.get_input(index)) for index in range(network.num_inputs)),
        outputs=tuple(_port(trt, network.get_output(index)) for index in range(network.num_outputs)),
        producer=f"{package_of(trt)} {trt.__version__}",
        source="tensorrt",
    )


def _port(trt: ModuleType, tensor: Any) -> Port:
    sizes = tuple(tensor.shape)
    names = [tensor.get_dimension_name(axis) for axis in range(len(sizes))]
    dims = tuple(size if size >= 0 else (name or None) for size, name in zip(sizes, names, strict=True))
    return Port(
        name=tensor.name,
        element_type=str(tensor.dtype).rpartition(".")[2],
        dtype=dtype_of(trt, tensor.dtype),
        shape=dims,
    )


def check_contract(
    trt: ModuleType, found: Interface, inputs: Sequence[TunedTensorSpec], outputs: Sequence[TunedTensorSpec]
) -> None:
    """Demand that the network is the model of the contract: names, order, types, ranks and fixed sizes.

    Raises:
        SourceError: If it is not.
    """
    for side, ports, specs in (("input", found.inputs, inputs), ("output", found.outputs, outputs)):
        for spec in specs:
            check_supported(trt, spec.name, spec.dtype)
        if [port.name for port in ports] != [spec.name for spec in specs]:
            have, want = (", ".join(map(repr, names)) for names in ([p.name for p in ports], [s.name for s in specs]))
            raise SourceError(f"TensorRT sees the {side}s {have or 'none'}, the record has {want or 'none'}")
        for port, spec in zip(ports, specs, strict=True):
            _check_port(side, port, spec)


def _check_port(side: str, port: Port, spec: TunedTensorSpec) -> None:
    if port.dtype is not spec.dtype:
        raise SourceError(
            f"TensorRT makes {port.element_type} of {side} {spec.name!r}, the record says {spec.dtype.value}",
            hint="make the model with the type TensorRT uses, so that both say the same",
        )
    shape = port.shape or ()
    fits = len(shape) == len(spec.shape) and all(
        not isinstance(size, int) or low <= size <= high
        for size, low, high in zip(shape, spec.min_shape, spec.max_shape, strict=True)
    )
    if not fits:
        raise SourceError(f"TensorRT sees {side} {spec.name!r} as {shape}, the record says {spec.shape}")


def set_formats(trt: ModuleType, network: Any, formats: Mapping[str, str]) -> None:
    """Pin the memory layout of every input and output: row-major, unless another one is named.

    Raises:
        UsageError: If a tensor or a layout does not exist.
    """
    tensors = {tensor.name: tensor for tensor in _tensors(network)}
    unknown = sorted(set(formats) - set(tensors))
    if unknown:
        raise UsageError(f"a format is given for {unknown[0]!r}, which is no input or output")
    for name, tensor in tensors.items():
        wanted = formats.get(name, LINEAR)
        if not has_flag(trt, "TensorFormat", wanted):
            known = ", ".join(trt.TensorFormat.__members__)
            raise UsageError(f"format of tensor {name!r} must be one of {known}, got {wanted!r}")
        tensor.allowed_formats = 1 << int(getattr(trt.TensorFormat, wanted))


def plan_tensors(network: Any, formats: Mapping[str, str]) -> tuple[PlanTensor, ...]:
    """What a config must say of every input and output."""
    return tuple(
        PlanTensor(name=tensor.name, format=formats.get(tensor.name, LINEAR), shape_tensor=bool(tensor.is_shape_tensor))
        for tensor in _tensors(network)
    )


def layer_counts(network: Any) -> dict[str, int]:
    """How many layers of each type a network has, most first."""
    counts: dict[str, int] = {}
    for index in range(network.num_layers):
        name = str(network.get_layer(index).type).rpartition(".")[2]
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _tensors(network: Any) -> list[Any]:
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    return inputs + [network.get_output(index) for index in range(network.num_outputs)]
