"""Requests that should be refused: each must get a clear error, and the server must go on as if nothing had been."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aitune.errors import UsageError
from aitune.numerics import Array, synthetic, to_wire
from aitune.records import DType, TunedTensorSpec
from aitune.triton.checks_live.context import Context, disagreement, failed, passed, skipped, warned
from aitune.triton.client_errors import InferenceRefused, ServerTimeout, ServerUnreachable
from aitune.triton.client_records import WireTensor
from aitune.triton.datatypes import wire_type
from aitune.triton.subjects import Subject, make_request, to_client
from aitune.triton.validation_records import CheckResult

__all__ = ["check_bounds", "check_refusals"]

_SEED = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bad:
    """A request that should be refused.

    Attributes:
        what: What is wrong with it.
        tensors: The request as it travels.
    """

    what: str
    tensors: tuple[WireTensor, ...]


def check_refusals(context: Context) -> CheckResult:
    """Malformed requests are refused, and the server is still well afterwards."""
    if not context.own:
        return skipped("refusals", "bad requests are only sent to a server of our own")
    subject = context.subject
    good = make_request(subject, "typical", seed=_SEED)
    try:
        before = context.ask(good)
    except InferenceRefused as error:
        return skipped("refusals", f"no valid request is known to compare with: {error}")
    accepted, refused = [], 0
    for bad in _malformed(subject, good):
        if _accepts(context, bad):
            accepted.append(f"{bad.what} was accepted")
        else:
            refused += 1
    illness = _illness(context, good, {name: array for name, (array, _) in before.items()})
    if illness:
        return failed("refusals", illness)
    if accepted:
        return failed("refusals", accepted[0], *accepted)
    return passed("refusals", f"{refused} malformed requests were refused, and the server is well")


def check_bounds(context: Context) -> CheckResult:
    """Sizes just outside the tuned bounds are refused, or reported where Triton cannot refuse them."""
    if not context.own:
        return skipped("bounds", "requests beyond the bounds are only sent to a server of our own")
    subject = context.subject
    if subject.source == "config":
        return skipped("bounds", "no tuned bounds are known for a model that aitune did not publish")
    good = make_request(subject, "typical", seed=_SEED)
    before = context.ask(good)
    accepted, refused = [], 0
    for bad in _beyond(subject):
        if _accepts(context, bad):
            accepted.append(f"{bad.what}: accepted beyond the tuned range")
        else:
            refused += 1
    illness = _illness(context, good, {name: array for name, (array, _) in before.items()})
    if illness:
        return failed("bounds", illness)
    if not accepted:
        return passed("bounds", f"{refused} sizes beyond the tuned range were refused" if refused else "no free sizes")
    say = failed if context.strict_bounds else warned
    return say("bounds", accepted[0] + (f" (and {len(accepted) - 1} more)" if len(accepted) > 1 else ""), *accepted)


def _accepts(context: Context, bad: _Bad) -> bool:
    context.count()
    try:
        context.client.infer_wire(context.subject.model, context.subject.version, bad.tensors)
    except InferenceRefused:
        return False
    return True


def _illness(context: Context, good: Mapping[str, Array], expected: Mapping[str, Array]) -> str:
    """What is wrong with the server after all that, ``""`` for nothing."""
    try:
        problem, _ = disagreement(context, context.ask(good), expected)
    except (InferenceRefused, ServerUnreachable, ServerTimeout) as error:
        return f"after bad requests the server does not answer a valid one: {error}"
    return f"after bad requests a valid one is answered differently: {problem}" if problem else ""


def _malformed(subject: Subject, good: Mapping[str, Array]) -> Iterator[_Bad]:
    tensors = _wire(subject, good)
    stranger = WireTensor(name="aitune_no_such_input", datatype="FP32", shape=(1, 1), data=bytes(4))
    yield _Bad(what="an input the model does not have", tensors=(*tensors, stranger))
    if not tensors:
        return
    first, rest = tensors[0], tensors[1:]
    yield _Bad(what="a request without its inputs" if not rest else f"a request without {first.name!r}", tensors=rest)
    yield _Bad(what=f"{first.name!r} of another type", tensors=(_other_type(first), *rest))
    longer = dataclasses.replace(first, shape=(*first.shape, 1))
    yield _Bad(what=f"{first.name!r} with an axis too many", tensors=(longer, *rest))
    for name, view in subject.input_views.items():
        for axis, size in enumerate(view.client_dims):
            if size > 0:
                what = f"{name!r} with {size + 1} instead of {size} on axis {axis}"
                yield _Bad(what=what, tensors=_stretched(subject, good, name, axis))
                break
    if subject.max_batch_size:
        rows = subject.max_batch_size + 1
        too_many = _resized(subject, good, dict.fromkeys(subject.input_views, rows), axis=0)
        yield _Bad(what=f"a batch of {rows} where {subject.max_batch_size} is the most", tensors=too_many)
        if all(-1 not in view.dims for view in subject.input_views.values()):  # else Triton takes it for a free size
            yield _Bad(
                what="a batch of 0", tensors=_resized(subject, good, dict.fromkeys(subject.input_views, 0), axis=0)
            )


def _beyond(subject: Subject) -> Iterator[_Bad]:
    """One below and one above the tuned range of every free size, at the typical sizes otherwise."""
    seen: set[str] = set()
    for spec in subject.inputs:
        for axis, dim in enumerate(spec.shape):
            if isinstance(dim, int) or axis == spec.batch_axis or dim in seen:
                continue
            if dim is not None:
                seen.add(dim)
            low, high = spec.min_shape[axis], spec.max_shape[axis]
            for size in (low - 1, high + 1):
                if size >= 1:
                    what = f"{_where(spec, axis)} of {size} where {low}..{high} was tuned"
                    yield _Bad(what=what, tensors=_with_size(subject, spec, axis, size))


def _where(spec: TunedTensorSpec, axis: int) -> str:
    dim = spec.shape[axis]
    return f"{dim} {spec.name!r}" if isinstance(dim, str) else f"axis {axis} of {spec.name!r}"


def _with_size(subject: Subject, spec: TunedTensorSpec, axis: int, size: int) -> tuple[WireTensor, ...]:
    """A request with one free size changed, in every input that shares its symbol."""
    dim = spec.shape[axis]
    domains = []
    for other, domain in zip(subject.inputs, subject.domains, strict=True):
        shape = [
            size if (other is spec and index == axis) or (isinstance(dim, str) and word == dim) else old
            for index, (word, old) in enumerate(zip(other.shape, domain.typical_shape, strict=True))
        ]
        domains.append(dataclasses.replace(domain, typical_shape=tuple(shape)))
    return _wire(subject, make_request(dataclasses.replace(subject, domains=tuple(domains)), "typical", seed=_SEED))


def _wire(subject: Subject, arrays: Mapping[str, Array]) -> tuple[WireTensor, ...]:
    return tuple(
        WireTensor(name=name, datatype=wire_type(dtype), shape=array.shape, data=to_wire(array, dtype))
        for name, (array, dtype) in to_client(subject, arrays).items()
    )


def _resized(
    subject: Subject, good: Mapping[str, Array], sizes: Mapping[str, int], *, axis: int
) -> tuple[WireTensor, ...]:
    """The request with other sizes on one axis as clients see it, whether the config allows them or not."""
    found = []
    for (name, (array, dtype)), spec, domain in zip(
        to_client(subject, good).items(), subject.inputs, subject.domains, strict=True
    ):
        shape = list(array.shape)
        if name in sizes:
            shape[axis] = sizes[name]
        values = synthetic(spec, (math.prod(shape),), domain, _SEED).reshape(shape)
        found.append(WireTensor(name=name, datatype=wire_type(dtype), shape=tuple(shape), data=to_wire(values, dtype)))
    return tuple(found)


def _stretched(subject: Subject, good: Mapping[str, Array], name: str, axis: int) -> tuple[WireTensor, ...]:
    size = to_client(subject, good)[name][0].shape[axis]
    return _resized(subject, good, {name: size + 1}, axis=axis)


def _other_type(tensor: WireTensor) -> WireTensor:
    """The same values under another type; the sizes fit, only the word is wrong."""
    other = DType.INT32 if tensor.datatype != "INT32" else DType.FLOAT32
    width = other.itemsize
    if width is None:
        raise UsageError("a type with a size is needed")
    return dataclasses.replace(tensor, datatype=wire_type(other), data=bytes(math.prod(tensor.shape) * width))
