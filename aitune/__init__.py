"""aitune: get a tuned model onto NVIDIA Triton Inference Server, right the first time, with proof."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
