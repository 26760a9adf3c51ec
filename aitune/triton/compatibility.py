"""Which server images load a plan, and why the others do not.

A plan loads in exactly the TensorRT that wrote it. One that was built version-compatible also loads in later ones, if
the server is started with ``--backend-config=tensorrt,version-compatible=true`` (23.09 and later). Where nothing
confirms which TensorRT an image has, it is never said that the image does not load a plan.

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

__all__ = ["Loading", "Writer", "loading_releases", "loads", "say_loading", "say_releases", "warnings_of"]

_OPTION = "--backend-config=tensorrt,version-compatible=true"
_FIRST_COMPATIBLE = (8, 6)
_ENOUGH = 3
"""Major, minor and patch, where nobody knows the build. Builds that are known must agree: 8.6.1.2 refuses 8.6.1.6."""


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
        confirmed: Whether something confirms what the table says of the release.
    """

    verdict: bool | None
    reason: str
    confirmed: bool = True


def loads(found: Release, writer: Writer) -> Loading:
    """Whether a release loads a plan."""
    if writer.builder == "tensorrt_rtx":
        return Loading(
            verdict=False, reason="the plan is of TensorRT-RTX, which Triton's TensorRT backend does not load"
        )
    if not writer.version:
        return Loading(verdict=None, reason="nobody knows which TensorRT wrote the plan")
    judged = _compare(found, writer)
    if found.tensorrt_confirmed:
        return judged
    verdict = judged.verdict or None
    return Loading(verdict=verdict, reason=f"{judged.reason} (nothing confirms what {found.name} has)", confirmed=False)


def _compare(found: Release, writer: Writer) -> Loading:
    """What the table says, right or wrong."""
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


def loading_releases(writer: Writer, *, confirmed: bool = True) -> tuple[str, ...]:
    """Names of the known releases that load a plan, oldest first; the unconfirmed ones on demand."""
    judged = ((known.name, loads(known, writer)) for known in RELEASES)
    return tuple(name for name, one in judged if one.verdict and one.confirmed is confirmed)


def say_loading(writer: Writer) -> str:
    """The releases that load a plan, for people.

    >>> say_loading(Writer(builder="tensorrt", version="10.9.0.34"))
    '25.03, probably 25.04'
    """
    sure, likely = loading_releases(writer), loading_releases(writer, confirmed=False)
    if not likely:
        return say_releases(sure)
    return f"{say_releases(sure)}, probably {say_releases(likely)}" if sure else f"probably {say_releases(likely)}"


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
            where = "" if found.confirmed else f"; {_where(writer)}"
            told.append(f"{which}{found.reason}: whether it loads is not known{where}")
        elif _OPTION in found.reason:
            told.append(f"{which}{found.reason}")
    return tuple(told)


def _where(writer: Writer) -> str:
    if writer.builder == "tensorrt_rtx":
        return "build it with tensorrt on the target to serve it"
    return f"it loads in {say_loading(writer)}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
