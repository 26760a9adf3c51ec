"""A repository that is a mount point, written by a user who may not write beside it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import handmade
import mounts
import numpy as np
import pytest

from aitune.errors import ServerError
from aitune.records import Artifact, DType
from aitune.records.codec import Document, dumps_document
from aitune.triton import LocalServer, Repository, rollback
from aitune.triton.client import Client, connect
from aitune.triton.endpoint import Endpoint

pytestmark = pytest.mark.server

PUBLISH = """
import sys
from pathlib import Path
from aitune.records.codec import read_document
from aitune.triton import publish
print(publish(read_document(Path(sys.argv[1])).artifact, sys.argv[2], model_name="scale").version)
"""


def publish_as_nobody(artifact: Artifact, root: Path) -> int:
    """Publish in a process of a user without rights; the version."""
    record = artifact.path.parent / "aitune.json"
    record.write_text(dumps_document(Document(artifact=artifact)))
    user = f"--reuid={mounts.NOBODY}"
    group = f"--regid={mounts.NOBODY}"
    command = ["setpriv", user, group, "--clear-groups", sys.executable, "-c", PUBLISH, record, root]
    package = Path(__file__).parents[2]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(package)}, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def answer(client: Client) -> float:
    """What the served weights make of 1; 0 while nothing answers."""
    try:
        found = client.infer("scale", "", {"x": (np.ones((1, 4), np.float32), DType.FLOAT32)}, timeout_s=5)
    except ServerError:
        return 0.0
    return float(found["y"][0, 0])


def wait_for(wanted: float, client: Client) -> float:
    """Ask until the wanted answer comes; the last answer."""
    deadline = time.monotonic() + 20
    while (found := answer(client)) != wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def test_a_mount_point_is_published_into_by_anyone_who_may_write_there(tmp_path: Path) -> None:
    """First version, second version and rollback reach a polling server, and nothing is left lying about."""
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:2]:
        parent.chmod(0o755)
    first = handmade.scale(tmp_path / "a", 2.0, external="w.bin")
    second = handmade.scale(tmp_path / "b", 3.0, external="w.bin")
    for artifact in (first, second):
        (artifact.path.parent / "w.bin").chmod(0o644)
    with (
        mounts.tmpfs(tmp_path / "root", owner=mounts.NOBODY) as root,
        LocalServer(root, poll=True) as server,
        connect(Endpoint.parse(f"grpc://{server.grpc}")) as client,
    ):
        assert publish_as_nobody(first, root) == 1
        assert wait_for(2.0, client) == 2.0
        assert publish_as_nobody(second, root) == 2
        assert wait_for(3.0, client) == 3.0
        rollback(root, "scale", 1)
        assert wait_for(2.0, client) == 2.0
        assert sorted(path.name for path in root.iterdir()) == ["aitune_history.jsonl", "scale"]
        assert sorted(path.name for path in (root / "scale").iterdir()) == ["1", "2", "config.pbtxt"]
        assert Repository(root).model("scale").current == 1
