"""Where the versions in `aitune.triton.images` come from: what was read, and where.

A source with ``read=False`` was not read: it is the place to look a value up, and confirms nothing.

>>> SOURCES["windows"].address("24.08")
'https://github.com/triton-inference-server/server/blob/r24.08/Dockerfile.win10.min'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["SOURCES", "Source"]

_FIRST_DASH = "22.07"
"""NVIDIA's pages are called ``rel_22-06`` before this release, ``rel-22-11`` after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Something that names the version of a library in an image.

    Attributes:
        title: What it is.
        url: Where it is; ``{release}`` stands for ``24.08`` and ``{page}`` for ``rel-24-08``.
        read: Whether a value was read there.
    """

    title: str
    url: str
    read: bool = True

    def address(self, release: str) -> str:
        """Where the source of one release is."""
        prefix = "rel_" if release < _FIRST_DASH else "rel-"
        return self.url.format(release=release, page=prefix + release.replace(".", "-"))


_NVIDIA = "https://docs.nvidia.com/deeplearning"
_GITHUB = "https://github.com"
_SERVER = f"{_GITHUB}/triton-inference-server/server"

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "matrix": Source(
            title="NVIDIA, Frameworks Support Matrix",
            url=f"{_NVIDIA}/frameworks/support-matrix/index.html",
            read=False,
        ),
        "notes": Source(
            title="NVIDIA, release notes of the Triton image, contents and driver requirements",
            url=f"{_NVIDIA}/triton-inference-server/release-notes/{{page}}.html",
        ),
        "notes-25.04": Source(
            title="NVIDIA, release notes of the Triton image 25.04, which stand under another name",
            url=f"{_NVIDIA}/triton-inference-server/release-notes/Chunk786889861.html",
        ),
        "branch": Source(
            title="Triton's release notes on the release branch",
            url=f"{_SERVER}/blob/r{{release}}/docs/introduction/release_notes.md",
        ),
        "windows": Source(
            title="what the build of the same release pins for Windows",
            url=f"{_SERVER}/blob/r{{release}}/Dockerfile.win10.min",
        ),
        "tensorflow": Source(
            title="NVIDIA, TensorFlow Release 21.10, on the base image of that month",
            url=f"{_NVIDIA}/frameworks/tensorflow-release-notes/rel_21-10.html",
        ),
        "mxnet": Source(
            title="NVIDIA, release notes of the MXNet image, on the base image of that month",
            url=f"{_NVIDIA}/frameworks/mxnet-release-notes/{{page}}.html",
        ),
        "twcc": Source(
            title="TWAI, versions of the Triton images that it offers",
            url="https://docs.twcloud.ai/en/docs/concepts-tutorials/twcc/ccs/concepts/images/triton-inference-server/",
        ),
        "torch-tensorrt-1059": Source(
            title="images 22.03 and 22.04 print what they have: 8.2.3 and 8.2.4.2",
            url=f"{_GITHUB}/pytorch/TensorRT/issues/1059",
        ),
        "tensorrt-2544": Source(
            title="22.10 has TensorRT 8.5 EA and refuses a plan of 8.5.1.7",
            url=f"{_GITHUB}/NVIDIA/TensorRT/issues/2544",
        ),
        "nos-19": Source(title="tensorrt:23.02-py3 has 8.5.3", url=f"{_GITHUB}/autonomi-ai/nos/pull/19"),
        "server-5812": Source(
            title="23.04 prints TRT_VERSION=8.6.1.2, and refuses a plan of 8.6.0.12", url=f"{_SERVER}/issues/5812"
        ),
        "server-5975": Source(
            title="23.05 expects 8.6.1.2, and refuses a plan of 8.6.1.6", url=f"{_SERVER}/issues/5975"
        ),
        "server-6959": Source(title="24.02 prints tensorrt-dev 8.6.3", url=f"{_SERVER}/issues/6959"),
        "reflex-vla": Source(
            title="tensorrt:24.10-py3 has TensorRT 10.5 and CUDA 12.6",
            url=f"{_GITHUB}/rylinjames/reflex-vla/blob/main/scripts/modal_bench_trt_fp16.py",
        ),
        "seaco-asr": Source(
            title="tensorrt:24.11-py3 has TensorRT 10.6 and CUDA 12.6",
            url=f"{_GITHUB}/zwdfqdd/SeACoParaformer_optimize-infer/blob/main/docs/README.md",
        ),
        "tensorrt-llm-3216": Source(
            title="NVIDIA moves from base image 25.01 to 25.03, TensorRT from 10.8 to 10.9, CUDA to 12.8.1",
            url=f"{_GITHUB}/NVIDIA/TensorRT-LLM/pull/3216",
        ),
        "audio-playground": Source(
            title="25.07 has 10.11.0.33, and refuses a plan of 10.9",
            url=f"{_GITHUB}/dvirbenor/audio-classification-playground",
        ),
        "profiling-blackwell": Source(
            title="tensorrt:25.11-py3 has 10.14.1",
            url=f"{_GITHUB}/ldu-nvidia/profiling_blackwell/blob/main/README.md",
        ),
        "foresight": Source(
            title="tensorrt:25.11-py3 has 10.14.1 and CUDA 13.0.2",
            url=f"{_GITHUB}/DylanPina/foresight-orin-thor-bench",
        ),
        "tensorrt-llm-9818": Source(
            title="NVIDIA moves to base image 25.12, TensorRT from 10.13.3 to 10.14.1",
            url=f"{_GITHUB}/NVIDIA/TensorRT-LLM/pull/9818",
        ),
        "storeguard": Source(
            title="tensorrt:25.12-py3 has 10.14.1, and Triton 25.12 serves its plan",
            url=f"{_GITHUB}/grkygrt1476/storeguard/blob/main/README.md",
        ),
        "modelopt-1112": Source(
            title="NVIDIA: tensorrt:26.02-py3 has 10.15.1", url=f"{_GITHUB}/NVIDIA/Model-Optimizer/pull/1112"
        ),
        "stateful": Source(
            title="trtexec of tritonserver:26.02-py3 is 10.15.1",
            url=f"{_GITHUB}/wwe-boop/test_stateful/blob/main/tests/repro/repro_myelin_stride_mismatch/README.md",
        ),
        "mergen": Source(
            title="tensorrt:26.03-py3 has 10.16.0.72 and CUDA 13.2",
            url=f"{_GITHUB}/bbariskaya/MergenVisionPhase2V2/blob/main/docs/implementation/review_packages/"
            "SPRINT-002-CODE-REVIEW-PACKAGE.md",
        ),
        "server-8828": Source(title="the tests of Triton 26.06 move to TensorRT 11", url=f"{_SERVER}/pull/8828"),
        "modelopt-far3d": Source(
            title="NVIDIA: pytorch:26.07-py3 has TensorRT 11.1",
            url=f"{_GITHUB}/NVIDIA/Model-Optimizer/blob/main/examples/onnx_ptq/far3d/README.md",
        ),
    }
)
"""Sources by the word that the table of images uses."""
