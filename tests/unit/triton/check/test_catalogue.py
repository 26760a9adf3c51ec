"""The rules in words, and that none is forgotten."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from aitune.errors import UsageError
from aitune.triton.check import catalogue, table

ROWS = [
    *table.CONFIG, *table.VERSION, *table.ONNX, *table.INTERFACE, *table.OTHERS, *table.PYTHON,
    *table.TENSORRT_CONFIG, *table.TENSORRT, *table.ENSEMBLE,
]  # fmt: skip
REPORTED = {one for row in ROWS for one in row.ids}


def test_every_rule_of_the_reference_is_obeyed_or_has_a_reason() -> None:
    """R1 to R319 are all there; what cannot be decided offline says why."""
    rules = catalogue.rules()
    assert [name for name in rules if name.startswith("R")] == [f"R{number}" for number in range(1, 320)]
    for found in rules.values():
        assert found.kind in catalogue.KINDS
        assert found.text.endswith(".")
        if found.kind == "never":
            assert found.where == "-"
            assert len(found.gist) > 15


def test_a_rule_of_the_table_is_one_that_reports() -> None:
    """The table and the catalogue agree about which rules have findings."""
    listed = {found.id for found in catalogue.rules().values() if found.where == "table"}
    assert listed - REPORTED == set()
    for name in REPORTED:
        assert catalogue.rule(name).kind in ("error", "warning", "both"), name


@pytest.mark.parametrize("found", [one for one in catalogue.rules().values() if one.where not in ("table", "-")],
                         ids=lambda found: found.id)  # fmt: skip
def test_a_rule_outside_the_table_names_a_function_that_exists(found: catalogue.RuleText) -> None:
    """``where`` can be followed."""
    module, *names = found.where.split(".")
    value: object
    for package in ("aitune.triton.check", "aitune.triton.check.rules"):
        try:
            value = importlib.import_module(f"{package}.{module}")
            break
        except ModuleNotFoundError:
            continue
    else:
        pytest.fail(f"no module {module}")
    for name in names:
        value = getattr(value, name)


def test_a_rule_is_explained() -> None:
    """Text, verdict and Triton's words; for an undecidable one the reason."""
    assert catalogue.explain("r57").splitlines() == [
        "R57 (core)",
        "max_batch_size is not negative.",
        "Verdict: the model will not load.",
        "In Triton's words: 'max_batch_size' must be non-negative value",
    ]
    assert "Because it depends on the server's --rate-limit options." in catalogue.explain("R119")
    assert "Triton's words" not in catalogue.explain("A1")


def test_an_unknown_rule_is_a_usage_error() -> None:
    """The error says which rules there are."""
    with pytest.raises(UsageError, match="no rule is called 'R999'"):
        catalogue.explain("R999")


def test_the_documentation_is_current(repository_root: Path) -> None:
    """docs/rules.md is what the catalogue writes."""
    assert (repository_root / "docs" / "rules.md").read_text(encoding="utf-8") == catalogue.markdown()
