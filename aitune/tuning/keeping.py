"""What of a model's answers is kept, so that they can be asked for again: the golden probe and the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aitune.errors import AituneError
from aitune.numerics import Array, Request, check_probe, compare, make_probe, probe_request
from aitune.records.evidence import InputDomain, Probe
from aitune.tuning.contract import Contract, Observation, run_checked
from aitune.tuning.runner import Runner
from aitune.tuning.settle import Settled

__all__ = ["KEEP_SAMPLES", "keep"]

KEEP_SAMPLES = ("none", "synthetic", "recorded")
_MAX_RECORDED = 16
"""So many recorded samples are run and kept at most."""

Tensors = Mapping[str, Array]


def keep(
    found: Settled,
    contract: Contract,
    domains: Sequence[InputDomain],
    samples: Sequence[Tensors],
    keep_samples: str,
) -> tuple[Probe | None, list[Request], tuple[str, ...]]:
    """The golden probe, the requests that may go into the sample file, and notes on what there is not.

    A model that refuses what is made up has no probe, which is made again from a seed; recorded requests stand for it,
    where they may be kept. One that answers the same request differently has neither: nothing could be compared.

    Args:
        found: The open winner with what it was seen to answer.
        contract: Contracts of inputs and outputs.
        domains: Typical shape and range of values of each input.
        samples: Recorded requests, of which at most 16 are kept.
        keep_samples: One of :data:`KEEP_SAMPLES`.

    Raises:
        SourceError: If the model does not run on a recorded sample.
    """
    runner, requests = found.runner, _requests(found, contract, samples, keep_samples)
    try:
        probe = make_probe(runner.run, contract.inputs, contract.outputs, domains)
        again = check_probe(probe, runner.run(probe_request(probe, contract.inputs)), contract.outputs)
    except AituneError as error:
        problem = f"the model does not run on a made-up request: {error}"
        if not requests:
            advice = "" if found.made_up else "; --keep-samples recorded keeps the samples to compare with"
            return None, [], (f"no golden probe and no samples: {problem}{advice}",)
        differs = _differs(runner, requests[0], contract)
        if differs:
            return None, [], (f"no golden probe and no samples: two equal runs differ: {differs}",)
        return None, requests, (f"no golden probe, the samples stand for it: {problem}",)
    if not again.agrees:
        return None, [], (f"no golden probe and no samples: two equal runs differ: {again.detail}",)
    return probe, requests, ()


def _differs(runner: Runner, request: Request, contract: Contract) -> str:
    """How the answer to a request differs when it is sent again, ``""`` for not at all."""
    try:
        answer = runner.run(request.inputs)
    except AituneError as error:
        return f"the second is refused: {error}"
    for spec in contract.outputs:
        found = compare(answer[spec.name], request.outputs[spec.name], spec.dtype)
        if not found.agrees:
            return f"output {spec.name!r}: {found.detail}"
    return ""


def _requests(found: Settled, contract: Contract, samples: Sequence[Tensors], keep_samples: str) -> list[Request]:
    """What may go into the sample file; recorded ones, where they are wanted, before made-up ones.

    Where nothing is made up, all values are the user's, and kept only where that is wanted.
    """
    if keep_samples == "none" or (keep_samples == "synthetic" and not found.made_up):
        return []
    origin = "synthetic" if found.made_up else "recorded"
    made = [
        Request(label=item.label, origin=origin, inputs=item.inputs, outputs=item.outputs)
        for item in found.observations
    ]
    if keep_samples == "synthetic":
        return made
    fitting = [sample for sample in samples if _within(sample, contract)][:_MAX_RECORDED]
    recorded = []
    for index, sample in enumerate(fitting):
        sent = {
            spec.name: np.ascontiguousarray(sample[spec.name]).reshape(sample[spec.name].shape)
            for spec in contract.inputs
        }
        answer = run_checked(found.runner, sent, contract.outputs, f"on sample {index}")
        label = _label(sent, found.observations)
        recorded.append(Request(label=label, origin="recorded", inputs=sent, outputs=answer))
    return recorded + made


def _within(sample: Tensors, contract: Contract) -> bool:
    """Whether a recorded sample lies within the bounds, which the user may have made narrower."""
    return all(
        len(spec.shape) == sample[spec.name].ndim
        and all(
            low <= size <= high
            for low, size, high in zip(spec.min_shape, sample[spec.name].shape, spec.max_shape, strict=True)
        )
        for spec in contract.inputs
    )


def _label(sent: Tensors, observations: Sequence[Observation]) -> str:
    shapes = {name: array.shape for name, array in sent.items()}
    same = (item.label for item in observations if {name: array.shape for name, array in item.inputs.items()} == shapes)
    return next(same, "typical")
