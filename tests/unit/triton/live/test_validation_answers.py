"""Each live check of answers against a Triton in memory: right ones please it, and every kind of wrong one is seen."""

from __future__ import annotations

import copy
import os
import threading
import time

import numpy as np
import pytest

from aitune.records import DType, TunedTensorSpec
from aitune.triton.checks_live import CHECKS, THOROUGH, thorough
from aitune.triton.checks_live.context import BudgetSpent
from aitune.triton.checks_live.numbers import check_numbers
from aitune.triton.client_errors import InferenceRefused, ServerUnreachable
from aitune.triton.subjects import Published

ANSWERS = {
    "wrong scale": (lambda a, i: {"y": a["y"] * np.float32(1.01)}, "values differ"),
    "NaN at the largest batch": (
        lambda a, i: {"y": a["y"] * (np.nan if len(a["y"]) == 8 else 1)},
        "largest over grpc: output 'y'",
    ),
    "a type of its own": (lambda a, i: {"y": a["y"].astype(np.float64)}, "is float64, recorded float32"),
    "a row too few": (lambda a, i: {"y": a["y"][:-1]} if len(a["y"]) > 1 else a, "shape"),
    "another output": (lambda a, i: {"z": a["y"]}, "output 'y' is missing"),
    "reversed rows": (lambda a, i: {"y": a["y"][::-1]}, "largest over grpc"),
    "a sign lost": (lambda a, i: {"y": np.abs(a["y"])}, "values differ"),
    "half precision inside": (
        lambda a, i: {"y": (a["y"] * 1.003).astype(np.float16).astype(np.float32)},
        "values differ",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_numbers_that_differ_from_the_samples_fail(name, stage, tmp_path) -> None:
    """Every kind of wrong answer is seen."""
    stage.keep_samples(tmp_path)
    change, words = ANSWERS[name]
    stage.fake.change = change
    result = CHECKS["numbers"](stage.context())
    assert result.status == "fail"
    assert words in result.detail


def test_numbers_that_only_one_protocol_gets_wrong_fail(stage, tmp_path) -> None:
    """Both are asked: the second protocol's answer is the wrong one."""
    stage.keep_samples(tmp_path)
    asked = []

    def second_time(answer, inputs):
        asked.append(1)
        return {"y": answer["y"] + 1} if len(asked) % 2 == 0 else answer

    stage.fake.change = second_time
    assert "over http" in CHECKS["numbers"](stage.context()).detail


def test_a_recorded_nan_is_a_warning(make_stage, tmp_path) -> None:
    """It is what was recorded, and somebody should look at it all the same."""

    def model(inputs):
        return {"y": np.full((len(inputs["x"]), 3), np.nan, np.float32)}

    x, y = (TunedTensorSpec(n, DType.FLOAT32, ("batch", s), (1, s), (8, s), 0) for n, s in (("x", 4), ("y", 3)))
    stage = make_stage(model, (x,), (y,))
    stage.keep_samples(tmp_path)
    result = CHECKS["numbers"](stage.context())
    assert result.status == "warn"
    assert "NaN or infinite" in result.detail


def test_without_samples_the_artifact_itself_is_the_reference(stage) -> None:
    """Something that runs it was handed in."""
    result = check_numbers(stage.context(), run=stage.fake.model)
    assert "3 made-up requests (smallest, typical, largest)" in result.detail
    stage.fake.change = lambda answer, inputs: {"y": answer["y"] * 2}
    assert check_numbers(stage.context(), run=stage.fake.model).status == "fail"


def test_without_any_reference_the_protocols_are_compared(stage) -> None:
    """Answers that depend on the protocol are wrong on one of them."""
    result = CHECKS["numbers"](stage.context())
    assert "no recorded answers" in result.detail
    noise = iter(range(100))
    stage.fake.change = lambda answer, inputs: {"y": answer["y"] + next(noise)}
    assert "differs between protocols" in CHECKS["numbers"](stage.context()).detail


def test_rows_that_depend_on_their_neighbours_fail(stage) -> None:
    """Shapes are perfect, values are not."""
    stage.fake.model = lambda inputs: {"y": (inputs["x"] / inputs["x"].sum(0))[:, :3]}
    result = CHECKS["rows"](stage.context())
    assert result.status == "fail"
    assert "a batch of 3 is not answered as its rows are alone" in result.detail


def test_two_rows_for_one_fail(stage) -> None:
    """Clients would get the rows of others."""
    stage.fake.model = lambda inputs: {"y": np.repeat(inputs["x"][:, :3], 2, axis=0)}
    result = CHECKS["rows"](stage.context())
    assert (result.status, "2 rows for 1" in result.detail) == ("fail", True)


def test_a_refused_row_fails(stage) -> None:
    """The request was valid."""
    stage.fake.change = lambda answer, inputs: (_ for _ in ()).throw(InferenceRefused("out of memory"))
    assert "a valid request was refused: out of memory" in CHECKS["rows"](stage.context()).detail


def test_a_model_without_batches_has_no_rows_to_compare(make_stage) -> None:
    """A skip says so."""
    x, y = (TunedTensorSpec(n, DType.FLOAT32, (2, s), (2, s), (2, s)) for n, s in (("x", 4), ("y", 3)))
    stage = make_stage(lambda inputs: {"y": inputs["x"][:, :3] * 2}, (x,), (y,))
    assert CHECKS["rows"](stage.context()).status == "skip"
    result = CHECKS["concurrency"](stage.context())
    assert (result.status, "nothing to merge" in result.detail) == ("pass", True)


def test_clients_that_get_each_others_answers_fail(stage) -> None:
    """Alone everybody is answered rightly."""
    inside, lock = [], threading.Lock()

    def swapped(answer, inputs):
        with lock:
            inside.append(answer)
        time.sleep(0.002)
        with lock:
            other = inside[0] if len(inside) > 1 else answer
            inside.clear()
        return {"y": np.resize(other["y"], answer["y"].shape)}

    stage.fake.change = swapped
    result = CHECKS["concurrency"](stage.context())
    assert (result.status, "an answer that is not its own" in result.detail) == ("fail", True)


def test_a_server_that_never_merges_fails(stage) -> None:
    """Statistics are proof: as many executions as requests."""
    stage.fake.merging = False
    result = CHECKS["concurrency"](stage.context())
    assert (result.status, "no batch was formed" in result.detail) == ("fail", True)


def test_a_foreign_server_that_does_not_merge_is_a_warning(stage) -> None:
    """It was asked only a few times."""
    stage.fake.merging, stage.own = False, False
    assert CHECKS["concurrency"](stage.context()).status == "warn"


def test_equal_answers_cannot_show_a_mix_up(make_stage) -> None:
    """So the check says that it could not see one."""
    x, y = (TunedTensorSpec(n, DType.FLOAT32, ("batch", s), (1, s), (8, s), 0) for n, s in (("x", 4), ("y", 3)))
    stage = make_stage(lambda inputs: {"y": np.ones((len(inputs["x"]), 3), np.float32)}, (x,), (y,))
    result = CHECKS["concurrency"](stage.context())
    assert (result.status, "could not be seen" in result.detail) == ("warn", True)


@pytest.mark.parametrize(("strict", "status"), [(False, "warn"), (True, "fail")])
def test_sizes_beyond_the_tuned_range_are_reported(strict: bool, status: str, free_stage) -> None:
    """Triton has no upper bound of its own, so this is the user's decision."""
    stage = free_stage()
    stage.options["strict_bounds"] = strict
    result = CHECKS["bounds"](stage.context())
    assert result.status == status
    assert result.notes == (
        "length 'x' of 1 where 2..8 was tuned: accepted beyond the tuned range",
        "length 'x' of 9 where 2..8 was tuned: accepted beyond the tuned range",
    )


def test_a_server_that_is_hurt_by_a_size_beyond_the_range_fails(free_stage) -> None:
    """A valid request before and after must get the same answer."""
    stage = free_stage()
    hurt = []

    def change(answer, inputs):
        hurt.extend([1] * (inputs["x"].shape[1] > 8))
        return {"y": answer["y"] + len(hurt)}

    stage.fake.change = change
    assert "a valid one is answered differently" in CHECKS["bounds"](stage.context()).detail


def test_malformed_requests_that_are_accepted_fail(stage) -> None:
    """Each is named."""
    stage.fake.lenient = True
    result = CHECKS["refusals"](stage.context())
    assert result.status == "fail"
    assert any("a batch of 9 where 8 is the most was accepted" in note for note in result.notes)
    assert any("an input the model does not have was accepted" in note for note in result.notes)


def test_a_server_that_dies_of_a_bad_request_is_noticed(stage) -> None:
    """The next request finds nobody; what that means is decided where the server's owner is known."""
    check, dead = stage.fake.check, []

    def deadly(inputs):
        if dead:
            raise ServerUnreachable("gone")
        try:
            check(inputs)
        except InferenceRefused:
            dead.append(1)
            raise

    stage.fake.check = deadly
    with pytest.raises(ServerUnreachable, match="gone"):
        CHECKS["refusals"](stage.context())


@pytest.mark.parametrize("name", ["bounds", "refusals"])
def test_a_foreign_server_is_sent_no_bad_request(name: str, stage) -> None:
    """Not one."""
    stage.own = False
    assert CHECKS[name](stage.context()).status == "skip"
    assert stage.fake.sent == 0


def test_a_foreign_server_is_sent_at_most_twenty_requests(stage, tmp_path) -> None:
    """All checks together, whatever they would like."""
    stage.keep_samples(tmp_path)
    stage.own = False
    context = stage.context()
    results = [check(context) for check in CHECKS.values()]
    assert stage.fake.sent == context.sent <= 20
    assert {result.status for result in results} == {"pass", "skip"}
    context.sent = 20
    with pytest.raises(BudgetSpent, match="at most 20"):
        context.count()


def test_a_model_of_somebody_else_is_checked_as_far_as_its_config_goes(stage) -> None:
    """Contracts are inferred, sizes guessed, and nothing is called proved."""
    stage.fake.config.parameters.clear()
    stage.published = Published(config=copy.deepcopy(stage.fake.config))
    context = stage.context()
    statuses = {name: check(context).status for name, check in CHECKS.items()}
    assert {name for name, status in statuses.items() if status == "skip"} == {"record", "fingerprint", "bounds"}
    assert set(statuses.values()) == {"pass", "skip"}


def test_a_guess_that_is_refused_is_no_failure(stage) -> None:
    """It says more about the guess than about the model."""
    stage.fake.config.parameters.clear()
    stage.published = None
    stage.fake.change = lambda answer, inputs: (_ for _ in ()).throw(InferenceRefused("out of range"))
    for name in ("numbers", "rows", "concurrency"):
        assert CHECKS[name](stage.context()).status == "warn"


@pytest.mark.parametrize("name", ["batches", "mixed", "endurance"])
def test_a_thorough_check_is_content_with_what_is_right(name, free_stage, monkeypatch) -> None:
    """On a model with a free axis, in the memory of this very process."""
    monkeypatch.setattr(thorough, "_WARM", 20)
    monkeypatch.setattr(thorough, "_MANY", 60)
    stage = free_stage()
    stage.options["server_pid"] = os.getpgrp()
    assert THOROUGH[name](stage.context()).status == "pass"


@pytest.mark.parametrize("name", THOROUGH)
def test_a_thorough_check_is_only_for_our_own_server(name, stage) -> None:
    """A skip says so."""
    stage.own = False
    assert THOROUGH[name](stage.context()).status == "skip"


def test_a_batch_that_goes_wrong_at_the_largest_shape_is_found(free_stage) -> None:
    """Typical shapes are right, and batches of three too."""
    stage = free_stage()
    stage.fake.change = lambda answer, inputs: {"y": answer["y"] + (inputs["x"].shape == (4, 8))}
    assert CHECKS["rows"](stage.context()).status == "pass"
    result = THOROUGH["batches"](stage.context())
    assert "batch of 4, largest shape: row 0: output 'y'" in result.detail


def test_a_fixed_model_has_no_shapes_to_mix(stage) -> None:
    """Only the batch is free."""
    assert THOROUGH["mixed"](stage.context()).status == "skip"


def test_shapes_that_disturb_each_other_are_found(free_stage) -> None:
    """A long request changes what a short one gets after it."""
    stage = free_stage()
    asked = []

    def change(answer, inputs):
        asked.append(1)
        return {"y": answer["y"] + (len(asked) > 5)}

    stage.fake.change = change
    assert "among requests of other shapes" in THOROUGH["mixed"](stage.context()).detail


def test_memory_that_grows_is_found(stage, monkeypatch) -> None:
    """Eight megabytes a request are kept: more than what else happens in this process group."""
    monkeypatch.setattr(thorough, "_WARM", 20)
    monkeypatch.setattr(thorough, "_MANY", 80)
    kept = []

    def leak(answer, inputs):
        kept.append(np.ones(1_000_000))
        return answer

    stage.fake.change = leak
    stage.options["server_pid"] = os.getpgrp()
    assert "memory grows" in THOROUGH["endurance"](stage.context()).detail
