"""Metadata as plain data: everything comes back, nothing is executed, and bad data is refused."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import pathlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aitune.errors import RecordError
from aitune.torch.module.json_values import json_value
from aitune.torch.module.leaf_values import Placeholder
from aitune.torch.module.locator import Locator, ObjectType
from aitune.torch.module.sample_metadata import SampleMetadata

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.binary(max_size=3),
    st.complex_numbers(allow_nan=False), st.sampled_from([torch.float16, torch.strided, torch.channels_last]),
    st.sampled_from([torch.device("cuda", 1), pathlib.PurePath("a/b"), range(1, 9, 2), torch.Size([1, 2])]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.frozensets(scalars, max_size=3),
        st.sets(scalars, max_size=3),
        st.dictionaries(scalars, inner, max_size=3),
    ),
    max_leaves=6,
)
steps = st.tuples(scalars, st.sampled_from(ObjectType))
places = st.builds(Locator, st.lists(steps, max_size=3).map(tuple), st.booleans())


def through_json(metadata: SampleMetadata) -> SampleMetadata:
    """Metadata written as strict JSON text and read back."""
    return SampleMetadata.from_dict(json.loads(json.dumps(metadata.to_dict(), allow_nan=False)))


@given(st.dictionaries(places, values, max_size=3), st.booleans(), st.sampled_from([None, "prefill", "decode"]))
def test_other_leaves_come_back_as_they_were(leaves: dict[Locator, Any], strict: bool, phase: str | None) -> None:
    """Places, values with their types, the flag and the phase survive JSON."""
    metadata = SampleMetadata((), tuple(leaves.items()), strict, phase)
    back = through_json(metadata)
    assert back == metadata
    assert back.other_data == metadata.other_data
    assert [type(value) for _, value in back.other_data if not isinstance(value, pathlib.PurePath)] == [
        tuple if type(value) is torch.Size else type(value)
        for _, value in metadata.other_data
        if not isinstance(value, pathlib.PurePath)
    ]
    assert [place.is_output for place, _ in back.other_data] == [place.is_output for place in leaves]
    assert (back.strict, back.llm_phase) == (metadata.strict, metadata.llm_phase)


def test_what_was_learned_comes_back() -> None:
    """Shapes, bounds, multipliers, batch sizes and dtypes survive JSON, and learning goes on from there."""
    learned = SampleMetadata.from_inputs({"x": [torch.zeros(1, 3)], "s": torch.zeros(())}, batch_size=1)
    learned.update_shapes_seen(
        SampleMetadata.from_inputs({"x": [torch.zeros(2, 5).half()], "s": torch.zeros(())}, batch_size=2)
    )
    back = through_json(learned)
    for new, old in zip(back.tensor_specs, learned.tensor_specs, strict=True):
        assert new.describe() == old.describe()
        assert new.get_batch_axis_multipliers() == old.get_batch_axis_multipliers()
        assert (new.batch_sizes, new.dtypes) == (old.batch_sizes, old.dtypes)
        assert [math.isnan(r) for r in new._bs_multipliers] == [math.isnan(r) for r in old._bs_multipliers]
    assert back.make_batch({"x": [torch.zeros(1, 3)], "s": 1}, 4)["x"][0].shape == (4, 3)
    assert SampleMetadata.from_dict(learned.to_dict()) == learned


class Color(enum.Enum):
    """An enum."""

    RED = 1


class Plain:
    """A class without an equality of its own."""


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Plain(), "object"), (Plain, "class"), (Color.RED, "enum"), (lambda: 1, "function"), (np.arange(3), "array"),
        (datetime.date(2020, 1, 2), "object"), (np.datetime64("2020-01-02"), "object"), ({1: Plain()}, None),
    ],
)  # fmt: skip
def test_what_cannot_be_stored_becomes_a_named_placeholder(value: Any, kind: str | None) -> None:
    """A placeholder says what it stands for, and equals it where that is all that is compared."""
    metadata = SampleMetadata.from_inputs({"v": value}, strict=True)
    back = through_json(metadata)
    if kind is not None:
        ((_, stored),) = back.other_data
        assert isinstance(stored, Placeholder)
        assert stored.kind == kind
        assert stored.type_name in str(stored)
    assert (back == metadata) is (type(value).__module__ not in ("datetime", "numpy") or kind == "array")
    assert through_json(back) == back


def test_numbers_that_are_not_finite_are_no_json_numbers() -> None:
    """NaN and infinity come back as numbers, through strict JSON."""
    metadata = SampleMetadata.from_inputs({"v": [math.inf, -math.inf, math.nan, complex(0, math.inf)]}, strict=True)
    values = [value for _, value in through_json(metadata).other_data]
    assert values[:2] == [math.inf, -math.inf]
    assert math.isnan(values[2])  # type: ignore[arg-type]
    assert values[3] == complex(0, math.inf)


def test_pickled_data_of_old_is_refused_with_advice() -> None:
    """Bytes are never loaded; the hint says what to do instead."""
    old = {"tensor_data": b"\x80\x04N.", "other_data": b"\x80\x04N.", "strict": False, "llm_phase": None}
    with pytest.raises(RecordError, match="found pickled bytes, which are never loaded") as caught:
        SampleMetadata.from_dict(old)
    assert "observe the module again" in caught.value.hint


GOOD = SampleMetadata.from_inputs({"x": torch.zeros(1), "n": 1}, strict=True).to_dict()
PLACE = {"path": [["n", 1]], "is_output": False}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "found version 2"),
        ({"format": "other"}, "found 'other'"),
        ({"tensor_data": [{}]}, "malformed"),
        ({"tensor_data": [{**PLACE, "spec": {"type": "Other", "dtype": None, "_bs_multipliers": []}}]}, "malformed"),
        ({"other_data": [{**PLACE, "path": [["n", 9]], "value": 1}]}, "malformed"),
        ({"other_data": [{**PLACE, "value": {"$": "torch", "value": "load"}}]}, "malformed"),
        ({"other_data": [{**PLACE, "value": {"$": "unknown", "value": 1}}]}, "malformed"),
        ({"other_data": [{**PLACE, "value": {"$": "range", "value": ["x"]}}]}, "malformed"),
    ],
)
def test_bad_data_is_refused(change: dict[str, Any], words: str) -> None:
    """Another format, a newer version and malformed entries are one clear line each."""
    with pytest.raises(RecordError, match=words):
        SampleMetadata.from_dict({**GOOD, **change})


@pytest.mark.parametrize("field", sorted(GOOD))
def test_a_missing_field_is_named(field: str) -> None:
    """A KeyError says which field is not there, and the data given is left as it was."""
    state = {name: value for name, value in GOOD.items() if name != field}
    with pytest.raises(KeyError, match=f"must have the field '{field}'"):
        SampleMetadata.from_dict(state)
    assert field not in state


@dataclasses.dataclass
class Data:
    """A dataclass with a field that may be unset."""

    here: object
    later: object = dataclasses.field(init=False)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), (np.float32(0.5), 0.5),
        (np.datetime64("2020-01-02"), "2020-01-02"), (np.array([1])[0], 1), (Color.RED, 1),
        (Plain, f"{__name__}:Plain"),
        (pathlib.Path("/a"), "/a"), (datetime.date(2020, 1, 2), "2020-01-02"), (datetime.time(1), "01:00:00"),
        ({3, 1, "b"}, [1, 3, "b"]), ({1: {2}}, {"1": [2]}), ((1, [2]), [1, [2]]), (Data(1), {"here": 1}),
        (json_value, "aitune.torch.module.json_values:json_value"), (Plain(), f"<{__name__}:Plain>"), (1j, "1j"),
        (enum.IntEnum("I", "A").A, 1), (torch.float16, "torch.float16"), (b"x", "b'x'"),
    ],
)  # fmt: skip
def test_a_report_holds_nothing_that_json_lacks(value: object, answer: object) -> None:
    """Reports have finite numbers, sorted sets and names, and no addresses in memory."""
    assert json_value(value) == answer
    json.dumps(json_value(value), allow_nan=False)
