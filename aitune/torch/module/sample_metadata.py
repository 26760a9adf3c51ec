"""What samples of a module's inputs or outputs look like: where the tensors are, and which of their axes move."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self, TypeVar, cast

import torch

from aitune.global_context import BATCH_SIZE_KEY, global_context
from aitune.torch.config import config
from aitune.torch.module.batch_axes import BatchAxisCandidate, batch_size_of, shared_axis
from aitune.torch.module.batching import batch_tensor, batch_to_make, resized_copy, resized_view
from aitune.torch.module.codec import read_metadata, write_metadata
from aitune.torch.module.errors import MissingAttributeError, StructureError
from aitune.torch.module.identity import Identity
from aitune.torch.module.json_values import other_summary, tensor_summary
from aitune.torch.module.locator import Locator
from aitune.torch.module.phase import phase_of_inputs
from aitune.torch.module.plan import BatchPlan
from aitune.torch.module.rebuild import rebuild
from aitune.torch.module.tables import describe
from aitune.torch.module.tensor_spec import InfoLevel, TensorSpec
from aitune.torch.module.tensors import OtherData, TensorData, Tensors, read_call

__all__ = ["InfoLevel", "SampleMetadata", "batch_tensor"]

Inputs = TypeVar("Inputs")


class SampleMetadata:
    """Tensors and other leaves of a module's inputs or outputs, as the samples so far showed them.

    Two metadata are equal when the same places hold tensors of the same rank and the same other values; sizes and
    dtypes do not count, so learning never changes equality or hash. Metadata of calls with a ``cache_position`` are
    told apart by their phase alone.

    Args:
        tensor_data: Place and spec of each tensor.
        other_data: Place and value of each other leaf.
        strict: Whether other leaves were looked at.
        llm_phase: ``"prefill"``, ``"decode"`` or None.

    >>> learned = SampleMetadata.from_inputs({"x": torch.zeros(1, 3)}, batch_size=1)
    >>> learned.update_shapes_seen(SampleMetadata.from_inputs({"x": torch.zeros(2, 3)}, batch_size=2))
    >>> learned.tensor_specs[0].shape
    ['batch0', 3]
    """

    def __init__(
        self, tensor_data: TensorData, other_data: OtherData, strict: bool = False, llm_phase: str | None = None
    ) -> None:
        self._tensors = Tensors.of(tensor_data)
        self._other_data = other_data
        self._strict = strict
        self._llm_phase = llm_phase or None
        self._identity_memo: Identity | None = None
        self._plan_memo: BatchPlan | None = None

    @classmethod
    def from_inputs(cls, inputs: object, strict: bool = False, batch_size: float | None = None) -> Self:
        """The metadata of one call's arguments.

        Args:
            inputs: Arguments by name of the forward parameter; anything a walk takes will do.
            strict: Keep leaves that are no tensors.
            batch_size: Batch size of the sample, NaN where unknown. None or 0: that of the global context, if any.

        Raises:
            SampleValueError: If the batch size is not a positive int.
            CycleError: If a container holds itself.
        """
        phase = phase_of_inputs(inputs) if config.enable_transformers_integration else None
        return cls._of_call(inputs, strict, batch_size, phase, is_output=False)

    @classmethod
    def from_outputs(cls, output: object, strict: bool = False, batch_size: float | None = None) -> Self:
        """The metadata of what one call returned; arguments and errors as in :meth:`from_inputs`."""
        return cls._of_call(output, strict, batch_size, None, is_output=True)

    @classmethod
    def _of_call(
        cls, data: object, strict: bool, batch_size: float | None, phase: str | None, *, is_output: bool
    ) -> Self:
        size = batch_size_of(batch_size or global_context.get(BATCH_SIZE_KEY), zero_is_unknown=True)
        tensors, others = read_call(data, strict, size, is_output)
        made = cls((), others, strict, phase)
        made._tensors = tensors
        return made

    @property
    def tensor_data(self) -> TensorData:
        """Place and spec of each tensor."""
        return self._tensors.pairs

    @property
    def tensor_specs(self) -> list[TensorSpec]:
        """The specs alone; they are the very objects that learn."""
        return self._tensors.specs.copy()

    @property
    def other_data(self) -> OtherData:
        """Place and value of each leaf that is no tensor; empty unless strict."""
        return self._other_data

    @property
    def strict(self) -> bool:
        """Whether leaves that are no tensors were looked at."""
        return self._strict

    @property
    def llm_phase(self) -> str:
        """``"prefill"``, ``"decode"``, or empty."""
        return self._llm_phase or ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SampleMetadata) or type(other) is not type(self):
            return NotImplemented
        if self._llm_phase is not None or other._llm_phase is not None:
            return self._llm_phase == other._llm_phase
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity() if self._llm_phase is None else self._llm_phase)

    def __str__(self) -> str:
        return self.describe(InfoLevel.SHORT)

    def __repr__(self) -> str:
        return self.describe(InfoLevel.FULL)

    def describe(self, level: InfoLevel = InfoLevel.FULL) -> str:
        """One line (SHORT), or tables with few (MEDIUM) or all columns (FULL)."""
        return describe(self.tensor_data, self._other_data, level)

    def detected_dynamic_axis(self) -> bool:
        """Whether some axis of some tensor moves, with the batch or not."""
        return any(spec.has_batch_axis() or spec.has_dynamic_axis() for spec in self._tensors.specs)

    def has_batch_axis(self) -> bool:
        """Whether every tensor has a batch axis; true where there are no tensors."""
        return all(spec.has_batch_axis() for spec in self._tensors.specs)

    def has_some_batch_axis(self) -> bool:
        """Whether at least one tensor has a batch axis: constants and scalars beside it do not count."""
        return any(spec.has_batch_axis() for spec in self._tensors.specs)

    def batch_candidates(self) -> dict[Locator, tuple[BatchAxisCandidate, ...]]:
        """Per tensor the axes that may be its batch axis, with multiplier and evidence."""
        return {locator: spec.batch_candidates() for locator, spec in self.tensor_data}

    def ambiguous_batch_axes(self) -> dict[Locator, tuple[BatchAxisCandidate, ...]]:
        """The candidates of the tensors that have more than one, or one that no second batch size has backed."""
        return {
            locator: found
            for locator, found in self.batch_candidates().items()
            if len(found) > 1 or any(one.evidence < 2 for one in found)
        }

    def shared_batch_axis(self) -> int | None:
        """The axis to take for the batch axis where several are possible: of multiplier 1 in every tensor that moves.

        The lowest such axis; None where the tensors share none.
        """
        return shared_axis(spec.batch_candidates() for spec in self._tensors.specs if spec.has_batch_axis())

    def mixed_dtypes(self) -> dict[Locator, tuple[torch.dtype, ...]]:
        """The dtypes of the tensors that came with more than one."""
        return {
            locator: tuple(sorted(spec.dtypes, key=str))
            for locator, spec in self.tensor_data
            if not spec.has_one_dtype()
        }

    def update_shapes_seen(self, other: SampleMetadata) -> None:
        """Learns everything that other metadata has learned; tensors are matched by place.

        Within one phase the tensors may differ from call to call: those met for the first time are added.

        Raises:
            StructureError: If the tensors differ in place or rank; nothing is learned then.
            MissingAttributeError: If ``other`` is no metadata.
        """
        if not isinstance(other, SampleMetadata):
            raise MissingAttributeError(f"metadata can learn from metadata only, found {type(other).__name__}")
        if self._identity().same_tensors(other._identity()):
            for spec, seen in zip(self._tensors.specs, other._tensors.specs, strict=True):
                spec.update_shapes_seen(seen)
            return
        mine, theirs = dict(self.tensor_data), dict(other.tensor_data)
        grows = self._llm_phase is not None and self._llm_phase == other._llm_phase
        common = mine.keys() & theirs.keys()
        if (mine.keys() != theirs.keys() and not grows) or any(mine[place] != theirs[place] for place in common):
            raise StructureError(
                f"samples to learn together must have tensors of one rank at the same places, found\n"
                f"{self.describe()}and\n{other.describe()}"
            )
        for place in common:
            mine[place].update_shapes_seen(theirs[place])
        if len(common) < len(theirs):
            self._tensors = self._tensors.and_more({place: spec for place, spec in theirs.items() if place not in mine})
            self._identity_memo = None

    def update_max_batch_size(self, inputs: object, max_batch_size: int) -> None:
        """Learns that the module takes these inputs at another batch size.

        Nothing is learned where no tensor has a batch axis, and no data is copied. The batch size is no evidence for
        what is a batch axis, since the sizes were made from that very assumption.

        Raises:
            SampleValueError: If the batch size is below 1.
        """
        size = batch_to_make(max_batch_size)
        if not self.has_some_batch_axis():
            return
        tree = self._plan(None).tree
        made = rebuild(inputs, tree, partial(resized_view, size))
        grown = SampleMetadata.from_inputs(made, strict=True, batch_size=size)
        for spec in grown._tensors.specs:
            spec.drop_evidence()
        self.update_shapes_seen(grown)

    def make_batch(self, inputs: Inputs, batch_size: int, *, shared_axis_only: bool = False) -> Inputs:
        """A copy of inputs at another batch size that shares nothing with them.

        Args:
            inputs: Built like the samples that were learned.
            batch_size: At least 1.
            shared_axis_only: Where several axes may be the batch axis, resize only :meth:`shared_batch_axis`.

        Raises:
            SampleValueError: If the batch size is below 1, or rows are to be made of none.
            MissingKeyError: If a learned key is not there.
            MissingIndexError: If a learned index or axis is not there.
            MissingAttributeError: If something that is no tensor is there.
        """
        size = batch_to_make(batch_size)
        tree = self._plan(self.shared_batch_axis() if shared_axis_only else None).tree
        made = rebuild(inputs, tree, partial(resized_copy, size))
        return cast("Inputs", made)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data that JSON can hold; :meth:`from_dict` is the exact inverse."""
        return write_metadata(self.tensor_data, self._other_data, self._strict, self._llm_phase)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """The metadata that :meth:`to_dict` described.

        Raises:
            MissingFieldError: If a field is missing.
            RecordError: If the data is of another kind or a newer version; pickled data of old is never read.
        """
        return cls(*read_metadata(state))

    def to_json_dict(self) -> dict[str, Any]:
        """A summary for reports; nothing reads it back."""
        return {
            "tensor_data": [tensor_summary(*pair) for pair in self.tensor_data],
            "other_data": [other_summary(*pair) for pair in self._other_data],
            "strict": self._strict,
            "llm_phase": self._llm_phase,
        }

    def _identity(self) -> Identity:
        if self._identity_memo is None:
            self._identity_memo = Identity(self._tensors, self._other_data)
        return self._identity_memo

    def _plan(self, preferred: int | None) -> BatchPlan:
        plan = self._plan_memo
        if plan is None or not plan.is_current(self._tensors.pairs, preferred):
            plan = self._plan_memo = BatchPlan(self._tensors.pairs, preferred)
        return plan
