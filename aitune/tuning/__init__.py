"""Tuning: does it batch, how fast is it, and which way of running it wins?

The room knows no framework: a frontend hands in a :class:`Candidate` that opens a :class:`Runner`, and :func:`finish`
makes the artifact. Here a row is doubled, which batches, or divided by the sum over the batch, which does not:

>>> from aitune.numerics import observe_domains
>>> from aitune.records import DType, TensorSpec
>>> class Model:
...     def __init__(self, function):
...         self.function = function
...     def run(self, inputs):
...         return {"y": self.function(inputs["x"])}
...     def close(self):
...         pass
>>> x, y = (TensorSpec(name, DType.FLOAT32, ("batch", 4)) for name in "xy")
>>> ranges = resolve_ranges([x])
>>> domains = observe_domains([x], ranges.shapes("typical"))
>>> prove_batching(Model(lambda x: x + x), [x], [y], domains, ranges, max_batch_size=8).proved
True
>>> prove_batching(Model(lambda x: x / x.sum(0)), [x], [y], domains, ranges, max_batch_size=8).reason
"row 1 of output 'y' depends on the other rows in a batch of 5: 0.00605121 there and 1 alone"

Measuring is :func:`choose`, on top of :mod:`aitune.tuning.measure`; :func:`resolve_ranges` makes shapes of what a user
says.
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
