"""What `check` says about memory, held against what a live server takes."""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitune.errors import ServerError
from aitune.triton.check import check_repository
from aitune.triton.check.rules import demand
from aitune.triton.server import LocalServer

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]

CONFIG = """backend: "python"
max_batch_size: %s
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }
instance_group { kind: KIND_CPU count: 1 }
%s
"""
MODEL = """import triton_python_backend_utils as u
class TritonPythonModel:
    def execute(self, requests):
        return [u.InferenceResponse(output_tensors=[]) for _ in requests]
"""
DIRECT, OLDEST = "sequence_batching { }", "sequence_batching { oldest { } }"
SLOTS = 1_000_000
HUGE = 2_147_483_647
ZEROS = "[ 1000000000000 ]"
STATE = f"sequence_batching {{ state {{ dims: {ZEROS} initial_state {{ name: 'i' dims: {ZEROS} zero_data: true }} }} }}"


def write(root: Path, name: str, size: int, text: str) -> Path:
    """A Python model; returns the root."""
    (root / name / "1").mkdir(parents=True)
    (root / name / "1" / "model.py").write_text(MODEL)
    (root / name / "config.pbtxt").write_text(CONFIG % (size, text))
    return root


def resident_bytes(root: Path) -> int:
    """Memory of a server that loaded a repository."""
    with LocalServer(root) as server:
        assert all(state.ready for state in server.models())
        status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


@contextlib.contextmanager
def limited_memory(more_bytes: int) -> Iterator[None]:
    """A limit for what this process starts, so that nobody else's memory is in danger."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + more_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_slot_takes_what_check_counts(tmp_path: Path) -> None:
    """Bytes a slot of both strategies, from three servers; a million slots of each are safe anywhere."""
    empty, direct, oldest = (
        resident_bytes(write(tmp_path / name, "m", size, text))
        for name, size, text in (("a", 8, ""), ("b", SLOTS, DIRECT), ("c", SLOTS, OLDEST))
    )
    assert (direct - empty) / SLOTS == pytest.approx(demand.DIRECT_SLOT_BYTES, rel=0.1)
    assert (oldest - empty) / SLOTS == pytest.approx(demand.OLDEST_SLOT_BYTES, rel=0.1)


@pytest.mark.parametrize(("size", "text"), [(HUGE, DIRECT), (HUGE, OLDEST), (8, STATE.replace("dims", "data_type: "
                                           "TYPE_FP32 dims"))], ids=["direct", "oldest", "state"])  # fmt: skip
def test_what_check_calls_too_much_kills_the_server(tmp_path: Path, size: int, text: str) -> None:
    """An error is one: the server does not come up."""
    root = write(tmp_path, "m", size, text)
    assert [(one.rule, one.severity) for one in check_repository(root)] == [("A7", "error")]
    with limited_memory(9 << 30), pytest.raises(ServerError, match="crashed"), LocalServer(root):
        pytest.fail("the server came up")


def test_the_same_batch_loads_without_slots(tmp_path: Path) -> None:
    """Neither the dynamic batcher, nor none, nor few sequences cost anything, however large a batch may be."""
    texts = ("", "dynamic_batching { priority_levels: 4000000000 default_priority_level: 1 }",
             "sequence_batching { oldest { max_candidate_sequences: 8 } }")  # fmt: skip
    for index, text in enumerate(texts):
        write(tmp_path, f"m{index}", HUGE, text)
    assert list(check_repository(tmp_path)) == []
    with limited_memory(9 << 30), LocalServer(tmp_path) as server:
        assert [state.ready for state in server.models()] == [True] * len(texts)
