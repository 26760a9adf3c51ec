"""A small file system of its own, where this machine lets us make one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


@contextmanager
def tmpfs(folder: Path, *, size: str = "8m", owner: int = 0) -> Iterator[Path]:
    """Mount a tmpfs on ``folder``; the test is skipped where that is not allowed."""
    folder.mkdir()
    options = f"size={size},mode=0755,uid={owner},gid={owner}"
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False
        ).returncode
    )
    if not mounted:
        pytest.skip("mounting a file system is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
