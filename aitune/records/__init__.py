"""The tensor contract of a tuned model: plain frozen values, standard library only.

A model becomes a record; a record becomes a repository. This room holds the record.

>>> from pathlib import Path
>>> from aitune.records import DType, ONNXArtifact, TunedTensorSpec
>>> bounds = {"min_shape": (1, 8), "max_shape": (8, 512), "batch_axis": 0}
>>> artifact = ONNXArtifact(
...     path=Path("model.onnx"),
...     fingerprint="0" * 64,
...     inputs=(
...         TunedTensorSpec("input_ids", DType.INT64, ("batch", "sequence"), **bounds),
...         TunedTensorSpec("attention_mask", DType.BOOL, ("batch", "sequence"), **bounds),
...     ),
...     outputs=(
...         TunedTensorSpec("embedding", DType.FLOAT32, ("batch", "sequence", 768), (1, 8, 768), (8, 512, 768), 0),
...     ),
... )
>>> artifact.input_names
('input_ids', 'attention_mask')
>>> artifact.max_batch_size
8

What a file declares is in :mod:`aitune.records.interface`, why a record may be believed in
:mod:`aitune.records.evidence`, its JSON form in :mod:`aitune.records.codec`.
"""

from aitune.records.artifact import Artifact, ArtifactIntegrityError, ONNXArtifact, TensorRTPlanArtifact
from aitune.records.dtypes import DType
from aitune.records.shapes import TensorSpec, TunedTensorSpec

__all__ = [
    "Artifact",
    "ArtifactIntegrityError",
    "DType",
    "ONNXArtifact",
    "TensorRTPlanArtifact",
    "TensorSpec",
    "TunedTensorSpec",
]
