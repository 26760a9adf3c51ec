"""From a session to a report: which versions, which checks, and what a broken check means."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitune.errors import ArtifactIntegrityError, ProgramError, RepositoryError, ServerError, UsageError
from aitune.triton import validation
from aitune.triton.checks_live.numbers import check_numbers
from aitune.triton.client_errors import (
    EndpointRestricted,
    InferenceRefused,
    ModelAbsent,
    ServerTimeout,
    ServerUnreachable,
)
from aitune.triton.client_records import IndexEntry
from aitune.triton.progress import SILENT
from aitune.triton.sessions import Session
from aitune.triton.subjects import Published
from aitune.triton.targets import Target, find_targets
from aitune.triton.validation import _examine, _guarded, _guess_sizes, _reference, validate

CONFIG = 'backend: "onnxruntime" max_batch_size: 4 version_policy { specific { versions: [1, 2] } }\n'


def session_of(stage) -> Session:
    """A session with a server that is not ours."""
    return Session(clients={"grpc": stage.client("grpc"), "http": stage.client("http")}, local=None, label="fake")


def examine(stage, target: Target, intrusive: bool = True):
    """All quick checks of one target."""
    return _examine(session_of(stage), None, "quick", False, intrusive, None, SILENT, target)


def test_a_model_that_is_right_passes_every_check(stage) -> None:
    """The report has them in order, with what was claimed, proved and sent."""
    report = examine(stage, Target(model="m", version="1", published=stage.published))
    assert [check.name for check in report.checks] == list(validation.checks_of("quick"))
    assert (report.status, report.claimed, report.proved) == ("pass", "a" * 64, "a" * 64)
    assert report.requests >= stage.fake.sent > 20


def test_a_target_in_trouble_is_not_asked(stage) -> None:
    """The reason is the report."""
    report = examine(stage, Target(model="m", version="1", trouble="no memory"))
    assert [(check.name, check.detail) for check in report.checks] == [("ready", "no memory")]
    assert stage.fake.sent == 0


def test_a_model_that_is_not_ready_is_asked_nothing_further(stage) -> None:
    """One failure says it all."""
    stage.fake.ready_answer = False
    report = examine(stage, Target(model="m", version="1", published=stage.published))
    assert [check.name for check in report.checks] == ["ready"]


def test_a_contract_that_cannot_be_read_fails(stage) -> None:
    """It is on the server, and it is damaged."""
    stage.fake.config.parameters["aitune.record.1"].string_value = "{"
    report = examine(stage, Target(model="m", version="1", published=stage.published))
    assert report.checks[0].name == "record"
    assert report.status == "fail"


def test_a_model_on_gpus_is_given_more_tolerance(stage, monkeypatch) -> None:
    """Another processor rounds differently."""
    group = stage.fake.config.instance_group[0]
    group.kind = group.Kind.Value("KIND_GPU")
    seen = []
    monkeypatch.setattr(validation, "checks_of", lambda level: {"ready": lambda context: seen.append(context.slack)})
    monkeypatch.setattr(validation, "_guarded", lambda name, check, context: (check(context), True))
    examine(stage, Target(model="m", version="1", published=stage.published))
    assert seen == [10.0]


def test_an_artifact_that_cannot_be_run_here_is_no_reference(stage, tmp_path) -> None:
    """Samples and probe have to do."""

    def refuse(path: Path):
        raise ProgramError("no GPU here")

    (tmp_path / "model.onnx").write_bytes(b"")
    with _reference(stage.subject(), refuse) as run:
        assert "no recorded answers" in check_numbers(stage.context(), run).detail
    with _reference(stage.subject(), None) as run:
        assert run is None


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (EndpointRestricted("closed"), "skip"),
        (InferenceRefused("no"), "fail"),
        (UsageError("shape"), "fail"),
        (ArtifactIntegrityError("tampered"), "fail"),
        (ModelAbsent("gone"), "fail"),
        (ServerTimeout("late"), "fail"),
        (ServerUnreachable("dead"), "fail"),
    ],
)
def test_what_a_check_runs_into_is_its_result(error: Exception, status: str, stage) -> None:
    """On our own server even its death is a verdict."""

    def check(context):
        raise error

    result, gone = _guarded("numbers", check, stage.context())
    assert (result.status, str(error) in result.detail) == (status, True)
    assert gone == isinstance(error, ServerUnreachable)


@pytest.mark.parametrize("error", [ServerTimeout("late"), ServerUnreachable("dead")])
def test_a_strangers_server_that_goes_away_is_no_verdict(error: ServerError, stage) -> None:
    """Exit 3, not 1."""

    def check(context):
        raise error

    stage.own = False
    with pytest.raises(type(error)):
        _guarded("numbers", check, stage.context())


def test_sizes_are_guessed_until_one_is_accepted(stage_of_stranger) -> None:
    """Eight first, then smaller and larger ones."""
    stage = stage_of_stranger(32)
    context = stage.context()
    assert context.subject.source == "config"
    _guess_sizes(context)
    assert context.subject.domains[0].typical_shape == (1, 32)
    assert context.sent == 3


def test_a_guess_that_never_fits_leaves_the_first(stage_of_stranger) -> None:
    """The checks will say that it was refused."""
    context = stage_of_stranger(5).context()
    _guess_sizes(context)
    assert context.subject.domains[0].typical_shape == (1, 8)
    context.own, context.sent = False, 20
    _guess_sizes(context)
    assert context.sent == 20


@pytest.fixture
def stage_of_stranger(make_stage):
    """A stage without any record, whose model accepts one length."""
    from aitune.records import DType, TunedTensorSpec

    def make(length: int):
        x = TunedTensorSpec("x", DType.FLOAT32, ("batch", "length"), (1, 2), (4, 8), 0)
        y = TunedTensorSpec("y", DType.FLOAT32, ("batch", 1), (1, 1), (4, 1), 0)
        stage = make_stage(lambda inputs: {"y": inputs["x"].sum(1, keepdims=True)}, (x,), (y,), {"x": (1, 4)})
        stage.fake.config.parameters.clear()
        stage.published = Published(config=stage.fake.config_())

        def change(answer, inputs):
            if inputs["x"].shape[1] != length:
                raise InferenceRefused("unexpected shape")
            return answer

        stage.fake.change = change
        return stage

    return make


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two models of somebody else: one with two versions, one without any."""
    for version in ("1", "2"):
        (tmp_path / "r" / "m" / version).mkdir(parents=True)
    (tmp_path / "r" / "m" / "config.pbtxt").write_text(CONFIG)
    (tmp_path / "r" / "empty").mkdir()
    (tmp_path / "r" / "empty" / "config.pbtxt").write_text("backend: ")
    return tmp_path / "r"


def row(name: str, version: str, state: str = "READY", reason: str = "") -> IndexEntry:
    """One row of an index."""
    return IndexEntry(name=name, version=version, state=state, reason=reason)


def targets(stage, rows, repository=None, patterns=(), version=None) -> dict[str, str]:
    """Trouble by model and version."""
    stage.fake.index = lambda: rows
    found = find_targets(session_of(stage), repository, patterns, version)
    return {f"{target.model}/{target.version}": target.trouble for target in found}


def test_served_and_published_versions_are_both_looked_at(stage, repository) -> None:
    """What should be there and is not, and what is there and should not be."""
    rows = (row("m", "2"), row("m", "3"), row("other", "1"))
    found = targets(stage, rows, repository)
    assert found["m/1"] == "version 1 is not on the server"
    assert found["m/2"] == found["m/3"] == ""
    assert found["empty/"].startswith("config.pbtxt cannot be parsed")
    assert "other/1" not in found


def test_the_reason_of_a_model_that_did_not_load_is_told(stage, repository) -> None:
    """In one line; a state without a reason is told as such."""
    rows = (row("m", "1", "UNAVAILABLE", "Internal:\n no memory"), row("m", "2", "LOADING"))
    found = targets(stage, rows, repository, ["m"])
    assert found == {"m/1": "Internal: no memory", "m/2": "its state is LOADING"}


def test_without_a_repository_the_index_decides(stage) -> None:
    """Globs and versions select."""
    rows = (row("a1", "1"), row("a2", "1"), row("b", "4"), row("never", ""))
    assert list(targets(stage, rows)) == ["a1/1", "a2/1", "b/4"]
    assert list(targets(stage, rows, patterns=["a*"])) == ["a1/1", "a2/1"]
    assert list(targets(stage, rows, version="4")) == ["b/4"]
    with pytest.raises(UsageError, match="no model matches 'c'"):
        targets(stage, rows, patterns=["c"])


def test_a_restricted_index_needs_a_name(stage) -> None:
    """Then the metadata tells the versions."""

    def closed():
        raise EndpointRestricted("closed")

    stage.fake.index = closed
    with pytest.raises(ServerError, match="does not list its models"):
        find_targets(session_of(stage), None, ["m*"])
    assert [target.version for target in find_targets(session_of(stage), None, ["m"])] == ["1"]


def test_an_empty_repository_is_no_success(stage, tmp_path) -> None:
    """Nothing was validated."""
    with pytest.raises(RepositoryError, match="is empty"):
        targets(stage, (), tmp_path)


def test_arguments_that_make_no_sense_are_refused(tmp_path) -> None:
    """Before any server is started."""
    with pytest.raises(UsageError, match="level must be"):
        validate(tmp_path, level="deep")
    with pytest.raises(RepositoryError, match="does not exist"):
        validate(tmp_path / "none")
