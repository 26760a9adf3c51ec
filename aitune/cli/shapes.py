"""Options that name a tensor and a shape: ``ids=1,8`` or ``ids:1x8``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import click

from aitune.cli.values import LARGEST_SIZE

__all__ = ["SHAPE", "Shape", "collect"]

_FORMS = "NAME=1,8 or NAME:1x8"


class Shape(click.ParamType[tuple[str, tuple[int, ...]]]):
    """A tensor's name and its full shape, batch axis included; a scalar's shape is empty (``NAME=``)."""

    name = "NAME=SHAPE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        """The pair; names may themselves hold ``:`` or ``=``, so the last separator counts."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(.+)(?:=(\d*(?:,\d+)*)|:(\d+(?:x\d+)*))", value, flags=re.DOTALL)
        if match is None:
            self.fail(f"{value!r} is not of the form {_FORMS}", param, ctx)
        name, commas, crosses = match.groups()
        sizes = tuple(int(size) for size in re.split("[,x]", commas or crosses or "") if size)
        if any(size < 1 for size in sizes):
            self.fail(f"{value!r} has a size below 1", param, ctx)
        if any(size > LARGEST_SIZE for size in sizes):
            self.fail(f"{value!r} has a size above {LARGEST_SIZE}", param, ctx)
        return name, sizes


SHAPE = Shape()


def collect(option: str, pairs: Iterable[tuple[str, tuple[int, ...]]]) -> dict[str, tuple[int, ...]]:
    """The pairs of a repeated option as a mapping; one tensor named twice is refused."""
    found: dict[str, tuple[int, ...]] = {}
    for name, shape in pairs:
        if name in found:
            raise click.UsageError(f"{option} names {name!r} twice")
        found[name] = shape
    return found
