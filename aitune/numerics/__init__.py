"""Numbers: what a tensor is in memory and on the wire, made-up requests, and whether two answers agree.

A tensor in memory is a numpy array and the element type its contract names; the bits of a BFLOAT16 are held as
``uint16``, a string as ``bytes`` in an object array.

>>> import numpy as np
>>> from aitune.numerics import compare, from_wire, synthetic, to_wire
>>> from aitune.records import DType, TensorSpec
>>> from aitune.records.evidence import InputDomain
>>> spec = TensorSpec("x", DType.FLOAT32, ("batch", 4))
>>> x = synthetic(spec, (2, 4), InputDomain(name="x", typical_shape=(1, 4), low=-1, high=1), seed=7)
>>> back = from_wire(to_wire(x, spec.dtype), spec.dtype, x.shape)
>>> compare(back, x, spec.dtype).detail
'equal'
>>> compare(back + np.float32(0.1), x, spec.dtype).agrees
False

How far two answers may be apart stands in one table, :mod:`aitune.numerics.tolerance`. The sample file is in
:mod:`aitune.numerics.samples`, the golden probe in :mod:`aitune.numerics.probe`.
"""

from aitune.numerics.compare import Agreement, compare
from aitune.numerics.domains import observe_domains, varied
from aitune.numerics.dtypes import Array, as_float, dtype_of, from_float, numpy_dtype, require_dtype
from aitune.numerics.probe import check_probe, make_probe, probe_request
from aitune.numerics.samples import Request, read_sample, read_samples, write_samples
from aitune.numerics.synthetic import synthetic, synthetic_inputs
from aitune.numerics.tolerance import Tolerance, regrouped, tolerance
from aitune.numerics.wire import from_wire, to_wire

__all__ = [
    "Agreement",
    "Array",
    "Request",
    "Tolerance",
    "as_float",
    "check_probe",
    "compare",
    "dtype_of",
    "from_float",
    "from_wire",
    "make_probe",
    "numpy_dtype",
    "observe_domains",
    "probe_request",
    "read_sample",
    "read_samples",
    "regrouped",
    "require_dtype",
    "synthetic",
    "synthetic_inputs",
    "to_wire",
    "tolerance",
    "varied",
    "write_samples",
]
