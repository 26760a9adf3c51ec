"""How an ONNX file is measured: what a user may choose, as the arguments that tuning takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime

from aitune.numerics import synthetic_inputs
from aitune.numerics.dtypes import Array
from aitune.onnx.candidates import OnnxCandidate, candidates
from aitune.onnx.isolation import launch
from aitune.onnx.providers import gpu_models
from aitune.records import TensorSpec
from aitune.records.evidence import InputDomain
from aitune.tuning.accuracy import Check
from aitune.tuning.candidate import open_here
from aitune.tuning.journal import tuning_cache
from aitune.tuning.shapes import Ranges

__all__ = ["Measured"]

_MADE_UP = (8, None)
"""Rows of the made-up requests that stand beside the samples where a file in eight bits is made: as many as answers are
compared for, which a model that does not batch may refuse, and what is typical."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The choices of :func:`aitune.onnx.tune` that are about measuring; see there."""

    tune: bool
    seconds: float
    objective: str
    p95_ms: float | None
    precision: tuple[str, ...]
    device: str
    accuracy: Check | None
    cache: bool
    isolate: bool

    def candidates(
        self,
        path: Path,
        inputs: Sequence[TensorSpec],
        domains: Sequence[InputDomain],
        ranges: Ranges,
        samples: Sequence[Mapping[str, Array]],
    ) -> tuple[OnnxCandidate, ...]:
        """The candidates for a file; without measuring only the first.

        Args:
            path: The file.
            inputs: Its inputs.
            domains: Range of values of each.
            ranges: Their shapes.
            samples: Recorded requests.
        """
        if not self.tune:
            return candidates(path, device=self.device)[:1]
        made_up = [
            synthetic_inputs(inputs, domains, ranges.shapes("typical", batch=rows), rows or 0)
            for rows in (_MADE_UP if "int8" in self.precision else ())
        ]
        return candidates(path, precision=self.precision, device=self.device, samples=samples, made_up=made_up)

    def options(self) -> dict[str, Any]:
        """The arguments of :func:`aitune.tuning.finish`.

        A check of the user's own is not part of any key, so with one nothing is remembered.
        """
        return {
            "tune": self.tune,
            "seconds": self.seconds,
            "objective": self.objective,
            "p95_ms": self.p95_ms,
            "check": self.accuracy,
            "launch": launch if self.isolate else open_here,
            "cache": tuning_cache() if self.cache and self.accuracy is None else None,
            "facts": {
                "onnxruntime": onnxruntime.__version__,
                "device": self.device,
                "isolate": self.isolate,
                **({} if self.device == "cpu" else {"gpus": gpu_models()}),
            },
        }

    def provenance(self) -> tuple[tuple[str, str], ...]:
        """Where it was measured, for the record, unless that was the processor."""
        return (("measured_on", "gpu"),) if self.device != "cpu" and self.tune else ()
