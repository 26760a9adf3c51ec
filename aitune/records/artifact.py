"""The artifact: a model file, its companions, its tensor contract and the proof of all that."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import ClassVar

from aitune.errors import ArtifactIntegrityError, RecordError
from aitune.records.evidence import Evidence, Tuning
from aitune.records.fingerprints import fingerprint_file, stage_copy, sync_folder
from aitune.records.plans import PlanFacts
from aitune.records.shapes import TunedTensorSpec

__all__ = ["Artifact", "ArtifactIntegrityError", "Companion", "ONNXArtifact", "TensorRTPlanArtifact"]


def _check_fingerprint(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"fingerprint of {what} must be a string, got {value!r}")
    if len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise RecordError(f"fingerprint of {what} must be 64 lower-case hexadecimal digits, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """A further file without which the artifact cannot be loaded, e.g. ONNX external data.

    Attributes:
        name: Name relative to the folder of the artifact, with ``/``; the artifact refers to it by this name.
        fingerprint: SHA-256 of its bytes.

    Raises:
        RecordError: If the name is absolute, climbs with ``..`` or is empty, or the fingerprint is malformed.
    """

    name: str
    fingerprint: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"name of a companion must be a string, got {self.name!r}")
        pure = PurePosixPath(self.name)
        plain = self.name and pure.as_posix() == self.name and "\x00" not in self.name
        if not plain or pure.is_absolute() or set(pure.parts) & {"..", "."} or not pure.parts:
            raise RecordError(
                f"name of a companion must be a relative path inside the artifact's folder, got {self.name!r}"
            )
        _check_fingerprint(self.fingerprint, f"companion {self.name!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A tuned model file and what is known about it.

    Making one never touches the disk; :meth:`verify` does.

    Attributes:
        path: The model file.
        fingerprint: SHA-256 of the model file.
        inputs: Contracts of the inputs, in the file's order.
        outputs: Contracts of the outputs, in the file's order.
        companions: Further files it needs, with relative names.
        evidence: How all this was found out; None for a record made by hand. Not compared.

    Raises:
        RecordError: If the fingerprint is malformed or a name appears twice among inputs, outputs or companions.
        TypeError: If a field has the wrong type.
    """

    path: Path
    fingerprint: str
    inputs: tuple[TunedTensorSpec, ...]
    outputs: tuple[TunedTensorSpec, ...]
    companions: tuple[Companion, ...] = ()
    evidence: Evidence | None = dataclass_field(default=None, compare=False, repr=False)

    format: ClassVar[str] = "artifact"

    def __post_init__(self) -> None:
        if not isinstance(self.path, Path):
            raise TypeError(f"path of an artifact must be a pathlib.Path, got {self.path!r}")
        _check_fingerprint(self.fingerprint, f"artifact {str(self.path)!r}")
        _check_unique("inputs", self.inputs, TunedTensorSpec)
        _check_unique("outputs", self.outputs, TunedTensorSpec)
        _check_unique("companions", self.companions, Companion)
        if self.evidence is not None and not isinstance(self.evidence, Evidence):
            raise TypeError(f"evidence of an artifact must be an Evidence or None, got {self.evidence!r}")
        if any(companion.name == self.path.name for companion in self.companions):
            raise RecordError(f"companion {self.path.name!r} has the name of the artifact itself")

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in the file's order."""
        return tuple(spec.name for spec in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in the file's order."""
        return tuple(spec.name for spec in self.outputs)

    @property
    def tuning(self) -> Tuning | None:
        """What was measured, None where nothing was."""
        return None if self.evidence is None else self.evidence.tuning

    @property
    def precision(self) -> str:
        """What it computes in: ``"fp32"`` for the model's own numbers, else e.g. ``"int8"``."""
        return "fp32" if self.tuning is None else self.tuning.precision

    @property
    def max_batch_size(self) -> int | None:
        """Largest batch every tensor takes part in.

        None without tensors, and when any input or output has no batch axis or does not allow a batch of 1.
        """
        specs = self.inputs + self.outputs
        sizes = [spec.max_batch_size for spec in specs if spec.min_batch_size == 1]
        if not specs or len(sizes) != len(specs):
            return None
        return min(size for size in sizes if size is not None)

    @property
    def identity(self) -> str:
        """SHA-256 over the model *and* its companions: what a server proves it serves.

        The model's own fingerprint when it has no companions.
        """
        if not self.companions:
            return self.fingerprint
        lines = [self.fingerprint, *sorted(f"{item.fingerprint}  {item.name}" for item in self.companions)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def verify(self) -> None:
        """Read the model and every companion, and compare their SHA-256 with the record.

        Raises:
            ArtifactIntegrityError: If a file is unreadable (the OSError is the cause) or has other bytes.
        """
        for path, expected in self._files():
            try:
                found = fingerprint_file(path)
            except OSError as error:
                raise self._unreadable(path, error) from error
            self._compare(path, expected, found)

    def export_file(self, path: Path) -> Path:
        """Copy the model, and its companions beside it, checking every byte on the way.

        Each file is written beside its destination and renamed when complete and right; companions first, so that
        the model never stands without them. Modes are the sources' less the umask. New folders are made.

        Args:
            path: Where the model goes. The artifact's own path: nothing is copied, all is verified.

        Returns:
            ``path``, as a Path.

        Raises:
            ArtifactIntegrityError: If a source is unreadable or its bytes are not the recorded ones; then files that
                stood at the destination are still there, and nothing else is.
            RecordError: If a companion would overwrite the model.
            OSError: If writing fails, e.g. IsADirectoryError when ``path`` is a folder.
        """
        destination = Path(path)
        if destination.resolve() == self.path.resolve():
            self.verify()
            return destination
        if destination.is_dir():
            raise IsADirectoryError(21, "the destination of an export is a folder", str(destination))
        if any(item.name == destination.name for item in self.companions):
            raise RecordError(f"exporting to {destination.name!r} would overwrite the companion of that name")
        self._check_readable()
        targets = [destination, *(destination.parent / item.name for item in self.companions)]
        made: list[Path] = []
        staged: list[tuple[Path, Path]] = []
        try:
            for (source, expected), target in zip(self._files(), targets, strict=True):
                _make_folders(target.parent, made)
                if target.resolve() != source.resolve():
                    check = partial(self._compare, source, expected)
                    staged.append((stage_copy(source, target, check), target))
            for temporary, target in reversed(staged):
                os.replace(temporary, target)
        except BaseException:
            _remove([*made, *(temporary for temporary, _ in staged)])
            raise
        for folder in {target.parent for target in targets}:
            sync_folder(folder)
        return destination

    def _check_readable(self) -> None:
        """Find a missing source before anything is made at the destination."""
        for path, _ in self._files():
            try:
                path.open("rb").close()
            except OSError as error:
                raise self._unreadable(path, error) from error

    def _files(self) -> list[tuple[Path, str]]:
        """The model and its companions, each with its recorded SHA-256."""
        folder = self.path.parent
        return [(self.path, self.fingerprint), *((folder / item.name, item.fingerprint) for item in self.companions)]

    def _unreadable(self, path: Path, error: OSError) -> ArtifactIntegrityError:
        reason = error.strerror or type(error).__name__
        return ArtifactIntegrityError(f"{type(self).__name__} {str(path)!r} cannot be read: {reason.lower()}")

    def _compare(self, path: Path, expected: str, found: str) -> None:
        if found != expected:
            raise ArtifactIntegrityError(
                f"{type(self).__name__} {str(path)!r} is not the recorded file: "
                f"recorded sha256 {expected[:12]}…, found {found[:12]}…",
                hint="build it again, or restore the file that was recorded",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ONNXArtifact(Artifact):
    """An ONNX model; companions are its external data files."""

    format: ClassVar[str] = "onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRTPlanArtifact(Artifact):
    """A serialized TensorRT engine; companions are the plans of further kinds of GPU.

    Attributes:
        plan: Who built it, for what, and with which profiles; None when nobody wrote that down.

    Raises:
        RecordError: If a further plan is not among the companions.
    """

    plan: PlanFacts | None = None

    format: ClassVar[str] = "tensorrt_plan"

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)  # zero-argument super() fails here: slots make a second class
        if self.plan is not None and not isinstance(self.plan, PlanFacts):
            raise TypeError(f"plan of an artifact must be PlanFacts or None, got {self.plan!r}")
        files = {"", *(item.name for item in self.companions)}
        for variant in self.plan.variants if self.plan is not None else ():
            if variant.file not in files:
                raise RecordError(f"plan {variant.file!r} of an artifact is not among its companions")


def _check_unique(field: str, values: object, kind: type) -> None:
    """Refuse anything but a tuple of ``kind`` with different names."""
    if not isinstance(values, tuple):
        raise TypeError(f"{field} of an artifact must be a tuple, got {values!r}")
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"{field} of an artifact must be {kind.__name__} records, got {value!r}")
    names = [value.name for value in values]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RecordError(f"{field} of an artifact must have different names, got {twice[0]!r} more than once")


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Make ``folder`` and those above it, noting each new one."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        made.append(new)


def _remove(made: list[Path]) -> None:
    """Take back what a failed export made, newest first; folders only while they are empty."""
    for path in reversed(made):
        try:
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        except OSError:
            continue
