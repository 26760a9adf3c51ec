"""Process-wide switches of the PyTorch frontend, each with an environment variable.

>>> from aitune.torch.config import config
>>> config.enable_transformers_integration
True
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from aitune.errors import UsageError

__all__ = ["Config", "config"]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off", ""})


def read_switch(name: str, *, default: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """A yes-or-no environment variable.

    Raises:
        UsageError: If the variable holds neither a yes nor a no.
    """
    text = environment.get(name)
    if text is None:
        return default
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise UsageError(f"environment variable {name} must be a yes or a no, found {text!r}", hint="set it to 1 or 0")


@dataclass(slots=True)
class Config:
    """The switches.

    Attributes:
        enable_transformers_integration: Tell prefill from decode by ``cache_position``, and know the cache classes of
            transformers. Environment variable ``AITUNE_TRANSFORMERS_INTEGRATION``.
    """

    enable_transformers_integration: bool = field(
        default_factory=lambda: read_switch("AITUNE_TRANSFORMERS_INTEGRATION", default=True)
    )


config = Config()
"""The switches in force."""
