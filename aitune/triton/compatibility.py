"""Which server images load a plan, and why the others do not.

A plan loads in exactly the TensorRT that wrote it. One that was built version-compatible also loads in later ones, if
the server is started with ``--backend-config=tensorrt,version-compatible=true`` (23.09 and later).

>>> plan = Writer(builder="tensorrt", version="10.5.0.18")
>>> loads(release("24.10"), plan).verdict
True
>>> loads(release("24.09"), plan).reason
'Triton 24.09 has TensorRT 10.4.0.26, the plan is of 10.5.0.18'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aitune.records.plans import PlanFacts
from aitune.triton.releases import RELEASES, Release, release

__all__ = ["Loading", "Writer", "loading_releases", "loads", "say_releases", "warnings_of"]

_OPTION = "--backend-config=tensorrt,version-compatible=true"
_FIRST_COMPATIBLE = (8, 6)
_ENOUGH = 3
"""Major, minor and patch: no two builds of one patch were ever seen to refuse each other's plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who wrote a plan.

    Attributes:
        builder: ``"tensorrt"`` or ``"tensorrt_rtx"``.
        version: Version of that library; ``""`` when nobody knows.
        version_compatible: Whether later libraries may load the plan.
    """

    builder: str
    version: str
    version_compatible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """Whether a release loads a plan.

    Attributes:
        verdict: True or False; None where the table does not know the release's TensorRT well enough.
        reason: Why, or under which condition, one line.
    """

    verdict: bool | None
    reason: str


def loads(found: Release, writer: Writer) -> Loading:
    """Whether a release loads a plan."""
    if writer.builder == "tensorrt_rtx":
        return Loading(
            verdict=False, reason="the plan is of TensorRT-RTX, which Triton's TensorRT backend does not load"
        )
    if not writer.version:
        return Loading(verdict=None, reason="nobody knows which TensorRT wrote the plan")
    mine, theirs = _numbers(writer.version), _numbers(found.tensorrt)
    said = f"Triton {found.name} has TensorRT {found.tensorrt}, the plan is of {writer.version}"
    common = min(len(mine), len(theirs))
    if mine[:common] == theirs[:common]:
        return Loading(verdict=True if common >= _ENOUGH else None, reason=said)
    if not writer.version_compatible:
        return Loading(verdict=False, reason=said)
    if not found.has("tensorrt_version_compatible") or mine[:common] > theirs[:common] or mine[:2] < _FIRST_COMPATIBLE:
        return Loading(verdict=False, reason=f"{said}; version-compatible plans load in later ones only")
    return Loading(verdict=True, reason=f"{said}: the server needs {_OPTION}")


def loading_releases(writer: Writer) -> tuple[str, ...]:
    """Names of the known releases that load a plan, oldest first."""
    return tuple(known.name for known in RELEASES if loads(known, writer).verdict)


def say_releases(names: Sequence[str]) -> str:
    """Releases for people: ``"24.10"``, ``"23.06 to 24.01"``, ``"no known release"``.

    >>> say_releases(["23.06", "23.07", "23.08"]), say_releases([])
    ('23.06 to 23.08', 'no known release')
    """
    if not names:
        return "no known release"
    order = [known.name for known in RELEASES]
    runs: list[list[str]] = []
    for name in names:
        if runs and order.index(name) == order.index(runs[-1][-1]) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def warnings_of(facts: PlanFacts, wanted: str) -> tuple[str, ...]:
    """What a person should know who publishes a plan for a release.

    Args:
        facts: What is known of the plan.
        wanted: The release that shall serve it.
    """
    told = []
    writers = {
        facts.version: facts.compute_capability,
        **{item.version: item.compute_capability for item in facts.variants},
    }
    for version, capability in writers.items():
        writer = Writer(builder=facts.builder, version=version, version_compatible=facts.version_compatible)
        found = loads(release(wanted), writer)
        which = f"the plan for compute capability {capability}: " if len(writers) > 1 else ""
        if found.verdict is False:
            told.append(f"{which}it will not load: {found.reason}; {_where(writer)}")
        elif found.verdict is None:
            told.append(f"{which}{found.reason}: whether it loads is not known")
        elif _OPTION in found.reason:
            told.append(f"{which}{found.reason}")
    return tuple(told)


def _where(writer: Writer) -> str:
    if writer.builder == "tensorrt_rtx":
        return "build it with tensorrt on the target to serve it"
    return f"it loads in {say_releases(loading_releases(writer))}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
