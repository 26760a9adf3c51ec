"""Tuning: does it batch, how fast is it, and which way of running it wins?

The room knows no framework: a frontend hands in :class:`Candidate` objects that open a :class:`Runner`.
"""

from aitune.tuning.candidate import Candidate
from aitune.tuning.progress import SILENT, Progress
from aitune.tuning.runner import Runner

__all__ = ["SILENT", "Candidate", "Progress", "Runner"]
