"""Which server images load a plan."""

from __future__ import annotations

import itertools

import pytest

from aitune.records.plans import PlanFacts, PlanVariant
from aitune.triton.compatibility import Writer, loading_releases, loads, say_loading, say_releases, warnings_of
from aitune.triton.image_sources import SOURCES
from aitune.triton.images import IMAGES, Image
from aitune.triton.releases import RELEASES, release


def test_every_release_has_an_image_and_every_image_a_release() -> None:
    """The two tables grow together."""
    assert set(IMAGES) == {known.name for known in RELEASES}


def test_libraries_of_images_never_go_back() -> None:
    """A newer image carries a newer or the same TensorRT and CUDA, as far as both are known."""
    for column in ("tensorrt", "cuda"):
        rows = [[int(part) for part in getattr(IMAGES[known.name], column).split(".")] for known in RELEASES]
        for old, new in itertools.pairwise(rows):
            common = min(len(old), len(new))
            assert old[:common] <= new[:common] or old[:2] == new[:2]


@pytest.mark.parametrize("image", IMAGES.values(), ids=lambda image: image.release)
def test_every_version_of_the_table_has_a_source(image: Image) -> None:
    """TensorRT and CUDA each; a place that was not read stands alone, as there is nothing better."""
    for keys in (image.tensorrt_sources, image.cuda_sources):
        assert keys
        assert all(SOURCES[key].address(image.release).startswith("https://") for key in keys)
        assert all(SOURCES[key].read for key in keys) or keys == ("matrix",)


def test_every_source_is_used() -> None:
    """A source that nothing refers to is a leftover."""
    used = {key for image in IMAGES.values() for key in (*image.tensorrt_sources, *image.cuda_sources)}
    assert used == set(SOURCES)


def test_an_address_is_that_of_the_release() -> None:
    """NVIDIA renamed its pages in 2022."""
    notes = SOURCES["notes"]
    assert notes.address("22.06").endswith("/release-notes/rel_22-06.html")
    assert notes.address("24.10").endswith("/release-notes/rel-24-10.html")
    assert "/r24.08/" in SOURCES["windows"].address("24.08")


def test_what_nothing_confirms_is_marked() -> None:
    """In the table and in the release."""
    assert (IMAGES["25.05"].tensorrt_confirmed, IMAGES["24.10"].tensorrt_confirmed) == (False, True)
    assert (IMAGES["24.09"].cuda_confirmed, IMAGES["24.10"].cuda_confirmed) == (False, True)
    assert not release("25.05").tensorrt_confirmed


@pytest.mark.parametrize("name", [image.release for image in IMAGES.values() if not image.tensorrt_confirmed])
@pytest.mark.parametrize("version", ["7.2.3.4", "10.5.0.18", "10.14.1.48", "11.1.0.106"])
def test_nothing_is_refused_where_the_table_is_unconfirmed(name: str, version: str) -> None:
    """The table may be wrong: a match is likely, a mismatch is not known to be one."""
    found = loads(release(name), Writer(builder="tensorrt", version=version))
    assert found.verdict is not False
    assert not found.confirmed


def test_an_unconfirmed_match_is_silent_and_an_unconfirmed_mismatch_is_told() -> None:
    """With where it loads, and how sure that is."""
    facts = PlanFacts(builder="tensorrt", version="10.10.0.31")
    assert warnings_of(facts, "25.05") == ()
    (warning,) = warnings_of(PlanFacts(builder="tensorrt", version="10.9.0.34"), "25.05")
    assert warning == (
        "Triton 25.05 has TensorRT 10.10.0.31, the plan is of 10.9.0.34 (nothing confirms what 25.05 has): whether it "
        "loads is not known; it loads in 25.03, probably 25.04"
    )
    assert say_loading(Writer(builder="tensorrt", version="10.10.0.31")) == "probably 25.05"


def test_builds_that_are_known_must_agree() -> None:
    """Triton 23.05 has 8.6.1.2 and was seen to refuse a plan of 8.6.1.6."""
    writer = Writer(builder="tensorrt", version="8.6.1.6")
    assert [loads(release(name), writer).verdict for name in ("23.04", "23.05", "23.06")] == [False, False, True]


@pytest.mark.parametrize(
    ("name", "version", "verdict"),
    [
        ("24.10", "10.5.0.18", True),
        ("24.10", "10.4.0.26", False),
        ("25.10", "10.13.3.9", True),
        ("25.11", "10.14.1.48", True),
        ("26.01", "10.14.1.48", None),
        ("26.06", "11.0.0.114", None),
        ("24.10", "", None),
    ],
)
def test_a_plan_loads_in_the_library_that_wrote_it(name: str, version: str, verdict: bool | None) -> None:
    """Three equal parts are enough; where the table knows less it says so."""
    assert loads(release(name), Writer(builder="tensorrt", version=version)).verdict is verdict


def test_a_version_compatible_plan_loads_later_if_the_server_is_told_to() -> None:
    """Never in an older library, never in a server that does not know the option."""
    writer = Writer(builder="tensorrt", version="10.3.0.26", version_compatible=True)
    later = loads(release("24.10"), writer)
    assert later.verdict
    assert "version-compatible=true" in later.reason
    assert loads(release("24.07"), writer).verdict is False
    old = Writer(builder="tensorrt", version="8.5.1", version_compatible=True)
    assert loads(release("23.03"), old).verdict is False


def test_no_release_loads_a_plan_of_tensorrt_rtx() -> None:
    """It is another format."""
    assert loading_releases(Writer(builder="tensorrt_rtx", version="1.7.1.116")) == ()


def test_releases_are_said_in_runs() -> None:
    """Neighbours are joined, gaps are kept."""
    assert loading_releases(Writer(builder="tensorrt", version="10.8.0.43")) == ("25.01", "25.02")
    assert say_releases(["24.10", "25.01", "25.02"]) == "24.10, 25.01 to 25.02"


def test_publishing_for_another_release_names_those_that_load_it() -> None:
    """What was found, and where it would load."""
    facts = PlanFacts(builder="tensorrt", version="10.3.0.26", compute_capability="8.9")
    (warning,) = warnings_of(facts, "24.10")
    assert warning == (
        "it will not load: Triton 24.10 has TensorRT 10.5.0.18, the plan is of 10.3.0.26; it loads in 24.08"
    )
    assert warnings_of(facts, "24.08") == ()


def test_each_of_several_plans_is_judged() -> None:
    """The one that does not load is named by its GPU."""
    variants = (
        PlanVariant(compute_capability="8.9", file="", version="10.5.0.18"),
        PlanVariant(compute_capability="9.0", file="h.plan", version="10.4.0.26"),
    )
    facts = PlanFacts(builder="tensorrt", version="10.5.0.18", compute_capability="8.9", variants=variants)
    (warning,) = warnings_of(facts, "24.10")
    assert warning.startswith("the plan for compute capability 9.0: it will not load")


def test_unknown_and_conditional_verdicts_are_told() -> None:
    """A table that knows too little says so; a server option that is needed is named."""
    assert "not known" in warnings_of(PlanFacts(builder="tensorrt", version="11.0.0.114"), "26.06")[0]
    compatible = PlanFacts(builder="tensorrt", version="10.3.0.26", version_compatible=True)
    assert "the server needs" in warnings_of(compatible, "24.10")[0]
    rtx = PlanFacts(builder="tensorrt_rtx", version="1.7.1.116")
    assert "build it with tensorrt" in warnings_of(rtx, "24.10")[0]
