"""Is this environment ours? NVIDIA publishes another distribution whose import name is ``aitune`` too."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

from aitune.errors import UnavailableError

__all__ = ["foreign_aitune", "refuse_foreign_aitune"]


def foreign_aitune(paths: Sequence[str] | None = None) -> str | None:
    """Version of an installed distribution named ``aitune``, None when there is none.

    Args:
        paths: Folders to look in; ``sys.path`` when None. Only names are read, so this takes well under a millisecond.
    """
    for folder in sys.path if paths is None else paths:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            match = re.fullmatch(r"aitune-([^-]+)\.(?:dist|egg)-info", name)
            if match:
                return match.group(1)
    return None


def refuse_foreign_aitune(paths: Sequence[str] | None = None) -> None:
    """Stop before modules of two distributions are mixed (decision 13).

    Raises:
        UnavailableError: If the other distribution is installed in this environment.
    """
    version = foreign_aitune(paths)
    if version is not None:
        raise UnavailableError(
            f"another distribution, 'aitune' {version}, is installed here and has the same import name",
            hint="use a virtual environment of its own for aitune-triton, or pip uninstall aitune and install again",
        )
