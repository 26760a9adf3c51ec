"""Every labelled repository, loaded through the shipped backend on a real server.

The labels say what NVIDIA's C++ backend did. Verdicts must be the same, but for the differences between releases of
ONNX Runtime that ``tests/cases/backend_differences.json`` lists with a reason each.

Many repositories share one server; those that crash or hang a whole server get one of their own. The short run leaves
out what never reaches a backend, and in strict mode all that the labels do not tell apart from the default mode.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aitune.errors import ServerError
from aitune.triton.server import LocalServer
from aitune.triton.server_http import ModelState

pytestmark = pytest.mark.server

CASES = Path(__file__).resolve().parents[2] / "cases"
LABELS: dict[str, Any] = json.loads((CASES / "check" / "labels.json").read_text(encoding="utf-8"))
DIFFERENCES: dict[str, Any] = json.loads((CASES / "backend_differences.json").read_text(encoding="utf-8"))
ALONE = ("label_is_directory", "lay_config_is_directory", "lay_dangling_in_root", "py_file_missing")
TOGETHER = 52

Verdicts = dict[str, tuple[bool, str]]


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All repositories, one folder each."""
    folder = tmp_path_factory.mktemp("cases")
    with tarfile.open(CASES / "check" / "handed_cases.tar.gz") as archive:
        archive.extractall(folder, filter="fully_trusted")  # links to nowhere belong to the cases
    return folder


def is_core_business(case: str, mode: str) -> bool:
    """Whether Triton's core refuses the case before any backend sees it."""
    return "Poll failed" in LABELS[case][mode]["reason"]


def expected(case: str, mode: str) -> bool:
    """Whether the case loads here."""
    return bool(DIFFERENCES.get(case, LABELS[case])[mode] if case in DIFFERENCES else LABELS[case][mode]["loads"])


def verdicts(cases: Iterable[str], unpacked: Path, scratch: Path, *, strict: bool) -> Verdicts:
    """For each case whether every directory of its repository became a ready model, and why not."""
    found: Verdicts = {}
    names = sorted(cases)
    groups = [list(group) for group in _batched([name for name in names if name not in ALONE], TOGETHER)]
    for number, group in enumerate([*groups, *([name] for name in names if name in ALONE)]):
        root = scratch / f"{'strict' if strict else 'default'}-{number}"
        models = {case: _add(unpacked / case, root) for case in group}
        found |= _judge(models, root, strict=strict, hangs=group == ["py_file_missing"])
    return found


def _batched(names: list[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(names[start : start + size]) for start in range(0, len(names), size))


def _add(case: Path, root: Path) -> list[str]:
    """Copy a case's repository into a common one; the names of its models."""
    root.mkdir(exist_ok=True)
    for entry in case.iterdir():
        target = root / entry.name
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, target, symlinks=True)
        elif not target.exists():
            shutil.copy2(entry, target, follow_symlinks=False)
    return [entry.name for entry in case.iterdir() if entry.is_dir() and not entry.is_symlink()]


def _judge(models: dict[str, list[str]], root: Path, *, strict: bool, hangs: bool) -> Verdicts:
    try:
        with LocalServer(root, strict=strict, ready_timeout_s=8 if hangs else 200) as server:
            rows = server.models()
    except ServerError as error:
        if len(models) > 1:  # the fault of one of them, and it belongs into ALONE
            raise
        return dict.fromkeys(models, (False, str(error)))
    return {case: _verdict(names, rows) for case, names in models.items()}


def _verdict(names: list[str], rows: tuple[ModelState, ...]) -> tuple[bool, str]:
    ready = {row.name for row in rows if row.ready}
    reasons = [row.reason for row in rows if row.name in names and not row.ready]
    return bool(names) and ready >= set(names), "; ".join(reasons)


def unexplained(found: Verdicts, mode: str) -> list[str]:
    """The cases whose verdict is neither the label's nor a listed difference."""
    return [
        f"{case} ({mode}): expected loads={expected(case, mode)}, got {loads}: {reason or LABELS[case][mode]['reason']}"
        for case, (loads, reason) in found.items()
        if loads != expected(case, mode)
    ]


@pytest.mark.timeout(900)
def test_every_case_that_reaches_a_backend_gets_the_labels_verdict(unpacked: Path, tmp_path: Path) -> None:
    """Default mode, and strict mode where the label differs: no verdict is unexplained, and no refusal is mute."""
    reaching = {case for case in LABELS if not is_core_business(case, "default")}
    found = verdicts(reaching, unpacked, tmp_path, strict=False)
    assert unexplained(found, "default") == []
    assert [case for case, (loads, reason) in found.items() if not loads and not reason] == []
    differing = {case for case in reaching if LABELS[case]["strict"]["loads"] != LABELS[case]["default"]["loads"]}
    assert unexplained(verdicts(differing, unpacked, tmp_path, strict=True), "strict") == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["default", "strict"])
@pytest.mark.timeout(900)
def test_every_case_gets_the_labels_verdict(unpacked: Path, tmp_path: Path, mode: str) -> None:
    """All 260 repositories in both modes."""
    found = verdicts(LABELS, unpacked, tmp_path, strict=mode == "strict")
    assert len(found) == 260
    assert unexplained(found, mode) == []


@pytest.mark.parametrize("case", sorted(DIFFERENCES))
def test_a_listed_difference_is_one(case: str) -> None:
    """A difference names a case, says something else than its label, and gives a reason."""
    said = {mode: LABELS[case][mode]["loads"] for mode in ("default", "strict")}
    assert {mode: DIFFERENCES[case][mode] for mode in said} != said
    assert len(DIFFERENCES[case]["reason"]) > 20
