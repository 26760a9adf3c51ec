"""What a person may decide about a plan; everything else follows from the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aitune.errors import UsageError
from aitune.records.plans import HARDWARE_LEVELS, Profile

__all__ = ["PRECISIONS", "BuildOptions"]

PRECISIONS = ("model", "tf32", "fp16", "bf16")
"""``model`` computes in the types the model declares; ``tf32`` may round float32 products to 10 bits; the others may
compute float32 layers in half precision, where the library takes that as a flag."""
_LEVELS = range(6)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """The choices of a build.

    Attributes:
        precision: One of `PRECISIONS`.
        profiles: Optimisation profiles; made from the contract when empty.
        splits: Upper bounds by symbol: the contract's range is split there into one profile each.
        workspace_bytes: Most memory that one layer may use while it runs; the library's own limit when None.
        timing_cache: File with timings of earlier builds; read where it exists and written again.
        version_compatible: Let later libraries load the plan (the server needs an option for it).
        hardware_compatibility: One of `HARDWARE_LEVELS`.
        compute_capability: GPU to build for, e.g. ``"8.9"``; the one that is here when None.
        optimization_level: 0 (builds fast) to 5 (runs fast); the library's own when None.
        formats: Memory layout by tensor, e.g. ``{"x": "CHW32"}``; row-major where none is named.

    Raises:
        UsageError: If a value makes no sense.
    """

    precision: str = "model"
    profiles: tuple[Profile, ...] = ()
    splits: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    workspace_bytes: int | None = None
    timing_cache: Path | None = None
    version_compatible: bool = False
    hardware_compatibility: str = "none"
    compute_capability: str | None = None
    optimization_level: int | None = None
    formats: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UsageError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        if self.hardware_compatibility not in HARDWARE_LEVELS:
            known = ", ".join(HARDWARE_LEVELS)
            raise UsageError(f"hardware_compatibility must be one of {known}, got {self.hardware_compatibility!r}")
        if self.workspace_bytes is not None and self.workspace_bytes < 1:
            raise UsageError(f"workspace_bytes must be at least 1, got {self.workspace_bytes}")
        if self.optimization_level is not None and self.optimization_level not in _LEVELS:
            raise UsageError(f"optimization_level must be 0 to 5, got {self.optimization_level}")
        if self.profiles and self.splits:
            raise UsageError("give profiles or splits, not both", hint="splits make the profiles from the contract")
