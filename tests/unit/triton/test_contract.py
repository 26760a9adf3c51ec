"""The contract inside a config."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import handmade
import pytest
from handmade import rows, whole
from hypothesis import assume, given
from strategies import artifacts

from aitune.errors import RecordError
from aitune.records import Artifact, DType
from aitune.triton.contract import LIMIT_BYTES, contract_of, contract_text, contracts_in, parse_contract
from aitune.triton.schema import model_config

INPUTS = (rows("x", DType.FLOAT32, "length"),)
OUTPUTS = (rows("y", DType.FLOAT32, 3),)


def data(**changes: object) -> str:
    """A good contract with some keys changed, as JSON."""
    found = json.loads(contract_text(handmade.record(INPUTS, OUTPUTS)))
    return json.dumps({**found, **changes})


@given(artifacts())
def test_every_contract_comes_back_as_it_was(artifact: Artifact) -> None:
    """Text and back is the identity, within 16 KB and in ASCII."""
    contract = contract_of(artifact)
    text = contract_text(artifact)
    assert parse_contract(text) == contract
    assert text.isascii()
    assert len(text) <= LIMIT_BYTES


@given(artifacts())
def test_a_contract_says_which_weights_and_companions(artifact: Artifact) -> None:
    """The identity covers companions, and no file name travels."""
    assume(artifact.evidence is None)
    contract = contract_of(artifact)
    assert contract.identity == artifact.identity
    assert contract.batching == "unproved"
    assert all(item.fingerprint not in contract_text(artifact) for item in artifact.companions)


@pytest.mark.parametrize("batched", [True, False])
def test_the_verdict_travels(batched: bool) -> None:
    """A proof, and its failure, are told from no proof."""
    proof = handmade.evidence(INPUTS, batched=batched)
    assert contract_of(handmade.record(INPUTS, OUTPUTS, proof=proof)).batching == (
        "batched" if batched else "unbatched"
    )


def test_nothing_but_the_contract_travels() -> None:
    """Samples, provenance, notes and measurements stay in the repository."""
    proof = handmade.evidence(INPUTS, notes=("a secret",), provenance=(("source", "a secret"),))
    assert "secret" not in contract_text(handmade.record(INPUTS, OUTPUTS, proof=proof))


def test_a_probe_that_does_not_fit_stays_at_home() -> None:
    """The bounds are worth more than the probe."""
    proof = handmade.evidence(INPUTS, probe=handmade.probe(INPUTS, OUTPUTS, count=5000))
    artifact = handmade.record(INPUTS, OUTPUTS, proof=proof)
    assert contract_of(artifact).probe is None
    assert len(contract_text(artifact)) < LIMIT_BYTES


def test_hundreds_of_caches_fit() -> None:
    """Tensors that differ in name only share one form."""
    caches = [
        whole(f"past_key_values.{index}.{kind}", DType.FLOAT16, 8, "past", 64)
        for index in range(80)
        for kind in ("key", "value")
    ]
    artifact = handmade.record(caches, [dataclasses.replace(spec, name=f"new.{spec.name}") for spec in caches])
    assert parse_contract(contract_text(artifact)).inputs == artifact.inputs


def test_what_cannot_fit_is_refused() -> None:
    """A thousand different tensors are one clear line."""
    many = [whole(f"tensor_{index:04}", DType.FLOAT32, index + 1) for index in range(1000)]
    with pytest.raises(RecordError, match="the contract of 1000 tensors takes"):
        contract_text(handmade.record(many, []))


def test_contracts_are_found_among_other_parameters() -> None:
    """Only parameters with a number are contracts."""
    config: Any = model_config().ModelConfig()
    artifact = handmade.record(INPUTS, OUTPUTS)
    for key in ("aitune.record.12", "aitune.record.3"):
        config.parameters[key].string_value = contract_text(artifact)
    for key in ("intra_op_thread_count", "aitune.record.x", "aitune.record."):
        config.parameters[key].string_value = "1"
    assert contracts_in(config) == {3: contract_of(artifact), 12: contract_of(artifact)}
    assert list(contracts_in(config)) == [3, 12]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "has no schema_version"),
        (data(schema_version=2), "schema version 2, this aitune reads up to 1"),
        (data(extra=1), "unknown key 'extra'"),
        (data(identity="abc"), "64 hexadecimal digits"),
        (data(batching="maybe"), "batching of a contract must be one of"),
        (data(forms=[["float32", [], []]]), "must be a list of 5"),
        (data(forms=[["float31", [], [], [], None]]), "must be one of bool"),
        (data(forms={}), "must be a list"),
        (data(inputs=[["x", 7]]), "pairs of a name and a form"),
        (data(inputs=[["x", -1]]), "pairs of a name and a form"),
        (data(inputs=[[5, 0]]), "name of a tensor must be a string"),
        (data(probe={}), "lacks the key"),
        (data(format=1), "must be of type str"),
    ],
)
def test_what_is_no_contract_is_refused(text: str, message: str) -> None:
    """Data from a server is data: it is checked, and unknown keys are refused."""
    with pytest.raises(RecordError, match=message):
        parse_contract(text)


def test_a_missing_key_is_named() -> None:
    """Every key is there."""
    found = json.loads(data())
    del found["identity"]
    with pytest.raises(RecordError, match="lacks key 'identity'"):
        parse_contract(json.dumps(found))
