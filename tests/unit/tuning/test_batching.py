"""Planted models, as numpy functions, that must be proved or refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from tuning_fakes import Fake, Recorder

from aitune.errors import SourceError
from aitune.numerics import Array
from aitune.records import DType, TensorSpec
from aitune.records.evidence import Batching, InputDomain
from aitune.tuning import batch_sizes, prove_batching, resolve_ranges, stops_batching
from aitune.tuning.batching import sizes_between

F32 = DType.FLOAT32
X = TensorSpec("x", F32, ("batch", 4))
Y = TensorSpec("y", F32, (None, None))
IDS = TensorSpec("ids", DType.INT64, ("batch", "sequence"))


def prove(
    function: Callable[..., Mapping[str, Array] | Array],
    inputs: tuple[TensorSpec, ...] = (X,),
    outputs: tuple[TensorSpec, ...] = (Y,),
    *,
    max_batch_size: int = 8,
    domain: tuple[float, float] = (-1, 1),
    **shapes: Mapping[str, tuple[int, ...]],
) -> Batching:
    """The verdict on a function."""
    ranges = resolve_ranges(inputs, **shapes)
    domains = [
        InputDomain(name=item.name, typical_shape=item.typical_shape, low=domain[0], high=domain[1])
        for item in ranges.inputs
    ]
    return prove_batching(Fake(function), inputs, outputs, domains, ranges, max_batch_size=max_batch_size)


WEIGHTS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
RANDOM = np.random.default_rng(3)


def large_only(x: Array) -> Array:
    """Rows are independent up to seven; from eight on they lean on their mean."""
    return x + (x.mean(0) if len(x) >= 8 else 0)


def drop_batch_above_one(x: Array) -> Array:
    """A runtime that refuses batches."""
    if len(x) > 1:
        raise SourceError("Split: input has 5 rows, expected 1")
    return x


def normalized(x: Array) -> Array:
    """Batch normalization left in training mode."""
    return (x - x.mean(0)) / np.sqrt(x.var(0) + np.float32(1e-5))


REFUSED: dict[str, tuple[Callable[..., Array], str]] = {
    "coupled": (
        lambda x: x / x.sum(0),
        r"row \d of output 'y' depends on the other rows in a batch of 5: \S+ there and 1 alone",
    ),
    "weakly coupled": (lambda x: x + np.float32(0.002) * x.mean(0), "depends on the other rows"),
    "coupled through the largest": (lambda x: x - x.max(0), "depends on the other rows"),
    "doubled": (lambda x: x.reshape(-1, 2), "output 'y' has 10 rows for batch 5"),
    "halved": (lambda x: x.reshape(-1, 8) if x.size % 8 == 0 else x[: len(x) // 2], "output 'y' has 2 rows for"),
    "nonzero": (lambda x: np.argwhere(x > 0).astype(np.float32), r"output 'y' has \d+ rows for batch 5"),
    "batch norm in training": (normalized, "depends on the other rows"),
    "row position": (
        lambda x: x + np.arange(len(x), dtype=np.float32)[:, None] * np.float32(0.01),
        r"row \d of output 'y' depends on its position in a batch of 5",
    ),
    "running sum": (lambda x: np.cumsum(x, 0), r"row \d of output 'y' depends on its position in a batch of 5"),
    "reversed": (lambda x: x[::-1].copy(), r"row \d of output 'y' depends on the other rows in a batch of 5"),
    "transposed": (lambda x: x.T.copy(), "output 'y' has 4 rows for batch 5"),
    "all pairs": (lambda x: x @ x.T, r"output 'y' has shape \(5, 5\) for batch 5 but \(1, 1\) for a row alone"),
    "constant rows": (lambda x: np.ones((4, 3), np.float32), "output 'y' has 4 rows for batch 5"),
    "mean over the batch": (lambda x: x.mean(0, keepdims=True), "output 'y' has 1 rows for batch 5"),
    "scalar after all": (lambda x: x.mean(), "output 'y' is a scalar"),
    "random": (
        lambda x: x + RANDOM.random(x.shape, dtype=np.float32),
        "two equal runs of batch 5 differ in output 'y'",
    ),
    "mixing large batches": (large_only, r"row \d of output 'y' depends on the other rows in a batch of 8"),
    "one row only": (drop_batch_above_one, "batch 5 does not run: Split: input has 5 rows, expected 1"),
    "NaN everywhere": (lambda x: x * np.float32("nan"), "output 'y' is NaN or infinite everywhere for batch 5"),
    "NaN alone": (
        lambda x: x if len(x) > 1 else x * np.float32("nan"),
        r"row 0 of output 'y' depends on .* in a batch of 5: \S+ there and nan alone",
    ),
    "wrong type": (lambda x: x.astype(np.float64), "batch 5 does not run: output 'y' of type float32 must be held as"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_model_whose_rows_are_not_independent_is_refused(case: str) -> None:
    """Each planted fault is found, and one sentence names the output and what is wrong with it."""
    function, reason = REFUSED[case]
    verdict = prove(function)
    assert not verdict.proved
    assert re.search(reason, verdict.reason), verdict.reason
    assert "\n" not in verdict.reason
    assert [trial.passed for trial in verdict.evidence] == [False]


@pytest.mark.parametrize(
    ("largest", "size"), [(8, 4), (8, 6), (8, 7), (16, 8), (5, 4), (64, 4), (64, 16), (64, 32), (200, 128)]
)
def test_a_model_that_couples_rows_at_one_size_only_is_refused(largest: int, size: int) -> None:
    """Sizes up to eight and powers of two are what a server forms, so each of them is run."""
    verdict = prove(lambda x: x + x.mean(0) if len(x) == size else x, max_batch_size=largest)
    assert f"depends on the other rows in a batch of {size}" in verdict.reason


def test_a_model_that_couples_four_rows_of_long_sequences_is_refused() -> None:
    """The smallest size that a prime cannot stand for is tried at every shape."""

    def coupled(ids: Array) -> Array:
        values = ids.astype(np.float32)
        return values - values.mean(0) if ids.shape == (4, 32) else values

    bounds = {"min_shapes": {"ids": (1, 2)}, "max_shapes": {"ids": (8, 32)}}
    assert "in a batch of 4" in prove(coupled, (IDS,), domain=(0, 99), **bounds).reason


@pytest.mark.parametrize("largest", [4, 8, 16, 32, 64, 128, 1024])
def test_the_sizes_between_cost_little(largest: int) -> None:
    """Rows run, which is what time is spent on, grow by less than half."""
    sizes = batch_sizes(largest)
    known = 3 * sum(sizes) + min(largest, 32)
    assert sum(sizes_between(largest, sizes)) < known / 2


HIDDEN: dict[str, tuple[Callable[..., Array], str]] = {
    "rows above a threshold": (lambda x: x[x.sum(1) >= 0], r"output 'y' has \d rows for batch \d"),
    "rows that are not padding": (lambda x: x[np.abs(x).sum(1) > 0], r"output 'y' has \d rows for batch \d"),
    "coupled below zero": (lambda x: x + np.minimum(x, 0).sum(0), "depends on the other rows"),
}


@pytest.mark.parametrize("case", HIDDEN)
def test_a_model_that_looks_at_values_is_refused_though_made_up_ones_hide_it(case: str) -> None:
    """Without samples floats are made up between 0 and 1: a sign and a row of zeros are tried all the same."""
    function, reason = HIDDEN[case]
    verdict = prove(function, domain=(0, 1))
    assert not verdict.proved
    assert re.search(reason + ".*with values of either sign and a row of zeros", verdict.reason), verdict.reason
    assert [trial.passed for trial in verdict.evidence].count(False) == 1


@pytest.mark.parametrize("case", ["refuses negative values", "logarithm of nothing else"])
def test_a_model_that_cannot_take_signed_values_is_not_blamed(case: str) -> None:
    """The values of the domain decide then; nothing is claimed about the others."""

    def picky(x: Array) -> Array:
        if (x < 0).any() and case == "refuses negative values":
            raise SourceError("Gather: index out of bounds")
        return x if (x > 0).all() else x * np.float32("nan")

    verdict = prove(picky, domain=(0.5, 1))
    assert verdict.proved, verdict.reason
    assert not [trial for trial in verdict.evidence if trial.check.startswith("signed")]


PROVED: dict[str, Callable[..., Array]] = {
    "linear": lambda x: x @ WEIGHTS,
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True),
    "one value per row": lambda x: x.sum(1),
    "constant per row": lambda x: np.zeros((len(x), 2), np.float32),
    "some NaN": lambda x: np.where(x > 0, x, np.float32("nan")),
    "noise of the kernels": lambda x: (x @ WEIGHTS) * np.float32(1 + 1e-6 * len(x)),
    "tiny values with noise": lambda x: (x @ WEIGHTS) * np.float32(1e-6 * (1 + 1e-6 * len(x))),
}


@pytest.mark.parametrize("case", PROVED)
def test_a_model_with_independent_rows_is_proved(case: str) -> None:
    """Row-wise models batch, also with the rounding noise that batched kernels have."""
    verdict = prove(PROVED[case])
    assert verdict.proved, verdict.reason
    assert verdict.reason.startswith("every row of a batch of 1 to 8 is answered as if it were alone")


def test_the_proof_tells_a_batch_from_a_sequence_of_the_same_length() -> None:
    """With a sequence of 5 no batch is 5 but the sizes still differ, so a swapped answer shows."""
    verdict = prove(
        lambda ids: ids.T.astype(np.float32), (IDS,), min_shapes={"ids": (1, 5)}, max_shapes={"ids": (5, 5)}
    )
    assert verdict.reason == "output 'y' has 5 rows for batch 7"


def test_every_other_dynamic_axis_is_tried_at_a_second_size() -> None:
    """A model that couples rows only for long sequences is refused at the largest shape."""

    def coupled_when_long(ids: Array) -> Array:
        values = ids.astype(np.float32)
        return values - values.mean(0) if ids.shape[1] > 20 else values

    bounds = {"min_shapes": {"ids": (1, 2)}, "max_shapes": {"ids": (8, 32)}}
    verdict = prove(coupled_when_long, (IDS,), domain=(0, 99), **bounds)
    assert not verdict.proved
    assert prove(lambda ids: ids.astype(np.float32), (IDS,), domain=(0, 99), **bounds).reason.count("at 3 shapes") == 1


def test_an_integer_output_must_be_equal() -> None:
    """There is no small error in a class index; the reason says that integers must be equal."""
    label = TensorSpec("y", DType.INT64, (None,))
    assert prove(lambda x: x.argmax(1), outputs=(label,)).proved
    verdict = prove(lambda x: x.argmax(1) + (len(x) > 3), outputs=(label,))
    assert "(int64 must be equal)" in verdict.reason


def test_every_output_is_checked() -> None:
    """The second output of two stops batching, and is the one that is named."""
    outputs = (Y, TensorSpec("z", F32, (None, None)))
    verdict = prove(lambda x: {"y": x, "z": x - x.mean(0)}, outputs=outputs)
    assert "output 'z'" in verdict.reason


def test_rows_differ_even_when_every_sample_held_one_value() -> None:
    """Equal rows would prove nothing, so a domain of one value is widened and the coupling found."""
    assert not prove(lambda x: x / x.sum(0), domain=(1, 1)).proved
    assert not prove(lambda ids: ids - ids.sum(0), (IDS,), (TensorSpec("y", DType.INT64, (None, None)),),
                     domain=(5, 5), min_shapes={"ids": (1, 4)}, max_shapes={"ids": (8, 4)}).proved  # fmt: skip


def test_evidence_names_sizes_checks_and_numbers() -> None:
    """A proof can be read afterwards: which sizes, which question, how far apart."""
    verdict = prove(PROVED["noise of the kernels"])
    checks = {(trial.check, trial.tensor): trial for trial in verdict.evidence}
    usual = {("rows", ""), ("repeat", "y"), ("independence", "y"), ("permutation", "y")}
    assert set(checks) == usual | {(f"signed {check}", tensor) for check, tensor in usual}
    assert checks["signed rows", ""].batch_sizes == (1, 2, 3)
    assert checks["rows", ""].batch_sizes == (1, 2, 3, 4, 5, 6, 7, 8)
    assert checks["independence", "y"].batch_sizes == (2, 3, 4, 5, 6, 7, 8)
    assert checks["repeat", "y"].batch_sizes == (1, 2, 3, 5, 8)
    assert checks["permutation", "y"].batch_sizes == (2, 3, 5, 8)
    assert "largest difference" in checks["independence", "y"].detail


DECLARED = [
    ((X,), (TensorSpec("mean", F32, ()),), "output 'mean' is a scalar"),
    ((X, TensorSpec("t", F32, ())), (Y,), "input 't' is a scalar"),
    ((X, TensorSpec("anchors", F32, (4, 3))), (Y,), "input 'anchors' has a fixed first axis of 4"),
    ((TensorSpec("x", F32, (7, "batch", 4)),), (Y,), r"fixed first axis of 7 \(its dynamic axis is 1"),
    ((TensorSpec("adjacency", F32, ("n", "n")),), (Y,), "input 'adjacency' has its first axis 'n' again on axis 1"),
    ((), (Y,), "the model has no inputs"),
    ((X,), (), "the model has no outputs"),
    ((X,), tuple(TensorSpec(f"w{i}", F32, ()) for i in range(5)), "and 2 more such tensors"),
]


@pytest.mark.parametrize(("inputs", "outputs", "reason"), DECLARED)
def test_declared_shapes_alone_can_stop_batching(
    inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], reason: str
) -> None:
    """Nothing is run where the declaration already rules a batch out."""
    assert re.search(reason, stops_batching(inputs, outputs))


def test_a_proof_runs_nothing_when_the_declaration_stops_it() -> None:
    """The runner is not called, and the verdict carries the reason."""

    def never(**_: Array) -> Array:
        raise AssertionError("must not run")

    verdict = prove(never, (X,), (TensorSpec("w", F32, (4, 3)),))
    assert verdict.reason == "output 'w' has a fixed first axis of 4"


def test_the_progress_of_a_proof_with_signed_values_is_foreseen() -> None:
    """The runs with other values are announced, too."""
    progress, runner = Recorder(), Fake(lambda x: x)
    ranges = resolve_ranges((X,))
    domains = [InputDomain(name="x", typical_shape=(1, 4), high=1)]
    assert prove_batching(runner, (X,), (Y,), domains, ranges, max_batch_size=8, progress=progress).proved
    assert progress.told.count("advance") == len(runner.batches) == progress.totals[0]


@pytest.mark.parametrize("largest", [1, 8, 40])
def test_the_progress_of_a_proof_is_foreseen(largest: int) -> None:
    """As many runs are made as were announced, at every shape."""
    progress = Recorder()
    ranges = resolve_ranges([IDS], min_shapes={"ids": (1, 2)}, max_shapes={"ids": (8, 9)})
    domains = [InputDomain(name="ids", typical_shape=(1, 4), high=99)]
    output = TensorSpec("y", DType.INT64, (None, None))
    runner = Fake(lambda ids: ids)
    assert prove_batching(runner, [IDS], [output], domains, ranges, max_batch_size=largest, progress=progress).proved
    assert progress.told.count("advance") == len(runner.batches) == progress.totals[0]


@pytest.mark.parametrize("largest", [1, 2, 3, 4, 5, 8, 16, 31, 64, 100])
@pytest.mark.parametrize("taken", [(), (2,), (2, 3, 5, 7), (5, 384)])
def test_batch_sizes_are_at_least_three_with_1_and_the_largest(largest: int, taken: tuple[int, ...]) -> None:
    """Whatever other axes there are, three sizes or more are tried, among them 1 and the largest."""
    sizes = batch_sizes(largest, taken)
    assert len(sizes) >= 3
    assert sizes[0] == 1
    assert largest in sizes
    assert list(sizes) == sorted(set(sizes))
    assert sizes[-1] <= max(3, largest)


def test_a_large_batch_is_compared_by_rows_spread_over_it() -> None:
    """Sixty-four rows: the last row is compared, but not every row is run alone."""
    runner = Fake(lambda x: x)
    domain = InputDomain(name="x", typical_shape=(1, 4))
    assert prove_batching(runner, (X,), (Y,), [domain], resolve_ranges([X]), max_batch_size=64).proved
    assert 32 <= runner.batches.count(1) < 64 + 2
    last = Fake(lambda x: np.where(np.arange(len(x))[:, None] == 63, 0, x).astype(np.float32))
    verdict = prove_batching(last, (X,), (Y,), [domain], resolve_ranges([X]), max_batch_size=64)
    assert "row 63 of output 'y'" in verdict.reason
