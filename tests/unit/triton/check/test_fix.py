"""Corrections on the text."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from aitune.errors import RepositoryError
from aitune.onnx.served import read_served
from aitune.triton.check import Edit, check_repository
from aitune.triton.check.edits import remove_field, set_field
from aitune.triton.check.fix import FixPlan, apply_edits, format_diff, plan_fixes, write_fixes
from aitune.triton.check.source import Source
from aitune.triton.check.textproto import parse

from .conftest import Repository, interface, port

CASES = Path(__file__).parents[3] / "cases" / "check"


def plan(repository: Repository) -> FixPlan:
    """What would be fixed."""
    return plan_fixes(repository.root, read_interface=repository.read)


BROKEN = """# the model of the month
name: 'mm'   # a slip
backend: "onnxruntime"
max_batchsize: "8"

input [
  {
    name: x           # no quotes
    data_type: FP16
    dims: [ 5 4 ]     # the image
  }
]
output { name: "Y", data_type: TYPE_FP32, dims: [ -1 ] }
// the end
"""
FIXED = """# the model of the month
name: "m"   # a slip
backend: "onnxruntime"
max_batch_size: 8

input [
  {
    name: "x"           # no quotes
    data_type: TYPE_FP32
    dims: [ 4 ]     # the image
  }
]
output { name: "y", data_type: TYPE_FP32, dims: [ 4 ] }
# the end
"""


def test_every_slip_is_corrected_and_everything_else_stays(repository: Repository) -> None:
    """Comments, layout and order survive; nothing remains to be said."""
    repository.model(BROKEN)
    planned = plan(repository)
    assert planned.fixes[0].after == FIXED
    assert list(planned.report) == []
    assert planned.corrected > 5


def test_fixing_writes_once_and_then_never_again(repository: Repository) -> None:
    """The mode stays, no file is left beside, and a second run has nothing to do."""
    repository.model(BROKEN)
    path = repository.root / "m" / "config.pbtxt"
    path.chmod(0o640)
    write_fixes(plan(repository))
    assert path.read_text() == FIXED
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["1", "config.pbtxt"]
    assert plan(repository).fixes == ()


def test_planning_writes_nothing(repository: Repository) -> None:
    """--diff only shows."""
    repository.model(BROKEN)
    shown = format_diff(plan(repository))
    assert (repository.root / "m" / "config.pbtxt").read_text() == BROKEN
    assert "-name: 'mm'   # a slip\n+name: \"m\"   # a slip\n" in shown
    repository.file("m/config.pbtxt", FIXED)
    assert format_diff(plan(repository)) == ""


def test_a_diff_tells_about_a_missing_line_end(repository: Repository) -> None:
    """As diff does."""
    repository.model(FIXED.rstrip("\n").replace("# the end", "max_batch_size : 8").replace("max_batch_size: 8\n", ""))
    repository.file("m/config.pbtxt", FIXED.replace('"m"', '"n"').rstrip("\n"))
    assert "\\ No newline" not in format_diff(plan(repository))
    repository.file("m/config.pbtxt", (FIXED + 'version_policy { latest { num_versions: "1" } }'))
    assert format_diff(plan(repository)).count("\\ No newline at end of file") == 2


def test_bytes_that_are_not_utf8_survive_a_fix(repository: Repository) -> None:
    """The rest of the file is written back as it was."""
    repository.model(None)
    path = repository.file("m/config.pbtxt", FIXED.encode().replace(b"month", b"\xe9\xff").replace(b'"m"', b'"n"'))
    write_fixes(plan(repository))
    assert path.read_bytes() == FIXED.encode().replace(b"month", b"\xe9\xff")


def test_windows_line_ends_survive_a_fix(repository: Repository) -> None:
    """Inserted text does not care."""
    repository.model(BROKEN.replace("\n", "\r\n"))
    write_fixes(plan(repository))
    assert (repository.root / "m" / "config.pbtxt").read_bytes() == FIXED.replace("\n", "\r\n").encode()


def test_a_file_that_changed_meanwhile_is_not_overwritten(repository: Repository) -> None:
    """Somebody else's edit wins."""
    repository.model(BROKEN)
    planned = plan(repository)
    repository.file("m/config.pbtxt", BROKEN + "# mine")
    with pytest.raises(RepositoryError, match="changed while"):
        write_fixes(planned)


def test_a_file_that_cannot_be_written_is_one_error(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left behind."""
    import os

    def refuse(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    repository.model(BROKEN)
    planned = plan(repository)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(RepositoryError, match=r"m/config\.pbtxt cannot be written: no space left on device"):
        write_fixes(planned)
    assert sorted(entry.name for entry in (repository.root / "m").iterdir()) == ["1", "config.pbtxt"]


def test_missing_tensors_are_added(repository: Repository) -> None:
    """R216 with the whole stanza; a vector gets its reshape."""
    repository.interface = interface([port("x", ("n", 4)), port("t", ("n",))], [port("y", ("n", 4))])
    repository.model(FIXED)
    planned = plan(repository)
    assert planned.fixes[0].after.endswith(
        '# the end\ninput [\n  {\n    name: "t"\n    data_type: TYPE_FP32\n    dims: [ 1 ]\n'
        "    reshape: { shape: [ ] }\n  }\n]\n"
    )
    assert not planned.report.errors


def test_a_model_that_does_not_batch_gets_full_shapes(repository: Repository) -> None:
    """One correction uncovers the next."""
    repository.interface = interface([port("x", (1, 4))], [port("y", (1, 4))])
    repository.model(FIXED)
    planned = plan(repository)
    assert "max_batch_size: 0" in planned.fixes[0].after
    assert planned.fixes[0].after.count("dims: [ 1, 4 ]") == 2
    assert not planned.report.errors


def test_ignored_findings_are_not_corrected(repository: Repository) -> None:
    """Who silences a rule does not want its fix."""
    repository.model(FIXED.replace('name: "m"', 'name: "n" # aitune: ignore[R29]'))
    assert plan(repository).fixes == ()


@pytest.mark.parametrize(
    ("text", "field", "value", "expected"),
    [
        ("input { name: 'x' }", "dims", "dims: 4", "input { name: 'x' dims: 4 }"),
        ("input {\n  name: 'x'  # c\n}", "dims", "dims: 4", "input {\n  name: 'x'  # c\n  dims: 4\n}"),
        ("input { }", "dims", "dims: 4", "input { dims: 4 }"),
        ("input { dims: 1, dims: 2; name: 'x' }", "dims", "dims: 4", "input { dims: 4, name: 'x' }"),
        ("input {\n  dims: 1\n  dims: 2\n}", "dims", "dims: 4", "input {\n  dims: 4\n}"),
        ("input {\n  dims: 1\n  name: 'x'\n}", "dims", "", "input {\n  name: 'x'\n}"),
        ("input { dims: 1, name: 'x' }", "dims", "", "input { name: 'x' }"),
    ],
)
def test_one_field_is_set_or_removed(text: str, field: str, value: str, expected: str) -> None:
    """Wherever it stands, on a line of its own or not."""
    source = Source("c", text)
    node = parse(text).config.messages("input")[0]
    edits = set_field(source, node, field, value) if value else remove_field(source, node, field)
    assert apply_edits(text, edits) == expected


def test_a_field_of_an_empty_config_is_its_first_line() -> None:
    """At the end of the text."""
    source = Source("c", "# c\n")
    edits = set_field(source, parse(source.text).config, "backend", 'backend: "b"')
    assert apply_edits(source.text, edits) == '# c\nbackend: "b"\n'
    assert set_field(None, parse("").config, "backend", "x") == ()
    assert remove_field(None, parse("").config, "backend") == ()


def test_edits_that_touch_each_other_do_not_mix() -> None:
    """The first wins; insertions at one place are all made."""
    assert apply_edits("abc", [Edit(0, 2, "x"), Edit(1, 3, "y")]) == "xc"
    assert apply_edits("abc", [Edit(1, 1, "1"), Edit(1, 1, "2")]) == "a12bc"


def test_no_labelled_case_gets_worse(tmp_path: Path) -> None:
    """Fixing never adds an error, is a no-op the second time, and mends a good part of the refused cases."""
    with tarfile.open(CASES / "handed_cases.tar.gz") as archive:
        archive.extractall(tmp_path, filter="fully_trusted")
    mended = 0
    for case in sorted(tmp_path.iterdir()):
        before = check_repository(case, read_interface=read_served)
        planned = plan_fixes(case, read_interface=read_served)
        write_fixes(planned)
        after = check_repository(case, read_interface=read_served)
        assert after == planned.report, case.name
        assert after.errors <= before.errors, case.name
        assert plan_fixes(case, read_interface=read_served).fixes == (), case.name
        mended += bool(before.errors) and not after.errors
    assert mended >= 60
