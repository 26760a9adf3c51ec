"""The golden probe: a small seeded request whose answer tells which weights are loaded.

Only the seed and the domains of the request are recorded; of the answer a few elements, evenly spread. So a probe fits
into a served config, and a server that nobody has files for can still be asked which weights it holds.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from aitune.errors import UsageError
from aitune.numerics.compare import Agreement, compare
from aitune.numerics.dtypes import Array, as_float, numpy_dtype, require_dtype
from aitune.numerics.synthetic import synthetic_inputs
from aitune.numerics.tolerance import Tolerance, regrouped
from aitune.records import DType, TensorSpec, TunedTensorSpec
from aitune.records.evidence import InputDomain, Probe, ProbeOutput

__all__ = ["PROBE_SEED", "check_probe", "make_probe", "probe_request"]

PROBE_SEED = 20240
"""Seed of the probe unless another is given."""
_BUDGET_BYTES = 3072
_VALUE_BYTES = 14
"""Room one value takes in JSON, its comma included."""

Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


def make_probe(
    run: Run,
    inputs: Sequence[TunedTensorSpec],
    outputs: Sequence[TensorSpec],
    domains: Sequence[InputDomain],
    *,
    seed: int = PROBE_SEED,
    budget_bytes: int = _BUDGET_BYTES,
) -> Probe:
    """Ask the probe and keep the answer.

    Args:
        run: Runs the model once, e.g. ``runner.run``.
        inputs: Contracts of the inputs; where they have a batch axis, the request has one row.
        outputs: Contracts of the outputs, for element types.
        domains: Typical shape and range of values of each input.
        seed: Seed of the request.
        budget_bytes: About how long the kept values may be as JSON, all outputs together; each keeps one at least.

    Raises:
        UsageError: If an input has no domain, or an output is missing or of another type than its contract says.
    """
    by_name = {domain.name: domain for domain in domains}
    asked = tuple(_one_row(spec, by_name[spec.name]) for spec in inputs if spec.name in by_name)
    probe = Probe(seed=seed, inputs=asked, outputs=())
    answer = run(probe_request(probe, inputs))
    share = max(1, budget_bytes // max(1, len(outputs)) // _VALUE_BYTES)
    return dataclasses.replace(probe, outputs=tuple(_thin(answer, spec, share) for spec in outputs))


def probe_request(probe: Probe, inputs: Sequence[TensorSpec]) -> dict[str, Array]:
    """The request of a probe, made again.

    Args:
        probe: Seed and domains.
        inputs: Contracts of the inputs, for element types.

    Raises:
        UsageError: If an input is not among the probe's domains.
    """
    return synthetic_inputs(
        inputs, probe.inputs, {domain.name: domain.typical_shape for domain in probe.inputs}, probe.seed
    )


def check_probe(
    probe: Probe,
    answer: Mapping[str, Array],
    outputs: Sequence[TensorSpec],
    *,
    slack: float = 1.0,
    precision: str = "fp32",
) -> Agreement:
    """Does this answer come from the weights of the probe?

    Args:
        probe: What was recorded.
        answer: Outputs of the request of :func:`probe_request`, full shapes, by name.
        outputs: Contracts of the outputs, for element types.
        slack: Widens the tolerance: 1 for the runtime that made the probe, more for another processor.
        precision: What the model computes in, where the request may have run in a batch with others or on another
            processor; see :func:`aitune.numerics.tolerance.regrouped`.

    Returns:
        The agreement of the first output that differs, its name in front of the detail; else one that says how many
        values agree.
    """
    specs = {spec.name: spec for spec in outputs}
    worst = 0.0
    for output in probe.outputs:
        if output.name not in answer or output.name not in specs:
            return _differs(f"output {output.name!r} is missing")
        dtype = specs[output.name].dtype
        found = _check(output, answer[output.name], dtype, regrouped(dtype, precision, slack=slack))
        if not found.agrees:
            return dataclasses.replace(found, detail=f"output {output.name!r}: {found.detail}")
        worst = max(worst, found.max_abs)
    count = sum(len(output.values) for output in probe.outputs)
    detail = f"{count} values of {len(probe.outputs)} outputs agree, largest difference {worst:.2g}"
    return Agreement(agrees=True, max_abs=worst, max_rel=0.0, where=None, detail=detail)


def _differs(detail: str) -> Agreement:
    return Agreement(agrees=False, max_abs=math.inf, max_rel=math.inf, where=None, detail=detail)


def _one_row(spec: TunedTensorSpec, domain: InputDomain) -> InputDomain:
    shape = list(domain.typical_shape)
    if spec.batch_axis is not None:
        shape[spec.batch_axis] = 1
    return dataclasses.replace(domain, typical_shape=tuple(shape))


def _thin(answer: Mapping[str, Array], spec: TensorSpec, most: int) -> ProbeOutput:
    """At most ``most`` elements of one output."""
    if spec.name not in answer:
        raise UsageError(f"the model gave no output {spec.name!r}, only {', '.join(map(repr, answer))}")
    array = answer[spec.name]
    require_dtype(array, spec.dtype, f"output {spec.name!r}")
    stride = _stride(array.shape, most)
    kept = array.reshape(-1)[::stride]
    return ProbeOutput(name=spec.name, shape=array.shape, stride=stride, values=_values(kept, spec.dtype))


def _stride(shape: tuple[int, ...], most: int) -> int:
    """Distance between kept elements; it shares no divisor with a row, or only a few columns would be seen."""
    size, row = math.prod(shape), shape[-1] if shape else 1
    stride = max(1, -(-size // most))
    while stride > 1 and row > 1 and math.gcd(stride, row) != 1:
        stride += 1
    return stride


def _values(kept: Array, dtype: DType) -> tuple[float | int | str, ...]:
    if dtype is DType.STRING:
        return tuple(_digest(item) for item in kept.tolist())
    if not dtype.is_floating:
        return tuple(int(item) for item in kept.tolist())
    return tuple(_rounded(item) for item in as_float(kept, dtype).tolist())


def _digest(item: bytes | str) -> str:
    data = item.encode() if isinstance(item, str) else item
    return hashlib.sha256(data).hexdigest()[:16]


def _rounded(item: float) -> float | str:
    """Six significant digits; what JSON cannot say becomes ``"nan"``, ``"inf"`` or ``"-inf"``."""
    return float(f"{item:.6g}") if math.isfinite(item) else str(item)


def _check(output: ProbeOutput, array: Array, dtype: DType, allowed: Tolerance) -> Agreement:
    if array.shape != output.shape:
        return _differs(f"shape {array.shape}, recorded {output.shape}")
    if array.dtype.newbyteorder("=") != numpy_dtype(dtype):
        return _differs(f"element type {array.dtype}, recorded {dtype.value}")
    if output.stride < 1:
        return _differs(f"stride {output.stride} keeps no values")
    found = _values(array.reshape(-1)[:: output.stride], dtype)
    if not dtype.is_floating or len(found) != len(output.values):
        return _compare_lists(found, output.values, dtype)
    try:
        numbers = [np.array([float(value) for value in values]) for values in (found, output.values)]
    except ValueError:
        return _differs("recorded values are not numbers")
    return compare(numbers[0], numbers[1], DType.FLOAT64, tolerance=allowed)


def _compare_lists(found: Sequence[object], recorded: Sequence[object], dtype: DType) -> Agreement:
    if found == recorded:
        return Agreement(agrees=True, max_abs=0.0, max_rel=0.0, where=None, detail="equal")
    count = sum(a != b for a, b in zip(found, recorded, strict=False)) + abs(len(found) - len(recorded))
    return _differs(f"{count} of {len(recorded)} recorded values differ ({dtype.value} must be equal)")
