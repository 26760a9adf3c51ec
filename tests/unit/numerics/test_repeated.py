"""Requests put together from recorded ones."""

from __future__ import annotations

import numpy as np
import pytest

from aitune.numerics.repeated import repeated
from aitune.records import DType, TensorSpec

IDS = TensorSpec("ids", DType.INT64, ("batch", "n"))
K = TensorSpec("k", DType.FLOAT32, ())
SAMPLES = [{"ids": np.array([[1, 2, 3]]), "k": np.float32(7)}, {"ids": np.array([[4, 5]]), "k": np.float32(8)}]


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_a_sample_of_the_shape_is_taken_as_it_is(seed: int) -> None:
    """Its values belong together."""
    found = repeated([IDS], [{"ids": sample["ids"]} for sample in SAMPLES], {"ids": (1, 2)}, seed)
    assert found["ids"].tolist() == [[4, 5]]


def test_rows_are_cut_and_repeated_to_size_and_seeds_turn_them() -> None:
    """Every value is one of the samples', and equal seeds are equal requests."""
    given = [{"ids": sample["ids"]} for sample in SAMPLES]
    first, second = (repeated([IDS], given, {"ids": (4, 2)}, seed)["ids"].tolist() for seed in (0, 1))
    assert first == [[1, 2], [4, 5], [1, 2], [4, 5]]
    assert second == [[4, 5], [1, 2], [4, 5], [1, 2]]
    assert repeated([IDS], given, {"ids": (1, 5)}, 0)["ids"].tolist() == [[1, 2, 3, 1, 2]]


def test_inputs_without_rows_come_from_one_sample() -> None:
    """What is no batch cannot be taken apart."""
    found = repeated([IDS, K], SAMPLES, {"ids": (2, 2), "k": ()}, 1)
    assert found["ids"].tolist() == [[4, 5], [4, 5]]
    assert found["k"] == np.float32(8)
