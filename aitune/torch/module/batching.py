"""Tensors at another batch size: fewer rows, or the same rows again in turn."""

from __future__ import annotations

import torch

from aitune.torch.module.batch_axes import batch_size_of
from aitune.torch.module.errors import MissingAttributeError, MissingIndexError, SampleValueError
from aitune.torch.module.rebuild import Axes, isolated
from aitune.torch.module.tensor_spec import TensorSpec

__all__ = ["batch_tensor", "batch_to_make", "resized_copy", "resized_view"]


def batch_tensor(tensor: torch.Tensor, tensor_spec: TensorSpec, batch_size: int) -> torch.Tensor:
    """A tensor at another batch size.

    Args:
        tensor: A sample.
        tensor_spec: What was learned about it; each batch axis becomes its multiplier times the batch size.
        batch_size: At least 1.

    Returns:
        The very tensor where no size changes, a view of its first rows where only axes shrink, and otherwise a new
        tensor that repeats the rows in turn.

    Raises:
        SampleValueError: If the batch size is below 1, or rows are to be made of none.
        MissingIndexError: If the tensor lacks a batch axis.
    """
    size = batch_to_make(batch_size)
    for axis, multiplier in tensor_spec.get_batch_axis_multipliers().items():
        have, want = _size_at(tensor, axis), multiplier * size
        if want < have:
            tensor = _first(tensor, axis, want)
        elif want > have:
            tensor = _grown(tensor, axis, have, want)
    return tensor


def batch_to_make(batch_size: int) -> int:
    """A batch size that was checked.

    Raises:
        SampleValueError: If it is not a whole number of at least 1.
    """
    size = batch_size_of(batch_size)
    if size != size:
        raise SampleValueError(f"a batch size to make must be known, found {batch_size!r}", hint="give a positive int")
    return int(size)


def resized_copy(batch_size: int, tensor: torch.Tensor, axes: Axes) -> torch.Tensor:
    """A tensor at another batch size that shares no memory with the old one; only rows that are kept are copied."""
    if tensor.requires_grad:
        return resized_copy(batch_size, tensor.detach(), axes).requires_grad_()
    shape, made = tensor.shape, tensor
    for axis, multiplier in axes:
        want = multiplier * batch_size
        try:
            have = shape[axis]
        except IndexError:
            raise _lacks_axis(tensor, axis) from None
        if want < have:
            made = made.narrow_copy(axis, 0, want)
        elif want > have:
            made = _grown(made, axis, have, want)
    return isolated(tensor) if made is tensor else made


def resized_view(batch_size: int, tensor: torch.Tensor, axes: Axes) -> torch.Tensor:
    """A stand-in that has the shape of the resized tensor and takes no memory; its values are of no use."""
    sizes = list(tensor.shape)
    for axis, multiplier in axes:
        if not _size_at(tensor, axis):
            raise _no_rows(axis)
        sizes[axis] = multiplier * batch_size
    if tensor.layout is not torch.strided:
        return torch.empty(sizes, dtype=tensor.dtype, device="meta")
    made = tensor.detach()
    for axis, _ in axes:
        made = made.narrow(axis, 0, 1)
    return made.expand(sizes)


def _first(tensor: torch.Tensor, axis: int, count: int) -> torch.Tensor:
    """The first rows: a view where the layout has views, a copy elsewhere."""
    return tensor.narrow(axis, 0, count) if tensor.layout is torch.strided else tensor.narrow_copy(axis, 0, count)


def _grown(tensor: torch.Tensor, axis: int, have: int, want: int) -> torch.Tensor:
    """A new tensor that repeats the rows of an axis in turn."""
    if not have:
        raise _no_rows(axis)
    whole, rest = divmod(want, have)
    parts = [tensor] * whole
    if rest:
        parts.append(_first(tensor, axis, rest))
    return torch.cat(parts, dim=axis)


def _no_rows(axis: int) -> SampleValueError:
    return SampleValueError(f"rows are to be repeated along axis {axis}, found none", hint="give a sample with a row")


def _size_at(tensor: torch.Tensor, axis: int) -> int:
    if not isinstance(tensor, torch.Tensor):
        raise MissingAttributeError(f"a tensor is to be resized, found {type(tensor).__name__}")
    if axis >= tensor.dim():
        raise _lacks_axis(tensor, axis)
    return tensor.shape[axis]


def _lacks_axis(tensor: torch.Tensor, axis: int) -> MissingIndexError:
    return MissingIndexError(f"batch axis {axis} was learned, found a tensor of shape {list(tensor.shape)}")
