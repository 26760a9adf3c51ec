"""Values of options that several commands take, refused where they are given and not where they are used."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

__all__ = ["LARGEST_SIZE", "MILLISECONDS", "PATH", "SECONDS"]

LARGEST_SIZE = 2**31 - 1
"""The largest batch, and the largest size of an axis here: what Triton's config can hold for a batch (int32)."""


class _Path(click.Path):
    """A path that is not empty: ``-r "$UNSET"`` must not mean the current directory."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


class _Duration(click.FloatRange):
    """A finite time above 0."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        duration = float(super().convert(value, param, ctx))
        if not math.isfinite(duration):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return duration


PATH = _Path()
SECONDS = MILLISECONDS = _Duration()
