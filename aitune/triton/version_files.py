"""The files of one version: the model, its companions, its record and its samples."""

from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path

from aitune.records.artifact import Artifact
from aitune.records.codec import Document, dumps_document
from aitune.records.evidence import SampleFile
from aitune.records.fingerprints import sync_folder
from aitune.triton.kept_samples import keep_samples
from aitune.triton.layout import RECORD, SAMPLES
from aitune.triton.plan import Plan
from aitune.triton.staging import write_file

__all__ = ["list_files", "write_version"]


def write_version(artifact: Artifact, found: Plan, config: str, folder: Path, *, keep: str) -> bool:
    """Write a version into a folder that Triton does not see yet.

    Bytes are copied (never linked: the source may change later), hashed on the way and flushed. Modification times are
    fresh, and modes are what the umask allows, whatever the source's were: the server may be another user.

    Args:
        artifact: What to publish.
        found: Its plan.
        config: Text of the config it is published with.
        folder: The version's folder; made here.
        keep: Which samples to keep.

    Returns:
        Whether another user could read the files.

    Raises:
        ArtifactIntegrityError: If the source is not what was recorded.
        OSError: If writing fails.
    """
    folder.mkdir()
    samples, data = keep_samples(artifact, keep)
    artifact.export_file(folder / found.filename)
    document = Document(artifact=_published(artifact, folder / found.filename, samples), config=config)
    write_file(folder / RECORD, dumps_document(document).encode())
    if samples is not None:
        write_file(folder / SAMPLES, data)
    mode = stat.S_IMODE((folder / RECORD).stat().st_mode)
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            os.chmod(Path(place, name), mode)
        sync_folder(Path(place))
    return bool(mode & stat.S_IROTH)


def list_files(artifact: Artifact, found: Plan, *, keep: str) -> tuple[str, ...]:
    """Names of the files that :func:`write_version` writes, relative to the repository."""
    names = [found.filename, *(item.name for item in artifact.companions), RECORD]
    if keep_samples(artifact, keep)[0] is not None:
        names.append(SAMPLES)
    return tuple(f"{found.model_name}/{found.version}/{name}" for name in names)


def _published(artifact: Artifact, path: Path, samples: SampleFile | None) -> Artifact:
    """The record as it lies beside the published file."""
    evidence = artifact.evidence
    if evidence is not None:
        evidence = dataclasses.replace(evidence, samples=samples)
    return dataclasses.replace(artifact, path=path, evidence=evidence)
