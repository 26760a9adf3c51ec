"""The pipeline tells sources apart, makes artifacts of them and hands them on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from aitune.cli import main
from aitune.errors import (
    ArtifactIntegrityError,
    BatchingError,
    RecordError,
    RepositoryError,
    SourceError,
    UnavailableError,
    UsageError,
)
from aitune.pipeline import Request, SourceKind, build, default_model_name, inspect, kind_of
from aitune.triton import PlanOptions


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    """``y = x @ w`` with a free batch."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 2], np.arange(8, dtype=np.float32))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "linear.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def scalar(tmp_path: Path) -> Path:
    """A model that cannot batch: its output is one number."""
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)],
        "scalar",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
    )
    path = tmp_path / "scalar.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize(
    ("source", "kind", "name"),
    [
        ("nets/resnet50.onnx", SourceKind.ONNX, "resnet50"),
        ("NET.ONNX", SourceKind.ONNX, "NET"),
        ("net.plan", SourceKind.PLAN, "net"),
        ("net.engine", SourceKind.PLAN, "net"),
        ("models/bert/3/aitune.json", SourceKind.RECORD, "bert"),
        ("out/aitune.json", SourceKind.RECORD, "out"),
        ("a/b.py:encoder", SourceKind.PYTHON, "encoder"),
        ("it's.py:f", SourceKind.PYTHON, "f"),
        ("pkg.mod:make", SourceKind.PYTHON, "make"),
    ],
)
def test_a_source_is_told_by_its_form(source: str, kind: SourceKind, name: str) -> None:
    """And a model gets a name from it."""
    assert kind_of(source) is kind
    assert default_model_name(source) == name


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        ("model", "is not of a known form", "give one of: model.onnx"),
        ("net.py", "names no function", "give net.py:function"),
        ("net.pt", "holds weights", "returns \\(module, samples\\)"),
        (".", "is a directory", "give one of"),
        ("a b:c d", "is not of a known form", "give one of"),
    ],
)
def test_what_is_no_source_is_refused_with_a_way_out(source: str, message: str, hint: str) -> None:
    """Weights, folders, and files without a function are common slips."""
    with pytest.raises(SourceError, match=message) as caught:
        kind_of(source)
    assert hint.replace("\\", "") in caught.value.hint


def test_an_onnx_file_becomes_a_published_version(linear: Path, tmp_path: Path) -> None:
    """Proved, rendered, published; the second time nothing changes."""
    request = Request(source=str(linear), tune=False)
    built = build(request, tmp_path / "repository")
    assert (built.publication.result, built.publication.version) == ("created", 1)
    assert built.artifact.max_batch_size == 8
    assert build(request, tmp_path / "repository").publication.result == "unchanged"
    record = tmp_path / "repository" / "linear" / "1" / "aitune.json"
    promoted = build(Request(source=str(record)), tmp_path / "production")
    assert promoted.publication.path == tmp_path / "production" / "linear" / "1"


def test_a_dry_run_touches_nothing(linear: Path, tmp_path: Path) -> None:
    """It says what would be done."""
    built = build(Request(source=str(linear), tune=False), tmp_path / "repository", dry_run=True)
    assert built.publication.result == "created"
    assert "+max_batch_size: 8" in built.publication.diff
    assert not (tmp_path / "repository").exists()


def test_inspecting_writes_nothing(linear: Path) -> None:
    """The record, the config, the warnings."""
    artifact, config, _ = inspect(Request(source=str(linear), tune=False))
    assert artifact.input_names == ("x",)
    assert 'name: "linear"' in config
    assert sorted(path.name for path in linear.parent.iterdir()) == ["linear.onnx"]


def test_a_demanded_batch_that_is_not_there_publishes_nothing(
    scalar: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1, and a document that says refused (decision 2)."""
    repository = tmp_path / "repository"
    argv = ["build", str(scalar), "-r", str(repository), "--max-batch-size", "4", "--format", "json", "--no-progress"]
    assert main(argv) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["result"] == "refused"
    assert document["error"]["code"] == "E_BATCHING"
    assert "'y'" in document["error"]["message"]
    assert not repository.exists()


def test_without_a_demand_a_model_that_cannot_batch_is_served_unbatched(scalar: Path, tmp_path: Path) -> None:
    """The reason is in the record and in the config."""
    built = build(Request(source=str(scalar), tune=False), tmp_path / "repository")
    assert built.artifact.max_batch_size is None
    text = built.publication.config_text
    assert "max_batch_size: 0" in text
    assert "'y'" in text[: text.index("max_batch_size: 0")]


def test_a_bad_model_name_is_found_before_the_work(tmp_path: Path) -> None:
    """No minutes are lost; the source is not even opened."""
    with pytest.raises(UsageError, match="a model cannot be called 'a b'"):
        build(Request(source="absent.onnx"), tmp_path, model_name="a b")


def cast(path: Path) -> Path:
    """BFLOAT16 in, FLOAT out."""
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)],
        "cast",
        [helper.make_tensor_value_info("x", TensorProto.BFLOAT16, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("call", ["build", "inspect"])
def test_a_type_that_the_server_does_not_take_is_found_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Nothing is proved or measured for a server that will never load the model; a newer one gets it."""
    request = Request(source=str(cast(tmp_path / "cast.onnx")), tune=False)
    assert "TYPE_BF16" in inspect(request, options=PlanOptions(triton="26.03"))[1]
    monkeypatch.setattr("aitune.onnx.making.finish", None)
    with pytest.raises(RecordError, match="'x' is bfloat16, which Triton's onnxruntime backend takes from"):
        build(request, tmp_path / "models") if call == "build" else inspect(request)
    assert not (tmp_path / "models").exists()


def test_a_record_that_lies_is_not_promoted(linear: Path, tmp_path: Path) -> None:
    """Changed bytes and demands beyond the proof are refused."""
    build(Request(source=str(linear), tune=False), tmp_path / "repository")
    version = tmp_path / "repository" / "linear" / "1"
    with pytest.raises(BatchingError, match="a batch of 99 was demanded, the record proves 8"):
        build(Request(source=str(version / "aitune.json"), max_batch_size=99), tmp_path / "production")
    (version / "model.onnx").write_bytes(b"other")
    with pytest.raises(ArtifactIntegrityError, match="is not the recorded file"):
        build(Request(source=str(version / "aitune.json")), tmp_path / "production")
    with pytest.raises(RecordError, match="cannot be read"):
        build(Request(source=str(tmp_path / "absent.json")), tmp_path / "production")


def test_a_lost_or_spoiled_record_is_told_by_its_reason(linear: Path, tmp_path: Path) -> None:
    """``validate`` warns of it: what was proved can no longer be told."""
    from aitune.triton import Repository
    from aitune.triton.targets import _published

    build(Request(source=str(linear), tune=False), tmp_path / "repository")
    record = tmp_path / "repository" / "linear" / "1" / "aitune.json"
    for spoil, reason in ((lambda: record.write_text("{", encoding="utf-8"), "not JSON"), (record.unlink, "not there")):
        spoil()
        published = _published(Repository(tmp_path / "repository").model("linear"), "1")
        assert published is not None
        assert published.artifact is None
        assert reason in published.record_trouble


def test_samples_of_a_file_or_a_function_replace_those_of_the_source(linear: Path, tmp_path: Path) -> None:
    """Ranges come from them, and a wrong form is refused."""
    np.savez(tmp_path / "samples.npz", **{"x#0": np.zeros((1, 4), np.float32), "x#1": np.ones((3, 4), np.float32)})
    (tmp_path / "user.py").write_text(
        "import numpy as np\ndef samples():\n    while True:\n        yield {'x': np.ones((2, 4), np.float32)}\n",
        encoding="utf-8",
    )
    for samples in (f"{tmp_path}/samples.npz", f"{tmp_path}/user.py:samples"):
        artifact, _, _ = inspect(Request(source=str(linear), tune=False, samples=samples))
        assert artifact.inputs[0].shape == ("batch", 4)
    with pytest.raises(UsageError, match="is not of a known form"):
        inspect(Request(source=str(linear), samples="samples.txt"))
    with pytest.raises(UsageError, match="has its own names"):
        inspect(Request(source=str(linear), output_names=("z",)))


def test_the_documents_of_inspect_and_build_hold_the_stable_keys(
    linear: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One JSON document on stdout, with the keys of the design."""
    assert main(["inspect", str(linear), "--format", "json"]) == 0
    inspected: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert main(["build", str(linear), "-r", str(tmp_path / "r"), "--no-tune", "--format", "json"]) == 0
    built: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert {"model", "artifact", "max_batch_size", "batching", "tuning"} <= set(inspected)
    assert {"result", "version", "repository", "path"} <= set(built) - set(inspected)
    assert built["batching"]["verdict"] == "batched"
    assert built["tuning"] is None
    assert built["artifact"]["inputs"][0]["max_shape"] == [8, 4]


def test_a_person_reads_tensors_verdict_and_what_comes_next(
    linear: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exact commands for this model (serve, curl, Python)."""
    assert main(["build", str(linear), "-r", str(tmp_path / "r"), "--no-tune", "-m", "lin"]) == 0
    out = capsys.readouterr().out
    for text in ("[batch, 4]", "batched: ", "created: ", "docker run", "v2/models/lin/infer", 'client.infer("lin"'):
        assert text in out
    assert main(["build", str(linear), "-r", str(tmp_path / "r"), "--no-tune", "-m", "lin", "--dry-run"]) == 0
    assert "no change" in capsys.readouterr().out
    assert main(["render", str(tmp_path / "r/lin/1/aitune.json"), "--as-published"]) == 0
    assert capsys.readouterr().out == (tmp_path / "r/lin/config.pbtxt").read_text(encoding="utf-8")
    assert main(["render", str(tmp_path / "r/lin/1/aitune.json"), "-m", "other", "--setting", "a=b"]) == 0
    assert 'name: "other"' in capsys.readouterr().out
    assert main(["render", str(tmp_path / "r/lin/1/aitune.json"), "--setting", "a"]) == 2
    assert main(["inspect", str(linear)]) == 0
    assert "config.pbtxt" in capsys.readouterr().out


def test_versions_are_listed_and_rolled_back(
    linear: Path, scalar: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two versions, one served; then the other."""
    repository = str(tmp_path / "r")
    for source in (linear, scalar):
        assert main(["build", str(source), "-r", repository, "--no-tune", "-m", "m", "-q"]) == 0
    capsys.readouterr()
    assert main(["versions", repository, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["versions"]
    assert [(row["version"], row["served"], row["max_batch_size"]) for row in rows] == [(1, False, 8), (2, True, 0)]
    assert main(["rollback", repository, "-m", "m", "--to", "1"]) == 0
    assert "serves version 1" in capsys.readouterr().out
    assert main(["rollback", repository, "-m", "m", "--to", "1", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"] == "unchanged"
    assert main(["versions", repository, "-m", "m"]) == 0
    assert "yes" in capsys.readouterr().out.splitlines()[2]
    assert main(["rollback", repository, "-m", "m", "--to", "7"]) == 2


def test_a_plan_without_its_record_needs_a_gpu(tmp_path: Path) -> None:
    """Its tensors cannot be read here, with or without TensorRT; the message says what would help (exit 3)."""
    (tmp_path / "m.plan").write_bytes(b"ftrt" + bytes(60))
    with pytest.raises(UnavailableError) as caught:
        inspect(Request(source=str(tmp_path / "m.plan")))
    assert caught.value.exit_code == 3
    assert caught.value.hint


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return print, [{}]", "returns samples only, found"),
        ("return 5", "returned a int"),
        ("return []", "returned no sample"),
        ("return [5]", "sample 0 is a int, not arrays by input name"),
        ("return [{'x': [[1.0, 2, 3, 4], [1]]}]", "that numpy makes no array of"),
    ],
)
def test_samples_of_a_function_that_are_none_are_refused(linear: Path, tmp_path: Path, body: str, message: str) -> None:
    """What a function gives instead of samples is named; nothing is made up in its place."""
    source = tmp_path / "given.py"
    source.write_text(f"def samples():\n    {body}\n", encoding="utf-8")
    with pytest.raises(SourceError, match=message):
        inspect(Request(source=str(linear), samples=f"{source}:samples", tune=False))


def test_what_the_users_code_prints_is_no_result(
    linear: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also a generator that prints while its samples are taken."""
    source = tmp_path / "loud.py"
    source.write_text("def samples():\n    print('loud')\n    yield {'x': [[1.0, 2, 3, 4]]}\n", encoding="utf-8")
    inspect(Request(source=str(linear), samples=f"{source}:samples", tune=False))
    out, err = capfd.readouterr()
    assert (out, "loud" in err) == ("", True)


@pytest.mark.parametrize("place", ["file", "file/below", "x" * 300])
def test_a_place_that_cannot_take_a_model_is_found_before_any_work(tmp_path: Path, place: str) -> None:
    """The model is not even read: it does not exist."""
    (tmp_path / "file").touch()
    with pytest.raises(RepositoryError, match=r"is a file|too long"):
        build(Request(source="missing.onnx"), tmp_path / place)


def test_a_place_without_permission_is_found_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run, which writes nothing, goes on."""
    monkeypatch.setattr("aitune.pipeline.os.access", lambda path, mode: False)
    with pytest.raises(RepositoryError, match="permission denied"):
        build(Request(source="missing.onnx"), tmp_path / "models")
    with pytest.raises(SourceError, match="does not exist"):
        build(Request(source="missing.onnx"), tmp_path / "models", dry_run=True)
