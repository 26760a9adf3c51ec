"""How large a batch a config may allow, and the sentence that says why."""

from __future__ import annotations

from dataclasses import dataclass

from aitune.errors import BatchingError, UsageError
from aitune.records.artifact import Artifact

__all__ = ["BatchPlan", "plan_batching"]

_CONFIG_LIMIT = (1 << 31) - 1  # max_batch_size is an int32


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """The batch of a config.

    Attributes:
        max_batch_size: For the config; 0 when Triton must not batch.
        reason: One sentence for people.
        warning: What a person should know, ``""`` for nothing.
    """

    max_batch_size: int
    reason: str
    warning: str = ""


def plan_batching(artifact: Artifact, asked: int | None) -> BatchPlan:
    """The batch that the record and the wish allow.

    Args:
        artifact: The record.
        asked: Largest batch wanted, 0 for none, None for what the record allows.

    Raises:
        BatchingError: If a batch is wanted and the record has none.
        UsageError: If more is wanted than was tuned.
    """
    plan = _from_record(artifact)
    if asked is None:
        return plan
    if asked == 0:
        return BatchPlan(max_batch_size=0, reason="No batching: that was asked for.", warning=plan.warning)
    if plan.max_batch_size == 0:
        raise BatchingError(f"a batch of {asked} was asked for: {_lower(plan.reason)}")
    if asked > plan.max_batch_size:
        raise UsageError(
            f"a batch of {asked} was asked for, the artifact was tuned up to {plan.max_batch_size}",
            hint="tune it for the larger batch, or ask for less",
        )
    return BatchPlan(max_batch_size=asked, reason=f"{plan.reason} Limited by request.", warning=plan.warning)


def _from_record(artifact: Artifact) -> BatchPlan:
    stopped = _stopped(artifact)
    proof = artifact.evidence.batching if artifact.evidence is not None else None
    if proof is not None and not proof.proved:
        return BatchPlan(max_batch_size=0, reason=f"No batching: {_sentence(proof.reason)}")
    warning = ""
    if proof is None:
        warning = "batching was not proved: the config follows the record, which has no evidence"
    if stopped:
        return BatchPlan(max_batch_size=0, reason=f"No batching: {stopped}.", warning=warning)
    size = min(artifact.max_batch_size or 0, _CONFIG_LIMIT)
    if proof is None:
        return BatchPlan(
            max_batch_size=size,
            reason="WARNING: batching was NOT proved. The record says so and has no evidence: validate it.",
            warning=warning,
        )
    return BatchPlan(max_batch_size=size, reason=f"Batching was proved: {_sentence(proof.reason)}")


def _stopped(artifact: Artifact) -> str:
    """Why Triton cannot batch this record, ``""`` if it can."""
    if not artifact.inputs:
        return "the model has no inputs"
    for spec in artifact.inputs + artifact.outputs:
        if spec.batch_axis is None:
            return f"tensor {spec.name!r} has no batch axis"
        if spec.batch_axis != 0:
            return f"rows of tensor {spec.name!r} lie on axis {spec.batch_axis}, Triton batches axis 0 only"
        if isinstance(spec.shape[0], int):  # R223: the first dim of the model must be -1
            return f"tensor {spec.name!r} has {spec.shape[0]} rows, always"
        if spec.min_batch_size != 1:
            return f"tensor {spec.name!r} needs at least {spec.min_batch_size} rows"
    return ""


def _sentence(text: str) -> str:
    return text.strip().rstrip(".") + "."


def _lower(sentence: str) -> str:
    return (sentence[:1].lower() + sentence[1:]).rstrip(".")
