"""Which TensorRT and which CUDA the container of each Triton release carries, as data with its sources.

A plan loads only in the TensorRT that wrote it, so an answer to "which server image loads this plan?" is as good as
this table. A version is given to the part that is known: ``"11"`` or ``"10"`` where no source names the minor version.

Sources:

- CUDA: *Triton Inference Server Release YY.MM*, "Driver Requirements",
  https://docs.nvidia.com/deeplearning/triton-inference-server/release-notes/
- TensorRT up to 25.06: NVIDIA's *Frameworks Support Matrix*,
  https://docs.nvidia.com/deeplearning/frameworks/support-matrix/ ; the pins of ``Dockerfile.win10.min`` on the release
  branches of https://github.com/triton-inference-server/server agree where they were updated (22.11, 23.05 to 24.01,
  24.07 to 24.09, 24.12, 25.02).
- TensorRT from 25.08 on: versions that users of ``nvcr.io/nvidia/tensorrt:YY.MM-py3``, built on the same base image,
  printed in it (25.10, 25.12, 26.03, 26.05); 26.05 is the last release with TensorRT 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["IMAGES"]

# Release, TensorRT, CUDA.
_ROWS = """
21.10 8.0.3.4 11.4.2      21.11 8.0.3.4 11.5.0      21.12 8.2.1.8 11.5.0
22.01 8.2.2 11.6.0        22.02 8.2.3 11.6.0        22.03 8.2.3 11.6.1        22.04 8.2.4.2 11.6.2
22.05 8.2.5.1 11.7.0      22.06 8.2.5 11.7          22.07 8.4.1 11.7          22.08 8.4.2.4 11.7.1
22.09 8.5.0.12 11.8.0     22.10 8.5.0.12 11.8.0     22.11 8.5.1 11.8.0        22.12 8.5.1 11.8.0
23.01 8.5.2.2 12.0.1      23.02 8.5.3.1 12.0.1      23.03 8.5.3.1 12.1.0      23.04 8.6.1 12.1.0
23.05 8.6.1.2 12.1.1      23.06 8.6.1.6 12.1.1      23.07 8.6.1.6 12.1.1      23.08 8.6.1.6 12.2.1
23.09 8.6.1.6 12.2.1      23.10 8.6.1.6 12.2.2      23.11 8.6.1.6 12.3.0      23.12 8.6.1.6 12.3.2
24.01 8.6.1.6 12.3.2      24.02 8.6.3 12.3.2        24.03 8.6.3 12.4          24.04 8.6.3 12.4
24.05 10.0.1.6 12.4.1     24.06 10.1.0.27 12.5.0    24.07 10.2.0.19 12.5.1    24.08 10.3.0.26 12.6.0
24.09 10.4.0.26 12.6.1    24.10 10.5.0.18 12.6.2    24.11 10.6.0.26 12.6.3    24.12 10.7.0.23 12.6.3
25.01 10.8.0.43 12.8.0    25.02 10.8.0.43 12.8.0    25.03 10.9.0.34 12.8.1    25.04 10.9.0.34 12.9.0
25.05 10.10.0.31 12.9.0   25.06 10.11.0.33 12.9.1   25.07 10 12.9.1           25.08 10.13.2 13.0.0
25.09 10.13.3 13.0.1      25.10 10.13.3 13.0.2      25.11 10 13.0.2           25.12 10.14.1 13
26.01 10 13               26.02 10 13.1.1           26.03 10.16.0.72 13.2     26.04 10.16 13.2.1
26.05 10.16.1.11 13.2.1   26.06 11 13.3.0           26.07 11 13.3.1
"""


def _read() -> dict[str, tuple[str, str]]:
    words = _ROWS.split()
    return {name: (tensorrt, cuda) for name, tensorrt, cuda in zip(words[::3], words[1::3], words[2::3], strict=True)}


IMAGES: Mapping[str, tuple[str, str]] = MappingProxyType(_read())
"""Release -> (TensorRT, CUDA) of its container, as precisely as is known."""
