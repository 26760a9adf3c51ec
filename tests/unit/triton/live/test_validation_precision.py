"""A winner that computes in fewer bits: rows couple a little in a batch, which is neither hidden nor an alarm."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aitune.numerics.processor import processor
from aitune.records import DType, TunedTensorSpec
from aitune.records.evidence import Tried, Tuning
from aitune.triton import validation
from aitune.triton.checks_live import CHECKS, THOROUGH
from aitune.triton.checks_live.numbers import check_numbers
from aitune.triton.contract import contract_of, dump_contract, parse_contract
from aitune.triton.plan import plan
from aitune.triton.rendering import message
from aitune.triton.serving_status import _probed

W = np.random.default_rng(3).normal(size=(4, 3)).astype(np.float32)
X = TunedTensorSpec("x", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4), 0)
Y = TunedTensorSpec("y", DType.FLOAT32, ("batch", 3), (1, 3), (8, 3), 0)
Rows = dict[str, np.ndarray]


def coupled(inputs: Rows) -> Rows:
    """Quantised with one scale for all rows, as dynamic quantisation does."""
    x = inputs["x"]
    scale = max(float(np.abs(x).max()) / 127, 1e-9)
    return {"y": ((np.round(x / scale) * scale) @ W).astype(np.float32)}


def tuning(precision: str) -> Tuning:
    """The record of a winner that computes in this."""
    tried = (Tried(name="default"), Tried(name="winner", precision=precision))
    return Tuning(objective="throughput", winner="winner", reason="faster", candidates=tried)


@pytest.fixture
def staged(make_stage: Callable[..., Any], retold: Callable[..., Any]) -> Callable[..., Any]:
    """A stage whose model couples its rows, recorded as computing in a precision."""

    def make(precision: str) -> Any:
        stage = make_stage(coupled, (X,), (Y,))
        stage.artifact = retold(stage.artifact, tuning=tuning(precision))
        config = message(plan(stage.artifact, model_name="m"))
        stage.fake.config = copy.deepcopy(config)
        stage.published = replace(
            stage.published, config=config, artifact=stage.artifact, siblings={"1": stage.artifact}
        )
        return stage

    return make


@pytest.mark.parametrize("name", ["rows", "batches"])
def test_rows_of_a_batch_may_be_as_far_apart_as_the_proof_allowed(name: str, staged: Callable[..., Any]) -> None:
    """What passed the proof in int8 passes here; a model in its own numbers is held to the table, and fails."""
    checks = {**CHECKS, **THOROUGH}
    assert checks[name](staged("int8").context()).status == "pass"
    assert checks[name](staged("fp32").context()).status == "fail"


@pytest.mark.parametrize("name", ["rows", "batches", "concurrency"])
def test_swapped_rows_are_no_matter_of_precision(name: str, staged: Callable[..., Any]) -> None:
    """The wider tolerance does not hide the faults that these checks are for."""
    stage = staged("int8")
    asked: list[int] = []

    def swapped(answer: Rows, inputs: Rows) -> Rows:
        asked.append(1)
        if name == "concurrency" and len(asked) > 4:
            return {"y": answer["y"] + np.float32(9)}
        return {"y": answer["y"][::-1].copy()}

    stage.fake.change = swapped
    assert {**CHECKS, **THOROUGH}[name](stage.context()).status == "fail"


def test_the_same_request_again_is_held_to_the_table(staged: Callable[..., Any], tmp_path: Path) -> None:
    """In int8 too: alone and on the same machine it is the same computation, so one percent is another model."""
    stage = staged("int8")
    stage.keep_samples(tmp_path)
    assert CHECKS["numbers"](stage.context()).status == "pass"
    stage.fake.change = lambda answer, inputs: {"y": answer["y"] * np.float32(1.01)}
    assert CHECKS["numbers"](stage.context()).status == "fail"
    assert CHECKS["fingerprint"](stage.context()).status == "fail"


@pytest.mark.parametrize(("precision", "status"), [("int8", "warn"), ("fp32", "fail")])
def test_where_a_request_may_not_be_alone_a_small_difference_is_a_warning(
    precision: str, status: str, staged: Callable[..., Any], tmp_path: Path
) -> None:
    """On a server with other clients, or another processor; it proves nothing, and a large one fails all the same."""
    stage = staged(precision)
    stage.keep_samples(tmp_path)
    stage.options = {"certain": False}
    stage.fake.change = lambda answer, inputs: {"y": answer["y"] * np.float32(1.01)}
    for name in ("numbers", "fingerprint"):
        context = stage.context()
        found = CHECKS[name](context)
        assert found.status == status
        assert context.proved == ""
        if status == "warn":
            assert "int8 may differ so on another processor" in " ".join((found.detail, *found.notes))
    stage.fake.change = lambda answer, inputs: {"y": -answer["y"]}
    assert CHECKS["numbers"](stage.context()).status == "fail"
    assert CHECKS["fingerprint"](stage.context()).status == "fail"


def test_the_status_of_a_busy_server_says_not_proved(staged: Callable[..., Any]) -> None:
    """That is no drift."""
    stage = staged("int8")
    stage.options = {"certain": False}
    stage.fake.change = lambda answer, inputs: {"y": answer["y"] * np.float32(1.01)}
    drift, untold = _probed(stage.context())
    assert drift == ()
    assert "not proved: the probe is answered nearly as recorded" in untold[0]


def test_answers_that_are_too_near_to_tell_are_a_warning(staged: Callable[..., Any]) -> None:
    """A mix-up of answers within the tolerance could not be seen, so none is ruled out."""
    stage = staged("int8")
    stage.fake.change = lambda answer, inputs: {"y": answer["y"] * np.float32(1e-3) + np.float32(1)}
    found = CHECKS["concurrency"](stage.context())
    assert (found.status, "as near as int8 may differ" in found.detail) == ("warn", True)


def test_the_precision_travels_with_the_contract(staged: Callable[..., Any]) -> None:
    """So that a server alone is enough; a contract without it, as all were before, is of the model's own numbers."""
    stage = staged("int8")
    stage.published = None
    context = stage.context()
    assert (context.subject.source, context.subject.precision) == ("server", "int8")
    assert CHECKS["rows"](context).status == "pass"
    plain = contract_of(staged("fp32").artifact)
    assert "precision" not in dump_contract(plain)
    assert parse_contract(dump_contract(plain)) == plain
    assert parse_contract(dump_contract(contract_of(stage.artifact))).precision == "int8"


@pytest.mark.parametrize(("cpu", "same"), [("", True), ("Another CPU", False), (processor(), True)])
def test_the_processor_of_the_record_is_looked_at(
    cpu: str, same: bool, staged: Callable[..., Any], retold: Callable[..., Any]
) -> None:
    """One that rounds differently in few bits is no reason to fail."""
    stage = staged("int8")
    provenance = (("cpu", cpu),) if cpu else ()
    stage.published = replace(stage.published, artifact=retold(stage.artifact, provenance=provenance))
    assert validation._same_processor(stage.subject()) is same


def test_a_reference_from_another_provider_is_another_computation(staged: Callable[..., Any]) -> None:
    """What runs the artifact here is no TensorRT on a GPU: its answers are held to the precision of the winner."""
    stage = staged("int8")

    def nearly(inputs: Rows) -> Rows:
        return {"y": coupled(inputs)["y"] * np.float32(1.01)}

    assert check_numbers(stage.context(), nearly).status == "fail"
    optimization = stage.fake.config.optimization
    optimization.execution_accelerators.gpu_execution_accelerator.add(name="tensorrt")
    assert check_numbers(stage.context(), nearly).status == "pass"


@pytest.mark.parametrize(("own", "status"), [(True, "fail"), (False, "pass")])
def test_json_is_held_to_the_table_where_nobody_else_is_in_the_batch(
    own: bool, status: str, staged: Callable[..., Any]
) -> None:
    """On somebody's server other clients' rows may be."""
    stage = staged("int8")
    stage.own = own
    stage.fake.said = lambda rows: [{**row, "data": [value * 1.01 for value in row["data"]]} for row in rows]
    assert CHECKS["json"](stage.context()).status == status
