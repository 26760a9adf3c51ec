"""The files of a report are whole, or they are not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aitune.records import fingerprints
from aitune.triton.report_files import write_texts


def test_an_interrupt_leaves_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stood there before stands there still."""
    write_texts(tmp_path, {"a.json": "old"})

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fingerprints.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_texts(tmp_path, {"a.json": "new", "b.json": "new"})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.json": "old"}


def test_a_name_that_is_not_utf8_is_escaped(tmp_path: Path) -> None:
    """A report quotes paths, and bytes of a path need not be text."""
    (path,) = write_texts(tmp_path, {"a.txt": os.fsdecode(b"caf\xe9")})
    assert path.read_text() == "caf\\udce9"
