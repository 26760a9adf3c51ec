"""Real architectures from module to validated Triton; ``scripts/zoo`` prints what this asserts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from zoo.animals import ANIMALS
from zoo.entry import Animal
from zoo.keeping import Fate, build, faults, serve
from zoo.table import table

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Small models do not gain from more, and other tests run beside them."""
    torch.set_num_threads(1)


def run(animals: list[Animal], folder: Path) -> dict[str, list[str]]:
    """The faults of each model that has any."""
    repository = folder / "repository"
    fates = [build(animal, repository, folder / "work" / animal.name) for animal in animals]
    return {fate.animal.name: found for fate in serve(fates, repository) if (found := faults(fate))}


@pytest.mark.server
def test_the_quick_ones_are_served_right_or_refused_for_the_right_reason(tmp_path: Path) -> None:
    """A transformer, images, speech, tables, and one of each kind that must not be batched."""
    assert run([animal for animal in ANIMALS if animal.quick], tmp_path) == {}


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_are_served_right_or_refused_for_the_right_reason(tmp_path: Path) -> None:
    """The whole zoo."""
    assert run(list(ANIMALS), tmp_path) == {}


def test_the_committed_table_has_every_model_with_its_verdict() -> None:
    """The table is of the models that are there."""
    rows = [line.split("|") for line in (ROOT / "docs" / "zoo.md").read_text().splitlines() if line.startswith("| ")]
    found = [(row[1].strip(), row[2].strip()) for row in rows[2:]]
    assert found == [(animal.name, animal.verdict) for animal in ANIMALS]


def test_names_are_distinct_and_there_are_enough() -> None:
    """At least thirty architectures, a dozen of which must be refused or stay unbatched."""
    assert len({animal.name for animal in ANIMALS}) == len(ANIMALS) >= 30
    assert sum(animal.verdict != "batched" for animal in ANIMALS) >= 12


@pytest.mark.parametrize(
    ("fate", "fault"),
    [
        ({"verdict": "unbatched", "reason": "", "status": "pass"}, "batched was expected, it is unbatched"),
        ({"verdict": "batched", "reason": "", "status": "fail"}, "validate says fail"),
        ({"verdict": "batched", "reason": "", "status": ""}, "validate says nothing"),
    ],
)
def test_a_model_that_came_out_otherwise_is_a_fault(fate: dict[str, str], fault: str) -> None:
    """The verdict and the server's answers are both looked at, and the table counts what is wrong."""
    outcome = Fate(animal=ANIMALS[0], **fate)
    assert fault in faults(outcome)[0]
    assert "1 not as expected" in table([outcome])


def test_a_wrong_reason_is_a_fault() -> None:
    """Refused, but not for what is wrong with it."""
    animal = next(animal for animal in ANIMALS if animal.verdict == "refused")
    assert "the reason should say" in faults(Fate(animal=animal, verdict="refused", reason="other"))[0]
