"""Which TensorRT and which CUDA the container of each Triton release carries, each version with its sources.

A plan loads only in the TensorRT that wrote it, so an answer to "which server image loads this plan?" is as good as
this table. A version is given to the part that is known; a source may name fewer parts of it than the table does.
A version that no source confirms may be wrong: nothing is refused because of it.

>>> IMAGES["24.10"].tensorrt, IMAGES["24.10"].tensorrt_confirmed
('10.5.0.18', True)
>>> IMAGES["25.05"].tensorrt, IMAGES["25.05"].tensorrt_confirmed
('10.10.0.31', False)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from aitune.triton.image_sources import SOURCES

__all__ = ["IMAGES", "Image"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What the container of a release carries.

    Attributes:
        release: Name of the release, e.g. ``"24.10"``.
        tensorrt: Its TensorRT, as precisely as is known.
        tensorrt_sources: What says so: keys of `SOURCES`.
        cuda: Its CUDA, as precisely as is known.
        cuda_sources: What says so.
    """

    release: str
    tensorrt: str
    tensorrt_sources: tuple[str, ...]
    cuda: str
    cuda_sources: tuple[str, ...]

    @property
    def tensorrt_confirmed(self) -> bool:
        """Whether the version of TensorRT was read somewhere."""
        return any(SOURCES[key].read for key in self.tensorrt_sources)

    @property
    def cuda_confirmed(self) -> bool:
        """Whether the version of CUDA was read somewhere."""
        return any(SOURCES[key].read for key in self.cuda_sources)


# Release, TensorRT, its sources, CUDA, its sources.
_ROWS = """
21.10 8.0.3.4    windows,tensorflow               11.4.2 windows,tensorflow
21.11 8.0.3.4    windows,twcc                     11.5.0 twcc
21.12 8.2.1.8    notes                            11.5.0 notes
22.01 8.2.2      windows                          11.6.0 matrix
22.02 8.2.3      twcc                             11.6.0 twcc
22.03 8.2.3      mxnet,torch-tensorrt-1059        11.6.1 mxnet
22.04 8.2.4.2    torch-tensorrt-1059              11.6.2 matrix
22.05 8.2.5.1    mxnet,twcc                       11.7.0 notes,mxnet,twcc
22.06 8.2.5      matrix                           11.7   notes
22.07 8.4.1      matrix                           11.7   matrix
22.08 8.4.2.4    twcc                             11.7.1 twcc
22.09 8.5.0.12   matrix                           11.8.0 matrix
22.10 8.5.0.12   tensorrt-2544                    11.8.0 matrix
22.11 8.5.1      windows,mxnet,twcc               11.8.0 windows,mxnet,twcc
22.12 8.5.1      windows                          11.8.0 notes
23.01 8.5.2.2    matrix                           12.0.1 matrix
23.02 8.5.3.1    nos-19                           12.0.1 matrix
23.03 8.5.3.1    windows                          12.1.0 notes
23.04 8.6.1.2    server-5812                      12.1.0 notes
23.05 8.6.1.2    server-5975                      12.1.1 notes,windows
23.06 8.6.1.6    windows                          12.1.1 notes,windows
23.07 8.6.1.6    windows                          12.1.1 notes,windows
23.08 8.6.1.6    windows                          12.2.1 notes
23.09 8.6.1.6    windows                          12.2.1 notes
23.10 8.6.1.6    windows                          12.2.2 matrix
23.11 8.6.1.6    windows                          12.3.0 windows
23.12 8.6.1.6    windows                          12.3.2 notes,windows
24.01 8.6.1.6    windows                          12.3.2 notes,windows
24.02 8.6.3      server-6959                      12.3.2 windows
24.03 8.6.3      matrix                           12.4   matrix
24.04 8.6.3      matrix                           12.4   notes
24.05 10.0.1.6   mxnet                            12.4.1 notes,mxnet
24.06 10.1.0.27  matrix                           12.5.0 notes,windows
24.07 10.2.0.19  windows                          12.5.1 windows
24.08 10.3.0.26  windows                          12.6.0 matrix
24.09 10.4.0.26  windows                          12.6.1 matrix
24.10 10.5.0.18  reflex-vla                       12.6.2 notes
24.11 10.6.0.26  seaco-asr                        12.6.3 seaco-asr
24.12 10.7.0.23  branch,windows                   12.6.3 branch,windows
25.01 10.8.0.43  branch                           12.8.0 branch
25.02 10.8.0.43  windows                          12.8.0 windows
25.03 10.9.0.34  tensorrt-llm-3216                12.8.1 notes,tensorrt-llm-3216
25.04 10.9.0.34  matrix                           12.9.0 notes-25.04
25.05 10.10.0.31 matrix                           12.9.0 matrix
25.06 10.11.0.33 matrix                           12.9.1 notes
25.07 10.11.0.33 audio-playground                 12.9.1 matrix
25.08 10.13.2    matrix                           13.0.0 notes
25.09 10.13.3    matrix                           13.0.1 matrix
25.10 10.13.3    matrix                           13.0.2 notes
25.11 10.14.1    profiling-blackwell,foresight    13.0.2 foresight
25.12 10.14.1    storeguard,tensorrt-llm-9818     13     matrix
26.01 10         matrix                           13     matrix
26.02 10.15.1    modelopt-1112,stateful           13.1.1 notes
26.03 10.16.0.72 mergen                           13.2   mergen
26.04 10.16      matrix                           13.2.1 notes
26.05 10.16.1.11 matrix                           13.2.1 notes
26.06 11         server-8828                      13.3.0 notes
26.07 11.1       modelopt-far3d                   13.3.1 notes
26.08 11         matrix                           13.4.1 notes
"""


def _read() -> dict[str, Image]:
    images = {}
    for line in _ROWS.split("\n"):
        if line:
            release, tensorrt, tensorrt_sources, cuda, cuda_sources = line.split()
            images[release] = Image(
                release=release,
                tensorrt=tensorrt,
                tensorrt_sources=tuple(tensorrt_sources.split(",")),
                cuda=cuda,
                cuda_sources=tuple(cuda_sources.split(",")),
            )
    return images


IMAGES: Mapping[str, Image] = MappingProxyType(_read())
"""What each release carries, by its name."""
