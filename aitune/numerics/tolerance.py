"""How far two runs of the same model may differ: the one table, by element type.

Two runs add the same numbers in another order when the batch, the thread count or the processor differs, and the error
of a sum grows with the numbers that were added, not with the result. So an element may differ by

    ``rtol * |expected|  +  atol * magnitude``

where ``magnitude`` is the largest finite absolute value of the whole expected tensor, but at least ``1e-3``: a tensor
of tiny values (a softmax over many classes) is held to a tiny difference, and a tensor of zeros still allows noise.

float64 is held to what float32 can give, because a file often computes in float32 and casts at the end. Integers,
booleans and strings must be equal: there is no small error in a class index, only a wrong one. The price is stated,
not hidden: an ``argmax`` over nearly tied values may flip, and is then reported as a difference.

A model that computes in fewer bits than its boundary shows has a second table, :data:`REDUCED`. It is for what is *not*
the same computation: another file (the source against the quantised one), or the same rows in another batch or on
another processor. Dynamic quantisation takes its scale over the whole batch, so that rows couple a little; rounding to
few bits turns a difference in the last bit of a sum into a whole step. The same request alone on the same machine is
the same computation, in few bits as in many, and is held to the table above.

>>> from aitune.records import DType
>>> tolerance(DType.FLOAT32)
Tolerance(rtol=0.0001, atol=0.0001)
>>> tolerance(DType.INT64).exact
True
>>> regrouped(DType.FLOAT32, "int8"), regrouped(DType.FLOAT32, "fp32") == tolerance(DType.FLOAT32)
(Tolerance(rtol=0.2, atol=0.2), True)
"""

from __future__ import annotations

from dataclasses import dataclass

from aitune.errors import UsageError
from aitune.records import DType

__all__ = ["MAGNITUDE_FLOOR", "REDUCED", "TOLERANCES", "Threshold", "Tolerance", "regrouped", "tolerance"]

MAGNITUDE_FLOOR = 1e-3
"""Magnitude of a tensor whose values are all smaller."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The difference allowed per element: ``rtol * |expected| + atol * magnitude``.

    Attributes:
        rtol: Share of the element itself.
        atol: Share of the largest element of the tensor.

    Raises:
        UsageError: If one is negative.
    """

    rtol: float
    atol: float

    def __post_init__(self) -> None:
        if not (self.rtol >= 0 and self.atol >= 0):
            raise UsageError(f"a tolerance must not be negative, got rtol={self.rtol!r}, atol={self.atol!r}")

    @property
    def exact(self) -> bool:
        """Whether nothing but equality will do."""
        return self.rtol == 0 and self.atol == 0

    def times(self, factor: float) -> Tolerance:
        """The same, wider: for another processor or runtime, which rounds differently. Exact stays exact."""
        return Tolerance(self.rtol * factor, self.atol * factor)


EXACT = Tolerance(0.0, 0.0)
TOLERANCES: dict[DType, Tolerance] = {dtype: EXACT for dtype in DType if not dtype.is_floating} | {
    DType.FLOAT64: Tolerance(1e-5, 1e-5),
    DType.FLOAT32: Tolerance(1e-4, 1e-4),
    DType.FLOAT16: Tolerance(1e-2, 1e-2),
    DType.BFLOAT16: Tolerance(5e-2, 5e-2),
}
"""Tolerance of every element type."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """How far a floating-point output may be from the source's.

    Attributes:
        tolerance: Per element.
        cosine: The smallest cosine of the angle between the two.
    """

    tolerance: Tolerance
    cosine: float


REDUCED = {
    "fp16": Threshold(Tolerance(1e-2, 1e-2), 0.999),
    "bf16": Threshold(Tolerance(5e-2, 5e-2), 0.99),
    "int8": Threshold(Tolerance(0.2, 0.2), 0.98),
}
"""Thresholds by precision; whole numbers, strings and the precision ``"fp32"`` are held to the table."""


def tolerance(dtype: DType) -> Tolerance:
    """The tolerance of an element type."""
    return TOLERANCES[dtype]


def regrouped(dtype: DType, precision: str, *, slack: float = 1.0) -> Tolerance:
    """How far the same rows may be apart in two batches, or on two processors.

    Args:
        dtype: Element type of the output.
        precision: What the model computes in; one that is not in :data:`REDUCED` is its own numbers.
        slack: Widens the table, not :data:`REDUCED`, which is wide already.
    """
    mine, reduced = tolerance(dtype).times(slack), REDUCED.get(precision)
    if reduced is None or not dtype.is_floating:
        return mine
    return Tolerance(max(mine.rtol, reduced.tolerance.rtol), max(mine.atol, reduced.tolerance.atol))
