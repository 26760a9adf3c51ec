"""Records survive JSON, and JSON that is not a record is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from strategies import artifacts

from aitune.errors import RecordError
from aitune.records import Artifact, DType, ONNXArtifact, TunedTensorSpec
from aitune.records.codec import (
    Document,
    dump,
    dump_artifact,
    dumps_document,
    load,
    load_artifact,
    loads_document,
    read_document,
)
from aitune.records.evidence import Batching, Evidence, InputDomain, Sample, SampleFile
from aitune.records.interface import Port

SPEC = TunedTensorSpec("x", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4), 0)
ARTIFACT = ONNXArtifact(
    path=Path("f/m.onnx"),
    fingerprint="0" * 64,
    inputs=(SPEC,),
    outputs=(SPEC,),
    evidence=Evidence(batching=Batching(verdict="batched", reason="it does")),
)


@settings(max_examples=150, deadline=None)
@given(artifacts())
def test_a_document_comes_back_as_it_was(artifact: Artifact) -> None:
    """load(dump(x)) == x for every record, evidence included."""
    document = Document(artifact=artifact, config='name: "é"\n')
    again = loads_document(dumps_document(document), Path("f"))
    assert again == document
    assert again.artifact.evidence == artifact.evidence
    assert type(again.artifact) is type(artifact)


def changed(path: str, value: Any) -> str:
    """The document of ARTIFACT with one entry replaced (or removed, with ``...``)."""
    data = json.loads(dumps_document(Document(artifact=ARTIFACT)))
    *parents, last = path.split(".")
    place = data
    for key in parents:
        place = place[int(key) if key.isdigit() else key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("extra", 1, "aitune.json has the unknown key 'extra'"),
        ("artifact.extra", 1, "artifact has the unknown key 'extra'"),
        ("artifact.inputs.0.extra", 1, r"artifact.inputs\[0\] has the unknown key 'extra'"),
        ("artifact.evidence.batching.extra", 1, "artifact.evidence.batching has the unknown key"),
        ("artifact.fingerprint", ..., "artifact lacks the key 'fingerprint'"),
        ("artifact.inputs.0.dtype", ..., r"artifact.inputs\[0\] lacks the key 'dtype'"),
        ("schema_version", ..., "needs a schema_version"),
        ("schema_version", 2, "has schema version 2, this aitune reads up to 1"),
        ("schema_version", 0, "which never existed"),
        ("schema_version", "1", "needs a schema_version"),
        ("artifact.format", "onyx", "format of an artifact must be one of"),
        ("artifact.format", ["onnx"], "format of an artifact must be one of"),
        ("artifact.file", "../m.onnx", "file of an artifact must be a plain file name"),
        ("artifact.file", "/m.onnx", "file of an artifact must be a plain file name"),
        ("artifact.inputs", {}, "artifact.inputs must be a list"),
        ("artifact.inputs.0.dtype", "float99", "must be one of bool, uint8"),
        ("artifact.inputs.0.shape", ["batch", True], "must be one of"),
        ("artifact.inputs.0.shape", ["batch", 4.5], "must be one of"),
        ("artifact.inputs.0.min_shape", ["1", 4], "must be of type int"),
        ("artifact.inputs.0.batch_axis", 7, "batch_axis of tensor 'x'"),
        ("artifact.inputs", [[]], "must be an object"),
        ("artifact.evidence.batching.verdict", "maybe", "verdict must be"),
        ("artifact.evidence.provenance", [["a"]], "must have 2 entries"),
        ("config", 3, "config must be of type str"),
    ],
)
def test_what_is_not_a_record_is_refused_and_located(path: str, value: Any, message: str) -> None:
    """The error names the place."""
    with pytest.raises(RecordError, match=message):
        loads_document(changed(path, value), Path("f"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "nested too deeply|is not JSON"),
        ('{"schema_version": 1, "schema_version": 1}', "a key twice"),
        ('{"schema_version": NaN}', "holds NaN"),
        ("[]", "needs a schema_version"),
    ],
)
def test_broken_json_is_one_clear_line(text: str, message: str) -> None:
    """No traceback of the parser reaches the user."""
    with pytest.raises(RecordError, match=message):
        loads_document(text, Path("f"))


def test_numbers_that_are_not_finite_do_not_get_in_or_out() -> None:
    """1e999 is infinite once read."""
    domain = {"name": "x", "typical_shape": [1], "low": 0, "high": 1, "zeros_valid": False}
    assert load(InputDomain, domain).high == 1.0
    with pytest.raises(RecordError, match=r"domain.high must be finite"):
        load(InputDomain, domain | {"high": float("inf")}, "domain")
    with pytest.raises(RecordError, match="finite low <= high"):
        InputDomain(name="x", typical_shape=(1,), low=2.0, high=1.0)
    with pytest.raises(TypeError, match="a record cannot hold"):
        dump(object())


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, binary and foreign files each get one line with the path."""
    for name, data in {"absent": None, "binary": b"\xff\xfe", "foreign": b"{}"}.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(RecordError, match=f"record .*{name}.* cannot be"):
            read_document(tmp_path / name)


def test_a_document_read_from_disk_points_at_the_model_beside_it(tmp_path: Path) -> None:
    """The path is made from the folder and the plain file name."""
    (tmp_path / "aitune.json").write_text(dumps_document(Document(artifact=ARTIFACT)), encoding="utf-8")
    assert read_document(tmp_path / "aitune.json").artifact.path == tmp_path / "m.onnx"
    assert load_artifact(dump_artifact(ARTIFACT), tmp_path).path == tmp_path / "m.onnx"


def test_small_records_check_their_own_values() -> None:
    """Labels, origins, kinds and names are closed sets."""
    with pytest.raises(RecordError, match="label of a sample"):
        Sample(label="tiny", origin="synthetic", inputs=(), outputs=())
    with pytest.raises(RecordError, match="origin of a sample"):
        Sample(label="typical", origin="stolen", inputs=(), outputs=())
    with pytest.raises(RecordError, match="plain file name"):
        SampleFile(name="../x", fingerprint="0" * 64, samples=())
    with pytest.raises(RecordError, match="fingerprint of a sample file"):
        SampleFile(name="x", fingerprint="0", samples=())
    with pytest.raises(RecordError, match="kind of port"):
        Port(name="x", kind="pipe")
    with pytest.raises(RecordError, match="typical shape"):
        InputDomain(name="x", typical_shape=(0,))
    assert Batching(verdict="batched", reason="").proved
