"""Optimisation profiles from the contract: which shapes a plan accepts, and at which it is fastest.

>>> from aitune.records import DType, TunedTensorSpec
>>> from aitune.records.evidence import InputDomain
>>> ids = TunedTensorSpec("ids", DType.INT64, ("batch", "sequence"), (1, 8), (8, 512), 0)
>>> (profile,) = profiles_of([ids], [InputDomain(name="ids", typical_shape=(1, 64))])
>>> profile.inputs[0].min, profile.inputs[0].opt, profile.inputs[0].max
((1, 8), (8, 64), (8, 512))
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from aitune.errors import UsageError
from aitune.records.evidence import InputDomain
from aitune.records.plans import Profile, ProfileRange
from aitune.records.shapes import TunedTensorSpec

__all__ = ["profiles_of", "split_profile"]


def profiles_of(
    inputs: Sequence[TunedTensorSpec],
    domains: Sequence[InputDomain] = (),
    *,
    splits: Mapping[str, Sequence[int]] | None = None,
    shape_tensors: Collection[str] = (),
) -> tuple[Profile, ...]:
    """The profiles that serve a contract.

    Smallest and largest shapes are the contract's. A plan is made fastest at the typical shape, and, where rows are
    batched, at the largest batch: that is what a server that batches sends when speed matters.

    Args:
        inputs: Contracts of the inputs.
        domains: What is known of valid values; the largest shape is taken for the typical one where nothing is.
        splits: Upper bounds by symbol; each makes a profile of its own.
        shape_tensors: Inputs whose values decide shapes; for them the range is one of values.

    Raises:
        UsageError: If a split names no symbol of an input, or a bound outside its range.
    """
    known = {domain.name: domain for domain in domains}
    profile = Profile(inputs=tuple(_range(spec, known.get(spec.name), spec.name in shape_tensors) for spec in inputs))
    found: tuple[Profile, ...] = (profile,)
    for symbol, bounds in (splits or {}).items():
        found = tuple(part for one in found for part in split_profile(one, inputs, symbol, bounds))
    return found


def split_profile(
    profile: Profile, inputs: Sequence[TunedTensorSpec], symbol: str, bounds: Sequence[int]
) -> tuple[Profile, ...]:
    """One profile for each part of the range of a symbol; the parts touch and do not overlap.

    Args:
        profile: The whole range.
        inputs: Contracts of the inputs.
        symbol: Symbol of the axes to split, e.g. ``"sequence"``.
        bounds: Largest size of each part but the last.

    Raises:
        UsageError: If no input has the symbol, or the bounds are not ascending within its range.
    """
    axes = {(spec.name, axis) for spec in inputs for axis, dim in enumerate(spec.shape) if dim == symbol}
    if not axes:
        raise UsageError(f"no input has an axis {symbol!r} to split")
    ranges = {item.name: item for item in profile.inputs}
    name, axis = min(axes)
    low, high = ranges[name].min[axis], ranges[name].max[axis]
    if sorted(set(bounds)) != list(bounds) or any(not low <= bound < high for bound in bounds):
        raise UsageError(
            f"bounds of {symbol!r} must ascend from {low} to below {high}, got {', '.join(map(str, bounds))}"
        )
    edges = [low, *(bound + 1 for bound in bounds)]
    tops = [*bounds, high]
    return tuple(_part(profile, axes, edge, top) for edge, top in zip(edges, tops, strict=True))


def _part(profile: Profile, axes: Collection[tuple[str, int]], low: int, high: int) -> Profile:
    ranges = {item.name: item for item in profile.inputs}
    for name, axis in axes:
        ranges[name] = _narrow(ranges[name], axis, low, high)
    return Profile(inputs=tuple(ranges.values()))


def _narrow(item: ProfileRange, axis: int, low: int, high: int) -> ProfileRange:
    typical = min(max(item.opt[axis], low), high)
    return ProfileRange(
        name=item.name,
        min=_with(item.min, axis, low),
        opt=_with(item.opt, axis, typical),
        max=_with(item.max, axis, high),
        values=item.values,
    )


def _with(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _range(spec: TunedTensorSpec, domain: InputDomain | None, is_shape: bool) -> ProfileRange:
    if is_shape:
        return _values(spec, domain)
    typical = domain.typical_shape if domain is not None else spec.max_shape
    if spec.batch_axis is not None:
        typical = _with(typical, spec.batch_axis, spec.max_shape[spec.batch_axis])
    return ProfileRange(name=spec.name, min=spec.min_shape, opt=_clip(typical, spec), max=spec.max_shape)


def _values(spec: TunedTensorSpec, domain: InputDomain | None) -> ProfileRange:
    """Values of a shape tensor: what the domain allows, for each of its elements."""
    if domain is None:
        raise UsageError(
            f"input {spec.name!r} decides shapes, and nobody knows which values it takes",
            hint="build from samples, so that its values are known",
        )
    count = spec.max_shape[0] if spec.max_shape else 1
    low, high = int(domain.low), int(domain.high)
    return ProfileRange(
        name=spec.name, min=(low,) * count, opt=((low + high + 1) // 2,) * count, max=(high,) * count, values=True
    )


def _clip(shape: Sequence[int], spec: TunedTensorSpec) -> tuple[int, ...]:
    return tuple(
        min(max(size, low), high) for size, low, high in zip(shape, spec.min_shape, spec.max_shape, strict=True)
    )
