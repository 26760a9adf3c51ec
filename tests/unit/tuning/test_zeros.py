"""Zeros are called a valid request only where a server could answer them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tuning_fakes import Fake

from aitune.errors import SourceError
from aitune.numerics import Array
from aitune.records import DType, TensorSpec
from aitune.records.evidence import InputDomain
from aitune.tuning.zeros import prove_zeros


def refuse_zeros(x: Array) -> Array:
    """A runtime that cannot run on zeros."""
    if not x.any():
        raise SourceError("Reshape: no size")
    return x


CASES: dict[str, tuple[Callable[..., Array], bool]] = {
    "any values": (lambda x: x, True),
    "refused": (refuse_zeros, False),
    "NaN for zeros": (lambda x: np.where(x == 0, np.float32("nan"), x), False),
    "rows that are not padding": (lambda x: x[np.abs(x).sum(1) > 0], False),
}


@pytest.mark.parametrize("case", CASES)
def test_zeros_are_valid_where_the_answer_is_finite_and_of_full_size(case: str) -> None:
    """A warm-up of zeros whose answer has no rows keeps a server from loading the model."""
    function, valid = CASES[case]
    output = TensorSpec("y", DType.FLOAT32, (None, 4))
    domain = InputDomain(name="x", typical_shape=(1, 4), high=1)
    request = {"x": np.ones((3, 4), np.float32)}
    (found,) = prove_zeros(Fake(function), [output], [domain], [request])
    assert found.zeros_valid is valid
