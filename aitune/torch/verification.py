"""Is the exported file the same function as the module? Asked at several sizes, with values nobody has seen before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from aitune.errors import NumericsError, SourceError
from aitune.numerics.compare import compare
from aitune.numerics.dtypes import Array, dtype_of
from aitune.onnx.session import OnnxRunner
from aitune.records import DType
from aitune.records.interface import Interface
from aitune.torch.arrays import to_array
from aitune.torch.domains import draw
from aitune.torch.execution import call, settled
from aitune.torch.observation import Observation
from aitune.torch.symbols import resized, verified_sizes

__all__ = ["SizeError", "Verification", "verify"]

_OWN_SAMPLES = 3
"""So many of the user's own samples are compared as well."""
_TIE_SHARE = 1e-3
"""Share of whole-number outputs that may differ: two scores closer than rounding swap places in an argmax."""


class SizeError(SourceError):
    """The file does not run at a size that the module takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was compared.

    Attributes:
        runs: Number of runs that agreed.
        sizes: Sizes at which they did.
        largest: Largest difference of any floating-point output.
        notes: What a person should know.
    """

    runs: int
    sizes: tuple[Mapping[str, int], ...]
    largest: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    """The exported file, open, and what it declares."""

    session: OnnxRunner
    interface: Interface

    def run(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """The file's answer; inputs that it does not have are left out."""
        answer = self.session.run({port.name: given[port.name] for port in self.interface.inputs})
        for port in self.interface.outputs:
            found = answer[port.name].shape
            dims = found if port.shape is None else port.shape
            if any(isinstance(dim, int) and dim != size for dim, size in zip(dims, found, strict=True)):
                raise SourceError(f"output {port.name!r} has shape {found}, declared {port.shape}")
        return answer


def verify(observation: Observation, path: Path, interface: Interface, *, seed: int = 0) -> Verification:
    """Compare an exported file with the module it came from.

    Every dynamic axis is run at its smallest, a middle and its largest size, on random values within the range that the
    samples had (on the samples' own values, cut or repeated to size, where the module refuses random ones), and on some
    of the samples themselves.

    Args:
        observation: The module and what is known about it.
        path: The file.
        interface: What the file takes and gives; exporters may have dropped an input that reaches no output.
        seed: Of the random values.

    Raises:
        NumericsError: If an output differs; names tensor, sizes and error.
        SourceError: If the file fails where the module does not, or gives another shape than it declares.
    """
    file = _File(OnnxRunner(path), interface)
    notes: dict[str, None] = {}
    sizes, largest = [], 0.0
    try:
        with settled(observation.flat):
            for request in _requests(observation, seed, notes):
                largest = max(largest, _compare(observation, file, request, notes))
                sizes.append(request.sizes)
    finally:
        file.session.close()
    if not sizes:
        raise SourceError("the module accepts none of the inputs that an export must be compared on")
    return Verification(runs=len(sizes), sizes=tuple(sizes), largest=largest, notes=tuple(notes))


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked of both: sizes, how to call them, inputs, and the module's answer."""

    sizes: Mapping[str, int]
    where: str
    tensors: tuple[torch.Tensor, ...]
    expected: tuple[Array, ...]


def _requests(observation: Observation, seed: int, notes: dict[str, None]) -> Iterator[_Request]:
    for number, sample in enumerate(observation.samples[:_OWN_SAMPLES]):
        expected = _expected(observation, sample)
        if observation.fits(sample) and expected is not None:
            sizes = {one.name: sample[one.axes[0][0]].shape[one.axes[0][1]] for one in observation.symbols}
            yield _Request(sizes, f"sample {number}", sample, expected)
    for number, sizes in enumerate(verified_sizes(observation.symbols)):
        where = ", ".join(f"{name} {size}" for name, size in sizes.items()) or "random values"
        request = _made_up(observation, sizes, where, seed + number, notes)
        if request is None:
            notes[f"the module itself refuses {where}: not compared there"] = None
        else:
            yield request


def _made_up(
    observation: Observation, sizes: Mapping[str, int], where: str, seed: int, notes: dict[str, None]
) -> _Request | None:
    """A random request, or one of the samples' own values where the module refuses random ones; None if those too."""
    tensors = draw(observation.inputs, observation.domains, observation.shapes(sizes), seed, observation.device)
    expected = _expected(observation, tensors)
    if expected is None:
        tensors = resized(observation.samples[-1], sizes, observation.symbols)
        expected = _expected(observation, tensors)
        notes["random values are not valid for this module at every size: the samples' own were used"] = None
    return None if expected is None else _Request(sizes, where, tensors, expected)


def _expected(observation: Observation, tensors: Sequence[torch.Tensor]) -> tuple[Array, ...] | None:
    """What the module answers, None when it refuses."""
    try:
        answer = call(observation.flat, *tensors, what="forward")
    except SourceError:
        return None
    return tuple(to_array(tensor) for tensor in answer)


def _compare(observation: Observation, file: _File, request: _Request, notes: dict[str, None]) -> float:
    """The largest difference of one run."""
    given = {spec.name: to_array(t) for spec, t in zip(observation.inputs, request.tensors, strict=True)}
    where = request.where
    try:
        found = file.run(given)
    except SourceError as error:
        raise SizeError(f"the exported file fails at {where}, where the module does not: {error}") from error
    largest = 0.0
    for spec, wanted in zip(observation.outputs, request.expected, strict=True):
        dtype = spec.dtype if spec.dtype is DType.BFLOAT16 else dtype_of(wanted.dtype)
        agreement = compare(found[spec.name], wanted, dtype)
        if not agreement.agrees and _is_tie(found[spec.name], wanted):
            notes[f"output {spec.name!r} differs in a few whole numbers, where two scores are equal to rounding"] = None
        elif not agreement.agrees:
            raise NumericsError(
                f"output {spec.name!r} of the exported file differs from the module's at {where}: {agreement.detail}"
            )
        elif dtype.is_floating:
            largest = max(largest, agreement.max_abs)
    return largest


def _is_tie(found: Array, wanted: Array) -> bool:
    """Whether whole numbers differ in so few places that rounding explains it."""
    if wanted.dtype.kind not in "iub" or found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    return int(np.count_nonzero(found != wanted)) <= _TIE_SHARE * wanted.size
