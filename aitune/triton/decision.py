"""What a publication has to do: nothing, switch to files that are already there, or write a new version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aitune.errors import ArtifactIntegrityError, UsageError
from aitune.records.artifact import Artifact
from aitune.triton.layout import OVERLAY_FOLDER
from aitune.triton.plan import Plan, PlanOptions, plan
from aitune.triton.releases import release
from aitune.triton.rendering import OVERLAYS, message, overlay, render
from aitune.triton.repository import PublishedModel, read_config
from aitune.triton.same_config import same_config
from aitune.triton.schema import parse_config
from aitune.triton.standing import Standing

__all__ = ["Decision", "Request", "decide"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be published.

    Attributes:
        artifact: The record.
        name: Name of the model.
        options: Choices about the config.
        keep: Which samples to keep.
    """

    artifact: Artifact
    name: str
    options: PlanOptions
    keep: str

    def plan(self, version: int) -> Plan:
        """The config it would get as that version."""
        return plan(self.artifact, model_name=self.name, version=version, options=self.options)

    def check(self) -> None:
        """Find what is wrong with the request itself.

        Raises:
            AituneError: As :func:`aitune.triton.plan.plan`.
        """
        found = self.plan(1)
        if self.options.overlays and found.backend == "tensorrt":
            raise UsageError("overlays make no sense for a TensorRT plan: it runs on a GPU only")
        if self.options.overlays and not release(self.options.triton).has("model_config_name"):
            raise UsageError(f"Triton {self.options.triton} knows no overlays", hint="they came with 24.05")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be done.

    Attributes:
        result: ``"created"``, ``"updated"`` or ``"unchanged"``.
        plan: Plan of the version that will be served.
        config: Text of config.pbtxt.
        write_files: Whether the version's files must be written; False when they lie there, complete.
        overlays: Texts of ``configs/<name>.pbtxt``, by name.
    """

    result: str
    plan: Plan
    config: str
    write_files: bool
    overlays: Mapping[str, str] = field(default_factory=dict)


def decide(request: Request, standing: Standing) -> Decision:
    """Compare what is asked for with what stands there.

    Raises:
        ArtifactIntegrityError: If nothing has to be written, and the source is not what was recorded.
    """
    model = standing.model
    for version in _candidates(model):
        text = _kept(request, model, version) if model is not None else None
        if model is not None and text is not None:
            request.artifact.verify()
            overlays = _overlays(request, standing, text)
            done = version == model.current and model.config_text == text and _in_place(standing, overlays)
            result = "unchanged" if done else _result(model)
            return Decision(
                result=result, plan=request.plan(version), config=text, write_files=False, overlays=overlays
            )
    found = request.plan(standing.next_version)
    text = render(found)
    overlays = _overlays(request, standing, text)
    return Decision(result=_result(model), plan=found, config=text, write_files=True, overlays=overlays)


def _result(model: PublishedModel | None) -> str:
    return "created" if model is None or model.config_text is None else "updated"


def _candidates(model: PublishedModel | None) -> list[int]:
    """Versions that may be what is asked for: the current one, and later ones that are not served (any more)."""
    if model is None:
        return []
    return [version for version in sorted(model.documents, reverse=True) if version >= (model.current or 0)]


def _kept(request: Request, model: PublishedModel, version: int) -> str | None:
    """The config of a version that is complete and serves just what is asked for; None if it does not."""
    document = model.documents[version]
    if document.artifact.identity != request.artifact.identity or document.config is None:
        return None
    served = version == model.current and model.config_text is not None
    text, config = (model.config_text, model.config) if served else (document.config, parse_config(document.config))
    if config is None or not same_config(config, message(request.plan(version))):
        return None
    try:
        document.artifact.verify()
    except ArtifactIntegrityError:  # damaged where it lies: a new version repairs it
        return None
    return text


def _overlays(request: Request, standing: Standing, text: str) -> dict[str, str]:
    """Those that are wanted, and those that exist: a stale one would go on serving its old version."""
    wanted = tuple(OVERLAYS) if request.options.overlays else standing.overlays
    return {name: overlay(text, name) for name in wanted}


def _in_place(standing: Standing, overlays: Mapping[str, str]) -> bool:
    return all(_says(standing, name, parse_config(text)) for name, text in overlays.items())


def _says(standing: Standing, name: str, expected: Any) -> bool:
    found = read_config(standing.folder / OVERLAY_FOLDER / f"{name}.pbtxt")[1]
    return found is not None and bool(found == expected)
