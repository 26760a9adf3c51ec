"""Do the recorded requests get the recorded answers, over every protocol?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from aitune.errors import SourceError, UnavailableError
from aitune.numerics import Array, as_float, compare
from aitune.numerics.samples import Request
from aitune.records import DType
from aitune.triton.checks_live.context import BudgetSpent, Context, disagreement, failed, passed, warned
from aitune.triton.client import Tensor
from aitune.triton.client_errors import InferenceRefused
from aitune.triton.subjects import make_request, recorded_requests
from aitune.triton.validation_records import CheckResult

__all__ = ["LABELS", "check_numbers"]

LABELS = ("smallest", "typical", "largest")
_SEED = 71
_LONG_S = 0.4

Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


def check_numbers(context: Context, run: Run | None = None) -> CheckResult:
    """Samples at the smallest, typical and largest shapes equal the recorded outputs, or those of ``run``.

    Without samples and without something that runs the artifact, the answers of the protocols are compared.

    Args:
        context: What to ask.
        run: Runs the artifact itself, for requests that nobody recorded an answer to.
    """
    requests = recorded_requests(context.subject)
    recorded = len(requests)
    if run is not None:
        requests += _references(context, run, [label for label in _labels(context) if label not in _seen(requests)])
    if not requests:
        return _between_protocols(context)
    bad, odd, asked, largest = [], [], [], 0.0
    for at, request in enumerate(requests):
        try:
            problems, strange, difference = _over_protocols(context, request, again=_again(context, at < recorded))
        except BudgetSpent:
            continue
        bad += problems
        odd += strange
        largest = max(largest, difference)
        asked.append(request.label)
    if bad:
        return failed("numbers", bad[0] + (f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""), *bad)
    source = "recorded" if recorded == len(requests) else "recorded and made-up" if recorded else "made-up"
    text = f"{len(asked)} {source} requests ({', '.join(dict.fromkeys(asked))}) over {' and '.join(context.clients)}"
    text += f" agree, largest difference {largest:.2g}"
    return warned("numbers", f"{text}; {odd[0]}", *odd) if odd else passed("numbers", text)


def _labels(context: Context) -> tuple[str, ...]:
    """Where the bounds are a guess, only the typical sizes were seen to be accepted."""
    return ("typical",) if context.subject.source == "config" else LABELS


def _seen(requests: Sequence[Request]) -> set[str]:
    return {request.label for request in requests}


def _references(context: Context, run: Run, labels: Sequence[str]) -> tuple[Request, ...]:
    """Requests with the answers of the artifact; none where it cannot be run here, or refuses what is made up."""
    try:
        return tuple(_reference(context, run, label) for label in labels)
    except SourceError:
        if not context.subject.guesses:
            raise
        return ()
    except UnavailableError:  # e.g. a TensorRT plan on a machine without a GPU: samples and probe have to do
        return ()


def _reference(context: Context, run: Run, label: str) -> Request:
    """One of them; a batch that would take long is asked at the full level only, and one row of it otherwise."""
    rows = None
    if label == "largest" and context.subject.max_batch_size and not context.thorough:
        run(make_request(context.subject, "smallest", seed=_SEED))  # whatever the first run costs
        alone = make_request(context.subject, label, seed=_SEED, rows=1)
        began = time.monotonic()
        run(alone)
        rows = 1 if (time.monotonic() - began) * context.subject.max_batch_size > _LONG_S else None
    inputs = make_request(context.subject, label, seed=_SEED, rows=rows)
    name = f"{label} with one row" if rows else label
    return Request(label=name, origin="synthetic", inputs=inputs, outputs=run(inputs))


def _again(context: Context, recorded: bool) -> bool:
    """Whether the answer is of the same computation: what runs here runs as it is, without what speeds a GPU up."""
    accelerators = context.subject.served.optimization.execution_accelerators
    return recorded or not len(accelerators.gpu_execution_accelerator)


def _over_protocols(context: Context, request: Request, *, again: bool) -> tuple[list[str], list[str], float]:
    """Problems, oddities (NaN and infinities that were recorded, too) and the largest difference."""
    bad, odd, largest = [], [], 0.0
    for protocol, client in context.clients.items():
        where = f"{request.label} over {protocol}"
        try:
            answer = context.ask(request.inputs, client)
        except InferenceRefused as error:
            bad.append(f"{where}: refused: {error}")
            continue
        problem, difference = disagreement(context, answer, request.outputs, again=again)
        nearly = "" if not problem or context.certain else _nearly(context, answer, request, problem)
        largest = max(largest, difference)
        if nearly:
            odd.append(f"{where}: {nearly}")
        elif problem:
            bad.append(f"{where}: {problem}")
        else:
            context.known = context.known or (request.inputs, answer)
            odd += [f"{where}: {line}" for line in _not_finite(answer)]
    return bad, odd, largest


def _nearly(context: Context, answer: Mapping[str, Tensor], request: Request, problem: str) -> str:
    """A difference that a model in fewer bits may have elsewhere, and why; ``""`` when it is too large for that."""
    if disagreement(context, answer, request.outputs, again=False)[0]:
        return ""
    return f"{problem}; {context.subject.precision} may differ so on another processor, or among others' rows"


def _between_protocols(context: Context) -> CheckResult:
    """Without recorded answers: sizes are answered, the protocols agree, and nothing is NaN."""
    bad, odd, answered = [], [], []
    for label in _labels(context):
        inputs = make_request(context.subject, label, seed=_SEED)
        answers: dict[str, dict[str, Tensor]] = {}
        for protocol, client in context.clients.items():
            try:
                answers[protocol] = context.ask(inputs, client)
            except InferenceRefused as error:
                bad.append(f"{label} over {protocol}: refused: {error}")
            except BudgetSpent:
                break
        if answers:
            answered.append(label)
            context.known = context.known or (inputs, next(iter(answers.values())))
            bad += [f"{label}: {line}" for line in _inconsistent(context, list(answers.values()))]
            odd += [f"{label}: {line}" for line in _not_finite(next(iter(answers.values())))]
    if bad and context.subject.guesses:
        # Sizes or values were guessed: a refusal says more about the guess than about the model.
        return warned("numbers", f"made-up requests: {bad[0]}", *bad)
    if bad:
        return failed("numbers", bad[0], *bad)
    text = f"no recorded answers; made-up requests ({', '.join(answered)}) are answered"
    text += " alike over both protocols" if len(context.clients) > 1 else ""
    return warned("numbers", f"{text}; {odd[0]}", *odd) if odd else passed("numbers", text)


def _inconsistent(context: Context, answers: list[dict[str, Tensor]]) -> list[str]:
    lines = []
    for spec in context.subject.outputs:
        found = [answer[spec.name] for answer in answers if spec.name in answer]
        if len(found) != len(answers):
            lines.append(f"output {spec.name!r} is missing")
            continue
        others = [dtype for _, dtype in found if dtype is not spec.dtype]
        lines += [f"output {spec.name!r} is {dtype.value}, not {spec.dtype.value}" for dtype in others]
        first, dtype = found[0]
        for array, _ in found[1:]:
            agreement = compare(array, first, dtype, tolerance=context.tolerance(dtype))
            if not agreement.agrees:
                lines.append(f"output {spec.name!r} differs between protocols: {agreement.detail}")
    return lines


def _not_finite(answer: Mapping[str, Tensor]) -> list[str]:
    lines = []
    for name, (array, dtype) in answer.items():
        if dtype.is_floating and dtype is not DType.STRING:
            count = int(np.count_nonzero(~np.isfinite(as_float(array, dtype))))
            if count:
                lines.append(f"output {name!r} has {count} values that are NaN or infinite")
    return lines
