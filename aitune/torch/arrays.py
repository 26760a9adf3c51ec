"""Tensors of torch and arrays of a contract, there and back."""

from __future__ import annotations

import torch

from aitune.errors import SourceError
from aitune.numerics.dtypes import Array
from aitune.records import DType

__all__ = ["dtype_of", "to_array", "to_tensor"]

_DTYPES = {getattr(torch, dtype.value): dtype for dtype in DType if dtype is not DType.STRING}


def dtype_of(tensor: torch.Tensor, what: str) -> DType:
    """The element type of a contract.

    Args:
        tensor: Any tensor.
        what: How to call it in the message, e.g. ``"input 'x'"``.

    Raises:
        SourceError: If no contract can hold it.
    """
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        kind = "nested" if tensor.is_nested else "quantised" if tensor.is_quantized else "sparse"
        raise SourceError(f"{what} is a {kind} tensor, which cannot be served", hint="make it a dense tensor")
    if tensor.dtype not in _DTYPES:
        advice = (
            "split it into real and imaginary parts inside forward" if tensor.is_complex() else "cast it in forward"
        )
        raise SourceError(f"{what} is {str(tensor.dtype).removeprefix('torch.')}, which cannot be served", hint=advice)
    return _DTYPES[tensor.dtype]


def to_array(tensor: torch.Tensor) -> Array:
    """The values on the CPU; BFLOAT16 as its raw bits in ``uint16``."""
    plain = tensor.detach().cpu().contiguous()
    if plain.dtype is torch.bfloat16:
        return plain.view(torch.uint16).numpy()
    return plain.numpy()


def to_tensor(array: Array, dtype: DType, device: torch.device) -> torch.Tensor:
    """A tensor with the values of an array, which it does not share."""
    tensor = torch.from_numpy(array.copy())
    if dtype is DType.BFLOAT16:
        tensor = tensor.view(torch.bfloat16)
    return tensor.to(device)
