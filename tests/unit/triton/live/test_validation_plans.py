"""A TensorRT plan on a server that cannot serve it."""

from __future__ import annotations

import pytest

from aitune.triton.client_records import IndexEntry
from aitune.triton.repository import Repository
from aitune.triton.targets import _of_repository


@pytest.mark.parametrize(
    ("backend", "state", "expected"),
    [
        ("tensorrt", "UNAVAILABLE", "a TensorRT plan is served on a GPU by NVIDIA's TensorRT backend only, and this "
         "server says: Invalid argument: unable to find backend library"),
        ("onnxruntime", "UNAVAILABLE", "Invalid argument: unable to find backend library"),
        ("tensorrt", "READY", ""),
    ],
)  # fmt: skip
def test_one_line_says_why_a_plan_is_not_served(tmp_path, backend: str, state: str, expected: str) -> None:
    """What every plan needs, then the server's own words; nothing is said of one that is served."""
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "config.pbtxt").write_text(
        f'backend: "{backend}"\nversion_policy {{ specific {{ versions: [1] }} }}'
    )
    (model,) = Repository(tmp_path).models()
    row = IndexEntry(
        name="m",
        version="1",
        state=state,
        reason="Invalid argument: unable to\nfind backend library" if expected else "",
    )
    (target,) = _of_repository(model, (row,))
    assert target.trouble == expected
