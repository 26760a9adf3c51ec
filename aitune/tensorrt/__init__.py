"""TensorRT plans: what a file's first bytes say about it.

Building plans from an artifact, and reading a plan's tensors, needs the TensorRT libraries and belongs to a later
version; a plan whose record (``aitune.json``) is there is published like any other artifact.
"""

from aitune.tensorrt.header import check_header

__all__ = ["check_header"]
