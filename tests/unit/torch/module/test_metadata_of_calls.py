"""What metadata says about a call, and how the samples of many calls come together."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from aitune.global_context import BATCH_SIZE_KEY, global_context
from aitune.torch.config import config
from aitune.torch.module.sample_metadata import InfoLevel, SampleMetadata


def meta(inputs: object, batch: int | None = None) -> SampleMetadata:
    """The metadata of one call."""
    return SampleMetadata.from_inputs(inputs, batch_size=batch)


def learned(*samples: tuple[object, int | None]) -> SampleMetadata:
    """Metadata that saw inputs, each with a batch size."""
    first, *rest = [meta(inputs, batch) for inputs, batch in samples]
    for other in rest:
        first.update_shapes_seen(other)
    return first


def position(*numbers: int) -> torch.Tensor:
    """A cache position."""
    return torch.tensor(numbers)


def test_a_scalar_beside_a_batch_hides_no_batch_axis() -> None:
    """Some tensor has a batch axis, not every one; with no tensors there is none."""
    mixed = learned(
        ({"x": torch.zeros(1, 8), "s": torch.zeros(())}, 1), ({"x": torch.zeros(2, 8), "s": torch.zeros(())}, 2)
    )
    assert (mixed.has_batch_axis(), mixed.has_some_batch_axis()) == (False, True)
    assert not meta({"n": 1}).has_some_batch_axis()


def test_an_ambiguous_batch_axis_can_be_asked_for() -> None:
    """An axis that grew in step with the batch is told, with multiplier and evidence, and the shared axis is named."""
    both = learned(
        ({"x": torch.zeros(1, 8), "y": torch.zeros(3, 1), "k": torch.zeros(3)}, 1),
        ({"x": torch.zeros(2, 16), "y": torch.zeros(3, 2), "k": torch.zeros(3)}, 2),
    )
    found = {
        str(place): [(c.axis, c.multiplier, c.evidence) for c in ones]
        for place, ones in both.batch_candidates().items()
    }
    assert found == {"x": [(0, 1, 2), (1, 8, 2)], "y": [(1, 1, 2)], "k": []}
    assert [str(place) for place in both.ambiguous_batch_axes()] == ["x"]
    assert both.shared_batch_axis() is None
    alike = learned(
        ({"x": torch.zeros(1, 8), "y": torch.zeros(1)}, 1), ({"x": torch.zeros(2, 16), "y": torch.zeros(2)}, 2)
    )
    assert alike.shared_batch_axis() == 0


def test_one_batch_size_is_no_evidence() -> None:
    """With one sample every candidate is ambiguous, and no axis is shared yet."""
    one = meta({"x": torch.zeros(2, 4)}, 2)
    assert [str(place) for place in one.ambiguous_batch_axes()] == ["x"]
    assert one.shared_batch_axis() is None


def test_mixed_dtypes_can_be_asked_for() -> None:
    """A tensor that came as float and as int is named with both."""
    mixed = learned(
        ({"x": torch.zeros(1), "y": torch.zeros(1)}, 1), ({"x": torch.zeros(2).long(), "y": torch.zeros(2)}, 2)
    )
    assert {str(place): dtypes for place, dtypes in mixed.mixed_dtypes().items()} == {"x": (torch.float32, torch.int64)}


def test_a_refused_sample_teaches_nothing() -> None:
    """Another place or another rank is refused with both descriptions in full, and no tensor has learned."""
    first = meta({"x": torch.zeros(1), "y": torch.zeros(1)}, 1)
    for other in (meta({"x": torch.zeros(2)}), meta({"x": torch.zeros(2), "y": torch.zeros(2, 2)})):
        with pytest.raises(ValueError, match="one rank at the same places") as caught:
            first.update_shapes_seen(other)
        assert first.describe(InfoLevel.FULL) in str(caught.value)
        assert other.describe(InfoLevel.FULL) in str(caught.value)
    assert first.tensor_specs[0].max_shape == [1]


def test_a_phase_grows_with_the_tensors_it_meets() -> None:
    """Within a phase, common tensors learn, new ones are added, and the other metadata keeps its own specs."""
    first = meta({"x": torch.zeros(1), "cache_position": position(5)}, 1)
    second = meta({"y": torch.zeros(1), "x": torch.zeros(2), "cache_position": position(6)}, 2)
    first.update_shapes_seen(second)
    assert {str(place): spec.shape for place, spec in first.tensor_data} == {
        "x": ["batch0"],
        "cache_position": [1],
        "y": [1],
    }
    first.update_shapes_seen(meta({"y": torch.zeros(3), "cache_position": position(6)}, 3))
    assert second.tensor_specs[0].max_shape == [1]
    assert first == second


def test_a_phase_does_not_make_one_tensor_of_two_ranks() -> None:
    """Equal phases and another rank at one place: refused."""
    first = meta({"x": torch.zeros(1), "cache_position": position(5)})
    with pytest.raises(ValueError, match="one rank"):
        first.update_shapes_seen(meta({"x": torch.zeros(1, 1), "cache_position": position(6)}))


def test_different_phases_do_not_grow_together() -> None:
    """Prefill learns from decode only where the tensors are the same."""
    prefill = meta({"x": torch.zeros(1), "cache_position": position(0)})
    prefill.update_shapes_seen(meta({"x": torch.zeros(2), "cache_position": position(7)}))
    with pytest.raises(ValueError, match="same places"):
        prefill.update_shapes_seen(meta({"z": torch.zeros(2), "cache_position": position(7)}))


@pytest.mark.parametrize(
    ("given_position", "phase"),
    [
        (torch.zeros(2, 2).to_sparse(), ""),
        (torch.nested.nested_tensor([torch.zeros(1)], layout=torch.jagged), ""),
        (torch.tensor([[0, 1]]), "prefill"),
        (torch.tensor(3.5), "decode"),
        ({"a": torch.tensor([0]), "b": 1}, ""),
        ([], ""),
    ],
)
def test_any_cache_position_tells_a_phase_or_none(given_position: Any, phase: str) -> None:
    """No shape, layout or type of position is an error."""
    assert meta({"cache_position": given_position}).llm_phase == phase


def test_the_phase_of_fake_tensors_is_not_asked_for() -> None:
    """A tensor without data has no first element."""
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        assert meta({"cache_position": torch.zeros(1)}).llm_phase == ""


def test_phases_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the integration a cache position is a tensor like any other."""
    monkeypatch.setattr(config, "enable_transformers_integration", False)
    assert meta({"cache_position": position(0)}).llm_phase == ""


def test_the_batch_size_of_the_context_is_that_of_the_thread() -> None:
    """Another thread that set nothing knows no batch size, whatever is set here."""
    seen: list[frozenset[int]] = []

    def other_thread() -> None:
        seen.append(meta({"x": torch.zeros(8)}).tensor_specs[0].batch_sizes)

    with global_context.scope({BATCH_SIZE_KEY: 4}):
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
        seen.append(meta({"x": torch.zeros(8)}).tensor_specs[0].batch_sizes)
        seen.append(meta({"x": torch.zeros(8)}, 2).tensor_specs[0].batch_sizes)
    assert seen == [frozenset(), {4}, {2}]


def test_a_batch_size_that_makes_no_sense_is_refused_in_the_context_too() -> None:
    """A negative batch size is an error wherever it comes from; zero is no batch size."""
    with global_context.scope({BATCH_SIZE_KEY: -4}), pytest.raises(ValueError, match="at least 1"):
        meta({"x": torch.zeros(8)})
    with global_context.scope({BATCH_SIZE_KEY: 0}):
        assert meta({"x": torch.zeros(8)}).tensor_specs[0].batch_sizes == frozenset()


def test_learning_needs_metadata() -> None:
    """Anything else is an AttributeError that says what it was."""
    with pytest.raises(AttributeError, match="found NoneType"):
        meta({"x": torch.zeros(1)}).update_shapes_seen(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [5, torch.zeros(1), {"x": 1}])
def test_whatever_a_module_is_called_with_has_metadata(data: object) -> None:
    """A lone leaf has the empty path."""
    assert len(SampleMetadata.from_inputs(data, strict=True).other_data + meta(data).tensor_data) == 1


def test_text_in_a_table_stays_text() -> None:
    """Neither keys nor values that look like numbers are turned into numbers, and numbers keep their digits."""
    data = {"a": "1e5", 7: "007", "c": 1.10, "d": None, "e": 12345678901234567890}
    text = SampleMetadata.from_inputs(data, strict=True).describe(InfoLevel.FULL)
    for shown in ("1e5", "007", "1.1 ", "None", "12345678901234567890"):
        assert f" {shown}" in text
