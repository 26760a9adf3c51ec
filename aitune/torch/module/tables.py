"""Sample metadata as text: a line, or tables."""

from __future__ import annotations

from collections.abc import Sequence

from aitune.torch.module.info_level import InfoLevel, check_level
from aitune.torch.module.locator import Locator
from aitune.torch.module.tensor_spec import TensorSpec

__all__ = ["describe"]

_PLACE = ["Access Path", "Semantic Path"]


def describe(
    tensor_data: Sequence[tuple[Locator, TensorSpec]], other_data: Sequence[tuple[Locator, object]], level: InfoLevel
) -> str:
    """The text of one level of detail.

    Raises:
        UnknownLevelError: If ``level`` is no InfoLevel.
    """
    check_level(level)
    if level is InfoLevel.SHORT:
        return _line(tensor_data, other_data)
    full = level is InfoLevel.FULL
    layout = "fancy_grid" if full else "simple"
    headers = [*_PLACE, "Shape", *(["Min Shape", "Max Shape", "Dtype"] if full else [])]
    text = f"Tensors:\n{_table(headers, [_tensor_row(*pair, full) for pair in tensor_data], layout)}\n"
    if other_data:
        text += f"Other:\n{_table([*_PLACE, 'Value'], [_other_row(*pair) for pair in other_data], layout)}\n"
    return text


def _line(tensor_data: Sequence[tuple[Locator, TensorSpec]], other_data: Sequence[tuple[Locator, object]]) -> str:
    text = "Tensors: " + ", ".join(locator.display_path for locator, _ in tensor_data)
    if other_data:
        text += " Others: " + ", ".join(f"{locator.display_path}={value}" for locator, value in other_data)
    return text


def _tensor_row(locator: Locator, spec: TensorSpec, full: bool) -> list[object]:
    more = [str(spec.min_shape), str(spec.max_shape), str(spec.dtype)] if full else []
    return [locator.display_path, str(locator.path), str(spec.shape), *more]


def _other_row(locator: Locator, value: object) -> list[object]:
    return [locator.display_path, str(locator.path), value]


def _table(headers: list[str], rows: list[list[object]], layout: str) -> str:
    """A table; a last column of nothing but whole numbers is set flush right, and text is never read as a number."""
    from tabulate import tabulate  # here, so that importing the metadata does not need it

    if not rows:
        return ""
    last = len(headers) - 1
    if not all(type(row[last]) is int for row in rows):
        rows = [[*row[:last], str(row[last])] for row in rows]
        return tabulate(rows, headers=headers, tablefmt=layout, disable_numparse=True)
    return tabulate(rows, headers=headers, tablefmt=layout, disable_numparse=list(range(last)))
