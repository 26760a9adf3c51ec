"""Publishing onto disks that are full, closed or in use by somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import handmade
import mounts
import pytest

from aitune.errors import RepositoryError
from aitune.records.codec import Document, dumps_document
from aitune.triton import Repository, publish
from aitune.triton.history import locked_history

PUBLISH = """
import sys
from pathlib import Path
from aitune.errors import AituneError
from aitune.records.codec import read_document
from aitune.triton import publish
try:
    print(publish(read_document(Path(sys.argv[1])).artifact, sys.argv[2], model_name="m").version)
except AituneError as error:
    sys.exit(f"{error} ({error.hint})")
"""


def publish_elsewhere(record: Path, root: Path, *prefix: str) -> subprocess.Popen[str]:
    """Publish the artifact of a record in a process of its own."""
    package = Path(__file__).parents[2]
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", PUBLISH, record, root],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(package)},
        cwd="/",
    )


def recorded(folder: Path, content: bytes) -> Path:
    """An artifact's record in a file."""
    artifact = handmade.fake(folder, content)
    path = folder / "aitune.json"
    path.write_text(dumps_document(Document(artifact=artifact)))
    return path


def test_a_full_file_system_keeps_what_it_had(tmp_path: Path) -> None:
    """A version that does not fit is refused in one line, and every byte of it is gone again."""
    with mounts.tmpfs(tmp_path / "root", size="1m") as root:
        publish(handmade.fake(tmp_path / "a", bytes(400_000)), root, model_name="m")
        before = os.statvfs(root).f_bfree
        with pytest.raises(RepositoryError, match="no space left on device"):
            publish(handmade.fake(tmp_path / "b", bytes(900_000)), root, model_name="m")
        assert os.statvfs(root).f_bfree == before
        assert Repository(root).model("m").current == 1
        assert sorted(path.name for path in (root / "m").iterdir()) == ["1", "config.pbtxt"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_closed_directory_is_one_line(tmp_path: Path) -> None:
    """Who may not write into the repository is told so, with the path."""
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    record = recorded(tmp_path / "a", b"1")
    (tmp_path / "root").mkdir()
    user = ("setpriv", f"--reuid={mounts.NOBODY}", f"--regid={mounts.NOBODY}", "--clear-groups")
    _, error = publish_elsewhere(record, tmp_path / "root", *user).communicate()
    assert error.startswith(f"cannot publish 'm' into '{tmp_path}/root': permission denied")
    assert error.endswith("(allow this user to write there)\n")
    assert list((tmp_path / "root").iterdir()) == []


def test_two_publishers_at_once_get_different_numbers(tmp_path: Path) -> None:
    """Both versions are there, complete, and one of them is served."""
    records = [recorded(tmp_path / str(index), str(index).encode()) for index in range(4)]
    processes = [publish_elsewhere(record, tmp_path / "root") for record in records]
    answers = sorted(process.communicate()[0].strip() for process in processes)
    assert answers == ["1", "2", "3", "4"]
    model = Repository(tmp_path / "root").model("m")
    assert model.versions == (1, 2, 3, 4)
    assert len({document.artifact.identity for document in model.documents.values()}) == 4


def test_waiting_for_another_publisher_ends(tmp_path: Path) -> None:
    """Somebody who holds the repository for too long is named as the reason."""
    root = tmp_path / "root"
    publish(handmade.fake(tmp_path / "a"), root, model_name="m")
    with locked_history(root), pytest.raises(RepositoryError, match=r"has not ended within 0\.2 s"):
        publish(handmade.fake(tmp_path / "b", b"2"), root, model_name="m", lock_timeout_s=0.2)
