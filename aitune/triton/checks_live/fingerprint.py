"""Which weights answer? What the config claims, and what the golden probe proves, are two different things."""

from __future__ import annotations

from collections.abc import Iterator

from aitune.errors import RecordError, UsageError
from aitune.numerics import check_probe, probe_request
from aitune.triton.checks_live.context import Context, failed, passed, skipped, warned
from aitune.triton.client_errors import InferenceRefused
from aitune.triton.contract import Contract, contract_of, contracts_in
from aitune.triton.validation_records import CheckResult

__all__ = ["check_fingerprint"]


def check_fingerprint(context: Context) -> CheckResult:
    """The golden probe of the claimed version gets the recorded answer; otherwise, whose answer was it?"""
    contract = _claim(context)
    if contract is None:
        return skipped("fingerprint", "nothing is claimed: the model was not published by aitune")
    claimed = contract.identity[:12]
    if contract.probe is None:
        return skipped("fingerprint", f"claimed {claimed}; not proved, the record has no golden probe")
    reason = _refutes(context, contract)
    if not reason:
        context.proved = contract.identity
        return passed("fingerprint", f"claimed {claimed}, proved {claimed}")
    for version, other in _others(context, contract):
        if not _refutes(context, other):
            context.proved = other.identity
            return failed(
                "fingerprint",
                f"claimed {claimed}, but version {version} ({other.identity[:12]}) answers",
                "was a model file replaced under a version number that was already loaded?",
            )
    if not context.certain and contract.precision != "fp32" and not _refutes(context, contract, contract.precision):
        return warned(
            "fingerprint",
            f"claimed {claimed}, not proved: the probe is answered nearly as recorded, {reason}",
            f"{contract.precision} may differ so on another processor, or in a batch with others' rows",
        )
    return failed("fingerprint", f"claimed {claimed}, but other weights answer: {reason}")


def _claim(context: Context) -> Contract | None:
    """What the config claims; where it claims nothing, what the repository does."""
    subject = context.subject
    if subject.claimed is not None:
        return subject.claimed
    return contract_of(subject.artifact) if subject.artifact is not None else None


def _refutes(context: Context, contract: Contract, precision: str = "fp32") -> str:
    """Why the answer to the probe of a contract is not the recorded one, ``""`` when it is.

    A proof takes the table of tolerances, whatever the model computes in: other weights may well be within 20 percent.
    """
    if contract.probe is None:
        return "no probe"
    try:
        answer = context.ask(probe_request(contract.probe, contract.inputs))
    except (InferenceRefused, UsageError) as error:
        return f"the probe was refused: {error}"
    arrays = {name: array for name, (array, _) in answer.items()}
    types = {name: dtype for name, (_, dtype) in answer.items()}
    for spec in contract.outputs:
        if types.get(spec.name, spec.dtype) is not spec.dtype:
            return f"output {spec.name!r} is {types[spec.name].value}, recorded {spec.dtype.value}"
    found = check_probe(contract.probe, arrays, contract.outputs, slack=context.slack, precision=precision)
    return "" if found.agrees else found.detail


def _others(context: Context, contract: Contract) -> Iterator[tuple[str, Contract]]:
    """Other versions of the model that could be answering, newest first."""
    subject = context.subject
    known: dict[str, Contract] = {}
    try:
        known.update({str(version): found for version, found in contracts_in(subject.served).items()})
    except RecordError:
        known.clear()
    if subject.published is not None:
        known.update({version: contract_of(artifact) for version, artifact in subject.published.siblings.items()})
    for version in sorted(known, key=int, reverse=True):
        if known[version].identity != contract.identity and known[version].probe is not None:
            yield version, known[version]
