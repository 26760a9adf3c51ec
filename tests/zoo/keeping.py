"""What happens to a model of the zoo: exported, proved, published, served by a real Triton, validated."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from zoo.entry import Animal

from aitune.errors import AituneError
from aitune.triton import validate
from aitune.triton.publication import publish
from aitune.triton.validation_records import ModelReport

__all__ = ["Fate", "build", "faults", "serve"]


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What came of one model.

    Attributes:
        animal: The model.
        verdict: ``"batched"``, ``"unbatched"`` or ``"refused"``.
        reason: The reason given for it, or the error.
        exporter: Which way of exporting won; empty where there is no file.
        max_batch_size: Largest batch in the config.
        seconds: From the module to the published version.
        status: What ``validate`` says: ``"pass"``, ``"warn"``, ``"fail"``; empty where nothing was published.
        trouble: Details of the checks that did not pass.
    """

    animal: Animal
    verdict: str
    reason: str
    exporter: str = ""
    max_batch_size: int = 0
    seconds: float = 0.0
    status: str = ""
    trouble: tuple[str, ...] = ()


def build(animal: Animal, repository: Path, workspace: Path) -> Fate:
    """Export a model and publish it, unless it is refused."""
    from aitune.torch import tune

    torch.manual_seed(0)
    began = time.monotonic()
    module, samples = animal.make()
    try:
        artifact = tune(module.eval(), samples, tune=False, workspace=workspace, **animal.options)
        publish(artifact, repository, model_name=animal.name)
    except AituneError as error:
        said = f"{error} ({error.hint})" if error.hint else str(error)
        reason = said.replace(f"{workspace}/", "")
        return Fate(animal=animal, verdict="refused", reason=reason, seconds=time.monotonic() - began)
    batching = artifact.evidence.batching
    return Fate(
        animal=animal,
        verdict=batching.verdict,
        reason=batching.reason,
        exporter=dict(artifact.evidence.provenance)["exporter"],
        max_batch_size=artifact.max_batch_size or 0,
        seconds=time.monotonic() - began,
    )


def serve(fates: Sequence[Fate], repository: Path, *, level: str = "quick") -> list[Fate]:
    """Serve what was published with one real Triton, and validate it."""
    if not any(fate.verdict != "refused" for fate in fates):
        return list(fates)
    reports = {report.name: report for report in validate(repository, level=level).models}
    return [_served(fate, reports.get(fate.animal.name)) for fate in fates]


def _served(fate: Fate, report: ModelReport | None) -> Fate:
    if report is None:
        return fate
    trouble = tuple(f"{check.name}: {check.detail}" for check in report.checks if check.status not in ("pass", "skip"))
    return replace(fate, status=report.status, trouble=trouble)


def faults(fate: Fate) -> list[str]:
    """What is not as it must be; empty when all is well."""
    animal = fate.animal
    found = []
    if fate.verdict != animal.verdict:
        found.append(f"{animal.verdict} was expected, it is {fate.verdict}: {fate.reason}")
    elif animal.because not in fate.reason:
        found.append(f"the reason should say {animal.because!r}: {fate.reason}")
    if fate.verdict == "refused" and fate.status:
        found.append("it was refused and served all the same")
    if fate.verdict != "refused" and fate.status not in ("pass", "warn"):
        found.append(f"validate says {fate.status or 'nothing'}: {'; '.join(fate.trouble)}")
    return found
