"""Tuning: does it batch, how fast is it, and which way of running it wins?

The room knows no framework: a frontend hands in :class:`Candidate` objects that open a :class:`Runner`.
"""

from aitune.tuning.batching import batch_sizes, prove_batching, stops_batching
from aitune.tuning.candidate import Candidate
from aitune.tuning.choose import choose
from aitune.tuning.finish import finish
from aitune.tuning.ports import tensor_specs
from aitune.tuning.progress import SILENT, Progress
from aitune.tuning.runner import Runner
from aitune.tuning.shapes import Ranges, ShapeRange, resolve_ranges

__all__ = [
    "SILENT",
    "Candidate",
    "Progress",
    "Ranges",
    "Runner",
    "ShapeRange",
    "batch_sizes",
    "choose",
    "finish",
    "prove_batching",
    "resolve_ranges",
    "stops_batching",
    "tensor_specs",
]
