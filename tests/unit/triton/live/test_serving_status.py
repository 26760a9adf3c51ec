"""The table of what a server serves, against a Triton in memory."""

from __future__ import annotations

import copy

import pytest

from aitune.triton.client_errors import EndpointRestricted, InferenceRefused, ModelAbsent
from aitune.triton.client_records import IndexEntry
from aitune.triton.serving_status import status_of
from aitune.triton.sessions import Session


@pytest.fixture
def look(stage, tmp_path):
    """The status of the stage's server; what is published lies in a repository where ``against`` says so."""

    def look(against=None, models=()):
        session = Session(clients={"grpc": stage.client()}, local=None, label="grpc://fake:1")
        return status_of(session, against, models)

    return look


@pytest.fixture
def repository(stage, tmp_path):
    """The stage's model as it was published."""
    from aitune.triton.publication import publish

    stage.artifact.path.write_bytes(b"weights")
    from dataclasses import replace

    from aitune.records.fingerprints import fingerprint_file

    artifact = replace(stage.artifact, fingerprint=fingerprint_file(stage.artifact.path))
    root = tmp_path / "repository"
    publish(artifact, root, model_name="m")
    from aitune.triton.repository import Repository

    (model,) = Repository(root).models()
    stage.fake.config = copy.deepcopy(model.config)
    return root


def test_what_a_server_says_and_proves_is_listed(stage, look) -> None:
    """One probe is sent, and nothing drifts."""
    found = look()
    (row,) = found.models
    assert (row.name, row.version, row.ready, row.drift) == ("m", "1", True, ())
    assert row.claimed == row.proved == "a" * 64
    assert (found.triton, found.requests, stage.fake.sent, found.drifted) == ("2.51.0", 1, 1, False)
    assert found.to_json()["models"][0]["proved"] == "a" * 64


def test_a_claim_that_the_answers_do_not_prove_is_drift(stage, look) -> None:
    """Also without a repository."""
    stage.fake.change = lambda answer, inputs: {"y": answer["y"] + 1}
    (row,) = look().models
    assert (row.claimed, row.proved) == ("a" * 64, "")
    assert "claimed aaaaaaaaaaaa, but other weights answer" in row.drift[0]


def test_a_server_that_serves_what_was_published_has_no_drift(look, repository) -> None:
    """Config, version and fingerprint."""
    found = look(repository)
    assert not found.drifted, found.models


def test_a_changed_config_is_drift(stage, look, repository) -> None:
    """The line gives both values."""
    stage.fake.config.dynamic_batching.max_queue_delay_microseconds = 777
    (row,) = look(repository).models
    assert row.drift[0].startswith("config: dynamic_batching.max_queue_delay_microseconds: published")
    assert "served '777'" in row.drift[0]


def test_another_version_is_drift_on_both_sides(stage, look, repository) -> None:
    """One is missing, one is too many."""
    stage.fake.version = "3"
    missing, other = look(repository).models
    assert missing.drift == ("published, not served: version 1 is not on the server",)
    assert "version 3 is served, the repository has 1 served" in other.drift
    assert not missing.ready


def test_a_lost_record_is_drift(stage, look, repository) -> None:
    """Somebody cleaned the parameters."""
    stage.fake.config.parameters.clear()
    (row,) = look(repository).models
    assert "record: the served config carries none" in row.drift


def test_a_model_that_nobody_published_is_drift_only_against_a_repository(stage, look, tmp_path) -> None:
    """Without one there is nothing to drift from."""
    stage.fake.config.parameters.clear()
    (row,) = look().models
    assert (row.claimed, row.drift) == ("", ())
    assert row.skipped == ("nothing is claimed: the model was not published by aitune",)
    (tmp_path / "empty").mkdir()
    (row,) = look(tmp_path / "empty").models
    assert row.drift == ("served, but not in the repository",)


def test_a_model_that_is_not_loaded_says_why(stage, look) -> None:
    """In the server's words."""
    stage.fake.index = lambda: (IndexEntry(name="m", version="1", state="UNAVAILABLE", reason="no backend"),)
    (row,) = look().models
    assert (row.ready, row.reason, row.drift) == (False, "no backend", ())


def test_a_model_that_is_unloaded_meanwhile_is_not_ready(stage, look) -> None:
    """That is no error."""

    def gone():
        raise ModelAbsent("it is gone")

    stage.fake.config_ = gone
    (row,) = look().models
    assert (row.ready, row.reason) == (False, "it is gone")


def test_what_the_operator_closed_is_a_skip_with_its_reason(stage, look) -> None:
    """The config, the list of models, the name of the server."""

    def closed(*args):
        raise EndpointRestricted("it is restricted")

    stage.fake.config_ = closed
    assert look().models[0].skipped == ("config: it is restricted",)
    stage.fake.index = stage.fake.server = closed
    found = look(models=["m"])
    assert [row.version for row in found.models] == ["1"]
    assert found.skipped == (
        "the server does not list its models: it is restricted",
        "the server does not say which it is: it is restricted",
    )
    assert look().models == ()


def test_a_record_that_cannot_be_read_is_drift(stage, look) -> None:
    """It is what the server claims, so it is the server's fault."""
    stage.fake.config.parameters["aitune.record.1"].string_value = "{}"
    assert look().models[0].drift == ("record: the contract in the config has no schema_version",)


def test_a_probe_that_is_refused_is_drift(stage, look) -> None:
    """The recorded question must get an answer."""

    def refuse(answer, inputs):
        raise InferenceRefused("no")

    stage.fake.change = refuse
    assert "the probe was refused: no" in look().models[0].drift[0]


def test_at_most_twenty_requests_are_sent_to_a_whole_server(stage, look) -> None:
    """Later models are listed, and said not to be proved."""
    stage.fake.index = lambda: tuple(
        IndexEntry(name=f"m{number:02}", version="1", state="READY", reason="") for number in range(25)
    )
    found = look()
    assert stage.fake.sent == found.requests == 20
    assert [bool(row.proved) for row in found.models] == [True] * 20 + [False] * 5
    assert "at most 20 requests" in found.models[-1].skipped[0]
    assert not found.drifted
