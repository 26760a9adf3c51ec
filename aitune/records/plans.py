"""What is known of a TensorRT plan beyond its tensors: who built it, for which GPU, and with which profiles.

The first bytes of a plan tell its kind and the library that wrote it, without that library and without a GPU; NVIDIA's
own ``trtexec --getPlanVersionOnly`` reads the same place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from aitune.errors import RecordError

__all__ = [
    "HARDWARE_LEVELS",
    "LINEAR",
    "PlanFacts",
    "PlanHeader",
    "PlanTensor",
    "PlanVariant",
    "Profile",
    "ProfileRange",
    "read_plan_header",
]

HARDWARE_LEVELS = ("none", "ampere_plus", "same_compute_capability")
"""Which GPUs run a plan: the model it was built for, all from Ampere on, or all of one compute capability."""
LINEAR = "LINEAR"
_BUILDERS = ("tensorrt", "tensorrt_rtx")
_MAGIC = {b"ftrt": "tensorrt", b"vtrt": "tensorrt_rtx"}
_KNOWN_LAYOUT = 0
_HEADER_BYTES = 28
_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHeader:
    """The first bytes of a plan.

    Attributes:
        builder: ``"tensorrt"`` or ``"tensorrt_rtx"``; ``""`` when the file is no plan.
        layout: Number of the layout of the header.
        version: The library that wrote it, e.g. ``"10.5.0.18"``; ``""`` when the layout is not known.
        start: The first 64 bytes, for guesses about what else it is.
    """

    builder: str
    layout: int
    version: str
    start: bytes


def read_plan_header(path: Path) -> PlanHeader:
    """What the first bytes of a file say.

    Raises:
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(64)
    builder = _MAGIC.get(start[:4], "")
    layout = int.from_bytes(start[4:8], "little")
    known = builder and layout == _KNOWN_LAYOUT and len(start) >= _HEADER_BYTES
    version = ".".join(str(part) for part in start[24:28]) if known else ""
    return PlanHeader(builder=builder, layout=layout, version=version, start=start)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRange:
    """The sizes of one input within a profile.

    Attributes:
        name: The input.
        min: Smallest size per axis; for a shape tensor the smallest values.
        opt: The sizes it is fastest at.
        max: Largest size per axis; for a shape tensor the largest values.
        values: Whether these are values of a shape tensor, not sizes.

    Raises:
        RecordError: If they are not in that order.
    """

    name: str
    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]
    values: bool = False

    def __post_init__(self) -> None:
        if not len(self.min) == len(self.opt) == len(self.max):
            raise RecordError(f"profile of input {self.name!r} needs min, opt and max of one rank")
        if any(not low <= typical <= high for low, typical, high in zip(self.min, self.opt, self.max, strict=True)):
            raise RecordError(
                f"profile of input {self.name!r} needs min <= opt <= max, got {self.min}, {self.opt}, {self.max}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One optimisation profile: the shapes a plan accepts together.

    Attributes:
        inputs: One range per input, in the plan's order.
    """

    inputs: tuple[ProfileRange, ...]

    @property
    def max_batch_size(self) -> int:
        """Largest first axis that every input allows; 0 where an input has none (rules R196)."""
        return min((item.max[0] if item.max else 0 for item in self.inputs), default=0)

    @property
    def min_batch_size(self) -> int:
        """Smallest first axis that every input allows."""
        return max((item.min[0] if item.min else 0 for item in self.inputs), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTensor:
    """What a config must say of a tensor of a plan beside its type and sizes.

    Attributes:
        name: The tensor.
        format: Memory layout; anything but ``"LINEAR"`` is a vectorised one.
        shape_tensor: Whether its values decide shapes inside the plan, so that they lie on the host.
    """

    name: str
    format: str = LINEAR
    shape_tensor: bool = False

    @property
    def linear(self) -> bool:
        """Whether elements lie in row-major order."""
        return self.format == LINEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanVariant:
    """The plan of one kind of GPU, where there are several.

    Attributes:
        compute_capability: Of the GPU, e.g. ``"8.9"``.
        file: The companion that holds it; ``""`` for the artifact's own file.
        version: The library that wrote it.
    """

    compute_capability: str
    file: str
    version: str

    def __post_init__(self) -> None:
        _check_capability(self.compute_capability)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """Who built a plan, for what, and with which profiles.

    Attributes:
        builder: ``"tensorrt"`` or ``"tensorrt_rtx"``.
        version: Version of that library, e.g. ``"10.5.0.18"``.
        compute_capability: Of the GPU it was built for, e.g. ``"8.9"``; ``""`` when nobody knows.
        hardware_compatibility: One of `HARDWARE_LEVELS`.
        version_compatible: Whether later libraries may load it.
        profiles: Optimisation profiles, by index.
        tensors: Inputs, then outputs.
        variants: All plans by compute capability, where there are several.

    Raises:
        RecordError: If a word is not one of those.
    """

    builder: str
    version: str
    compute_capability: str = ""
    hardware_compatibility: str = "none"
    version_compatible: bool = False
    profiles: tuple[Profile, ...] = ()
    tensors: tuple[PlanTensor, ...] = ()
    variants: tuple[PlanVariant, ...] = ()

    def __post_init__(self) -> None:
        if self.builder not in _BUILDERS:
            raise RecordError(f"builder of a plan must be one of {', '.join(_BUILDERS)}, got {self.builder!r}")
        if self.hardware_compatibility not in HARDWARE_LEVELS:
            known = ", ".join(HARDWARE_LEVELS)
            raise RecordError(
                f"hardware_compatibility of a plan must be one of {known}, got {self.hardware_compatibility!r}"
            )
        if self.compute_capability:
            _check_capability(self.compute_capability)
        capabilities = [variant.compute_capability for variant in self.variants]
        if len(set(capabilities)) != len(capabilities):
            raise RecordError(f"plans need different compute capabilities, got {', '.join(capabilities)}")

    def tensor(self, name: str) -> PlanTensor:
        """What is known of a tensor; a linear execution tensor where nothing is."""
        return next((item for item in self.tensors if item.name == name), PlanTensor(name=name))


def _check_capability(text: str) -> None:
    if not _CAPABILITY.fullmatch(text):
        raise RecordError(f"compute capability must be MAJOR.MINOR like '8.9', got {text!r}")
