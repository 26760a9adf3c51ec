"""Which tensors of a sample change with the batch size, in the form that :func:`.rebuild.rebuild` follows."""

from __future__ import annotations

from collections.abc import Sequence

from aitune.torch.module.batch_axes import Entry
from aitune.torch.module.locator import Locator
from aitune.torch.module.rebuild import Axes, Plan
from aitune.torch.module.tensor_spec import TensorSpec

__all__ = ["BatchPlan"]


class BatchPlan:
    """A plan made once and used until what it was made from has changed.

    Args:
        tensor_data: Places and specs of the tensors.
        preferred: The only axis to resize in tensors that have it as a batch axis with multiplier 1; None for all.
    """

    __slots__ = ("_made_from", "_seen", "preferred", "tree")

    def __init__(self, tensor_data: Sequence[tuple[Locator, TensorSpec]], preferred: int | None = None) -> None:
        self._made_from = tensor_data
        self._seen: list[tuple[TensorSpec, list[Entry], list[float]]] = []
        self.preferred = preferred
        self.tree: Plan | Axes = {}
        for locator, spec in tensor_data:
            self._seen.append((spec, spec.shape.copy(), spec._bs_multipliers.copy()))
            axes = self._axes(spec)
            if axes:
                self._add(locator, axes)

    def is_current(self, tensor_data: Sequence[tuple[Locator, TensorSpec]], preferred: int | None = None) -> bool:
        """Whether a plan made now would be the same."""
        if tensor_data is not self._made_from or preferred != self.preferred:
            return False
        for spec, shape, multipliers in self._seen:
            if spec.shape != shape or spec._bs_multipliers != multipliers:
                return False
        return True

    def _axes(self, spec: TensorSpec) -> Axes:
        axes = spec.get_batch_axis_multipliers()
        if self.preferred is not None and axes.get(self.preferred) == 1:
            return ((self.preferred, 1),)
        return tuple(axes.items())

    def _add(self, locator: Locator, axes: Axes) -> None:
        if not locator.access_path:
            self.tree = axes
            return
        node = self.tree
        for accessor in locator.accessors[:-1]:
            node = node.setdefault(accessor, {})  # type: ignore[union-attr]  # inner nodes are dicts
        node[locator.leaf_name] = axes  # type: ignore[index]  # as above
