"""Writing a module as an ONNX file that keeps its promises, or saying why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aitune.errors import AituneError, NumericsError, SourceError, UsageError
from aitune.onnx.reading import describe
from aitune.records import TensorSpec
from aitune.records.interface import Interface
from aitune.torch.execution import one_line, settled
from aitune.torch.limits import TooSlowError, time_limit
from aitune.torch.observation import Observation
from aitune.torch.quiet import quiet
from aitune.torch.scratch import scratch_folder
from aitune.torch.symbols import Symbol, resized
from aitune.torch.verification import SizeError, Verification, verify
from aitune.torch.ways import LARGEST_FILE_BYTES, WAYS, Order, Way
from aitune.tuning.progress import SILENT, Progress

__all__ = ["DEFAULT_OPSET", "Exported", "export"]

DEFAULT_OPSET = 20
"""What ONNX Runtime 1.19 of Triton 24.10 reads, with IR version 10."""


LONGEST_WAY_S = 180.0
"""How long one exporter may take; reasoning about sizes can take an exporter hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """An ONNX file that was compared with its module.

    Attributes:
        path: The file.
        interface: What ONNX Runtime says it takes and gives.
        observation: What it was made from; axes that had to be fixed are fixed here too.
        way: Which exporter wrote it.
        lost: (way, reason) of those that were tried before.
        verification: What was compared.
        notes: What a person should know about the file.
    """

    path: Path
    interface: Interface
    observation: Observation
    way: str
    lost: tuple[tuple[str, str], ...]
    verification: Verification
    notes: tuple[str, ...]


def export(
    observation: Observation,
    path: Path,
    *,
    opset: int | None = None,
    ways: Sequence[Way] = WAYS,
    largest_file_bytes: int = LARGEST_FILE_BYTES,
    progress: Progress = SILENT,
) -> Exported:
    """Write the observed module as ONNX.

    The ways are tried in order until one gives a file that ONNX Runtime loads, that has the asked operator set, the
    asked dynamic axes and names, and whose outputs equal the module's at every size. If none does and the batch was
    only tried because a module usually has one, the batch is fixed to that of the samples.

    Args:
        observation: Module and samples.
        path: File to write; weights too large for it go to ``<name>.data`` beside it.
        opset: Version of the default operator set; 20 by default.
        ways: Exporters to try.
        largest_file_bytes: Weights beyond this go to a companion.
        progress: Told about every way that is tried.

    Raises:
        NumericsError: If files were written, and each differs from the module.
        SourceError: If no way gives a file as asked.
        UsageError: If the operator set makes no sense.
    """
    wanted = DEFAULT_OPSET if opset is None else opset
    if not 7 <= wanted <= 23:
        raise UsageError(f"opset must be between 7 and 23, got {wanted}")
    lost: list[tuple[str, AituneError]] = []
    for attempt in _attempts(observation, lost):
        for way in ways:
            progress.start(f"exporting with {way.name}", None)
            try:
                _refuse_branches(way, lost)
                return _try(attempt, way, path, wanted, largest_file_bytes, lost)
            except AituneError as error:
                _remove(path)
                lost.append((way.name if attempt is observation else f"{way.name} at a fixed batch", error))
            finally:
                progress.done()
    raise _verdict(lost)


def _attempts(observation: Observation, lost: Sequence[tuple[str, AituneError]]) -> Iterator[Observation]:
    """What was asked; when that is lost because of its axes, the same with the batch fixed, if nobody asked for it."""
    yield observation
    invented = [symbol for symbol in observation.symbols if symbol.batch and symbol.invented]
    if invented and any(isinstance(error, _AxisError | NumericsError) for _, error in lost):
        yield _fixed(observation, invented[0])


class _AxisError(SourceError):
    """An exporter did not keep an axis dynamic."""


class _BranchError(SourceError):
    """The module decides by the values of its inputs which code runs."""


class _QuantisedError(SourceError):
    """The module has layers whose weights are packed for PyTorch alone."""


def _refuse_branches(way: Way, lost: Sequence[tuple[str, AituneError]]) -> None:
    """Refuse to trace where an exporter that reads code has found a branch on values: a trace follows one branch."""
    if way.follows_one_run and any(isinstance(error, _BranchError) for _, error in lost):
        raise SourceError("a trace would follow one branch only")


def _verdict(lost: Sequence[tuple[str, AituneError]]) -> AituneError:
    """One error with all the reasons; wrong numbers of the first way weigh most."""
    reasons: dict[str, list[str]] = {}
    for way, error in lost:
        reasons.setdefault(str(error), []).append(way)
    text = "; ".join(f"{', '.join(ways)}: {reason}" for reason, ways in reasons.items())
    first = lost[0][1]
    if isinstance(first, NumericsError):
        return NumericsError(str(first), hint=f"no exporter gives the module's numbers: {text}")
    return SourceError(f"the module cannot be exported as asked: {text}", hint=_advice([error for _, error in lost]))


def _advice(errors: Sequence[AituneError]) -> str:
    """What to do about the errors of all ways; the rarer the reason, the more it says."""
    if any(isinstance(error, _QuantisedError) for error in errors):
        return "export the module before it is quantised, and quantise the ONNX file"
    if any(isinstance(error, _BranchError) for error in errors):
        return "use torch.where or torch.cond where forward branches on values"
    if any(isinstance(error, _AxisError | SizeError) for error in errors):
        return "give samples of one size along the axis that cannot move, or change forward"
    return ""


def _try(
    observation: Observation,
    way: Way,
    path: Path,
    opset: int,
    largest_file_bytes: int,
    lost: Sequence[tuple[str, AituneError]],
) -> Exported:
    widest = max(observation.samples, key=lambda sample: sum(tensor.numel() for tensor in sample))
    tensors = tuple(t.clone() for t in resized(widest, observation.trace, observation.symbols))
    order = Order(
        flat=observation.flat,
        tensors=tensors,
        input_names=tuple(spec.name for spec in observation.inputs),
        output_names=tuple(spec.name for spec in observation.outputs),
        output_shapes=tuple(spec.shape for spec in observation.outputs),
        symbols=observation.symbols,
        opset=opset,
        largest_file_bytes=largest_file_bytes,
    )
    notes = _write(order, way, path)
    interface = describe(path)
    _check_opset(interface, opset)
    missing = _check_names(interface, order)
    _check_axes(interface, observation)
    verification = verify(observation, path, interface)
    said = [f"{name} lost: {reason}" for name, reason in lost]
    said += [f"input {name!r} does not reach any output, and the file does not have it" for name in missing]
    return Exported(
        path=path,
        interface=interface,
        observation=observation,
        way=way.name,
        lost=tuple((name, str(error)) for name, error in lost),
        verification=verification,
        notes=(*notes, *said, *verification.notes),
    )


def _write(order: Order, way: Way, path: Path) -> tuple[str, ...]:
    """Call the exporter.

    Raises:
        SourceError: If it raises anything.
    """
    try:
        with scratch_folder(), settled(order.flat), quiet(stderr=way.follows_one_run), time_limit(LONGEST_WAY_S):
            return way.write(order, path)
    except Exception as error:  # the boundary to a foreign exporter: its errors have no common base
        raise _explained(error, order) from error


_SPECIALISED = re.compile(
    r"\[(\d+)\]\.size\(\)\[(\d+)\] as dynamic but your code specialized it to be a constant \((\d+)\)"
)
_QUANTISED = ("LinearPackedParams", "quantized::", "torch.classes.quantized", "ScriptObject")
_BRANCHES = ("data-dependent", "Data-dependent", "DataDependent")


def _explained(error: Exception, order: Order) -> SourceError:
    """What an exporter said, in the names of this module's inputs where that can be told."""
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    for link in chain:
        if found := _SPECIALISED.search(str(link)):
            index, axis, size = map(int, found.groups())
            return _AxisError(f"axis {axis} of input {order.input_names[index]!r} came out as {size}, asked dynamic")
    if isinstance(error, TooSlowError):
        return SourceError(str(error))
    said = f"the exporter raised {one_line(chain[-1])}"
    if any(word in str(link) for link in chain for word in _QUANTISED):
        return _QuantisedError(f"it has layers quantised by torch.ao, which have no form in ONNX: {said}")
    if any(word in f"{type(link).__name__} {link}" for link in chain for word in _BRANCHES):
        return _BranchError(f"forward branches on the values of its inputs: {said}")
    return SourceError(said)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}.data").unlink(missing_ok=True)


def _check_opset(interface: Interface, opset: int) -> None:
    found = dict(interface.opset_imports).get("")
    if found != opset:
        raise SourceError(f"opset {opset} was asked, the file has {found}")


def _check_names(interface: Interface, order: Order) -> tuple[str, ...]:
    """Refuse other names or another order than promised; an input that is gone is returned."""
    inputs = [port.name for port in interface.inputs]
    outputs = tuple(port.name for port in interface.outputs)
    if outputs != order.output_names or inputs != [name for name in order.input_names if name in inputs]:
        raise SourceError(
            f"the file has inputs {', '.join(inputs)} and outputs {', '.join(outputs)}, others were asked"
        )
    return tuple(name for name in order.input_names if name not in inputs)


def _check_axes(interface: Interface, observation: Observation) -> None:
    ports = {port.name: port for port in interface.inputs}
    for spec in observation.inputs:
        shape = ports[spec.name].shape if spec.name in ports else None
        for axis, (asked, found) in enumerate(zip(spec.shape, shape or spec.shape, strict=True)):
            if isinstance(asked, str) and isinstance(found, int):
                raise _AxisError(f"axis {axis} of input {spec.name!r} came out as {found}, asked dynamic")
            if isinstance(asked, int) and found != asked:
                raise SourceError(f"axis {axis} of input {spec.name!r} came out as {found!r}, asked {asked}")


def _fixed(observation: Observation, symbol: Symbol) -> Observation:
    """The same with one symbol fixed to the size of the samples."""
    size = symbol.seen[0]
    inputs = tuple(
        TensorSpec(spec.name, spec.dtype, tuple(size if dim == symbol.name else dim for dim in spec.shape))
        for spec in observation.inputs
    )
    domains = tuple(
        replace(
            domain,
            typical_shape=tuple(
                size if d == symbol.name else t for d, t in zip(spec.shape, domain.typical_shape, strict=True)
            ),
        )
        for spec, domain in zip(observation.inputs, observation.domains, strict=True)
    )
    return replace(
        observation,
        inputs=inputs,
        domains=domains,
        symbols=tuple(one for one in observation.symbols if one is not symbol),
        trace={name: number for name, number in observation.trace.items() if name != symbol.name},
        notes=(*observation.notes, f"the batch is fixed to {size}: no exporter keeps it dynamic"),
    )
