"""``status`` on a real server: what is there, what drifted, and that nothing was touched."""

from __future__ import annotations

import json
import shutil

import pytest

from aitune.cli import main
from aitune.triton.client import connect
from aitune.triton.endpoint import Endpoint
from aitune.triton.server import LocalServer

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def served(make_bench, tmp_path_factory):
    """Two models, one of them in its second version."""
    bench = make_bench(tmp_path_factory.mktemp("status"))
    bench.publish(bench.linear(0))
    bench.publish(bench.linear(1))
    bench.publish(bench.linear(0), "other")
    with LocalServer(bench.repository) as server:
        yield bench, server


def test_every_model_is_listed_with_its_proof(served, capsys) -> None:
    """One request a version was answered, and none failed."""
    bench, server = served
    with connect(Endpoint.parse(server.http)) as client:
        before = client.statistics("other", "1")
        code = main(["status", "-u", server.http, str(bench.repository), "--format", "json"])
        grown = client.statistics("other", "1").since(before)
    found = json.loads(capsys.readouterr().out)
    assert (code, found["drifted"], found["requests"]) == (0, False, 2)
    assert [(row["name"], row["version"]) for row in found["models"]] == [("linear", "2"), ("other", "1")]
    assert all(row["ready"] and row["claimed"] == row["proved"] != "" for row in found["models"])
    assert (grown.succeeded, grown.failed) == (1, 0)


def test_drift_from_a_repository_is_a_verdict(served, tmp_path, capsys) -> None:
    """It went back to version 1, lost a model, and the server knows nothing of it."""
    from aitune.triton.restoration import rollback

    bench, server = served
    copy = tmp_path / "copy"
    shutil.copytree(bench.repository, copy)
    rollback(copy, "linear", version=1)
    shutil.rmtree(copy / "other")
    assert main(["status", str(copy), "-u", f"grpc://{server.grpc}"]) == 1
    out = capsys.readouterr().out
    assert "linear version 1: published, not served" in out
    assert "linear version 2: version 2 is served, the repository has 1 served" in out
    assert "other version 1: served, but not in the repository" in out


def test_weights_that_were_replaced_are_told_from_the_answers(make_bench, tmp_path, capsys) -> None:
    """The config says A, the probe shows B."""
    bench = make_bench(tmp_path)
    folder = bench.publish(bench.linear(0))
    shutil.copy(bench.linear(1).path, folder / "model.onnx")
    with LocalServer(bench.repository) as server:
        assert main(["status", "-u", server.http]) == 1
    assert "other weights answer" in capsys.readouterr().out


def test_restricted_endpoints_are_skips(make_bench, tmp_path, capsys) -> None:
    """What the operator closed is said, and is no drift."""
    bench = make_bench(tmp_path)
    bench.publish(bench.linear(0))
    closed = ("--http-restricted-api=model-config,model-repository:key=secret",)
    with LocalServer(bench.repository, extra_args=closed) as server:
        assert main(["status", "-u", server.http, str(bench.repository), "-v"]) == 0
        caught = capsys.readouterr()
        assert "does not list its models" in caught.err
        assert "linear version 1: config: " in caught.err
        assert main(["status", "-u", server.http, "--header", "key: secret", "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["models"][0]["proved"]


def test_without_an_address_it_is_bad_usage(capsys, monkeypatch) -> None:
    """The line says what to give; a server that is not there is exit 3."""
    monkeypatch.delenv("TRITON_URL", raising=False)
    assert main(["status"]) == 2
    assert "--url" in capsys.readouterr().err
    assert main(["status", "-u", "127.0.0.1:9"]) == 3
