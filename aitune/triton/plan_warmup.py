"""Warm-up requests that cannot hurt.

A warm-up that fails can kill the whole server (rules §10), so one is written only where the artifact was seen to answer
such a request. Zeros are the only content: Triton's ``random_data`` is random *bytes*, which nobody has tried (NaN for
floats, indices out of range for integers).
"""

from __future__ import annotations

from dataclasses import dataclass

from aitune.records.artifact import Artifact
from aitune.records.evidence import InputDomain
from aitune.records.shapes import TunedTensorSpec
from aitune.triton.plan_tensors import client_shape

__all__ = ["WarmupPlan", "WarmupSample", "plan_warmup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupSample:
    """One warm-up request.

    Attributes:
        name: For the server's log.
        batch_size: Rows; 1 for a model without a batch, as 0 would skip it (R144).
        dims: Shape of each input in the config's order, as a client sends it, without the batch.
    """

    name: str
    batch_size: int
    dims: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupPlan:
    """The warm-up of a config.

    Attributes:
        samples: Requests, in order; none when none is safe or wanted.
        reason: Why, in one sentence.
    """

    samples: tuple[WarmupSample, ...]
    reason: str


def plan_warmup(artifact: Artifact, *, max_batch_size: int, wanted: str) -> WarmupPlan:
    """The warm-up that the evidence allows.

    Args:
        artifact: The record.
        max_batch_size: Of the config; 0 for no batch.
        wanted: ``"none"``, ``"small"`` or ``"full"``.
    """
    if wanted == "none":
        return WarmupPlan(samples=(), reason="No warm-up: that was asked for.")
    domains = {domain.name: domain for domain in artifact.evidence.inputs} if artifact.evidence is not None else {}
    for spec in artifact.inputs:
        trouble = _trouble(spec, domains.get(spec.name))
        if trouble:
            return WarmupPlan(samples=(), reason=f"No warm-up: {trouble}, and a warm-up that fails can end the server.")
    if not artifact.inputs:
        return WarmupPlan(samples=(), reason="No warm-up: the model has no inputs.")
    batched = max_batch_size > 0
    dims = tuple(client_shape(domains[spec.name].typical_shape, batched=batched) for spec in artifact.inputs)
    samples = [WarmupSample(name="zeros, one row" if batched else "zeros", batch_size=1, dims=dims)]
    if wanted == "full" and max_batch_size > 1:
        samples.append(WarmupSample(name="zeros, largest batch", batch_size=max_batch_size, dims=dims))
    return WarmupPlan(
        samples=tuple(samples),
        reason="Zeros of the typical shape: the artifact was seen to answer them before it was published.",
    )


def _trouble(spec: TunedTensorSpec, domain: InputDomain | None) -> str:
    """Why zeros are not known to be safe for an input, ``""`` if they are."""
    if domain is None:
        return f"nobody has tried values for input {spec.name!r}"
    if not domain.zeros_valid:
        return f"input {spec.name!r} was not seen to take zeros"
    shape = domain.typical_shape
    fits = len(shape) == spec.rank and all(
        low <= size <= high for low, size, high in zip(spec.min_shape, shape, spec.max_shape, strict=True)
    )
    return "" if fits else f"the typical shape of input {spec.name!r} is outside its bounds"
