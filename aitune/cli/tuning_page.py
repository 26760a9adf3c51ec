"""The tuning of a model as a page: throughput and latency over batch size, per candidate. It loads nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aitune import __version__
from aitune.errors import UsageError
from aitune.records import Artifact
from aitune.records.evidence import Measurement, Tuning
from aitune.triton.templates import render_template

__all__ = ["to_html"]

_WIDTH, _HEIGHT = 640.0, 260.0
_LEFT, _RIGHT, _TOP, _BASE = 56.0, 16.0, 16.0, 228.0
_COLORS = 8
"""So many colours and dashes the template has; further candidates begin again."""
_TICKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    x: float
    y: float
    low: float
    high: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One candidate in a chart."""

    name: str
    color: int
    path: str
    points: tuple[_Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tick:
    place: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chart:
    """Everything a template needs to draw one measure over the batch size."""

    title: str
    lines: tuple[_Line, ...]
    batches: tuple[_Tick, ...]
    values: tuple[_Tick, ...]
    width: float = _WIDTH
    height: float = _HEIGHT
    left: float = _LEFT
    right: float = _WIDTH - _RIGHT
    base: float = _BASE
    top: float = _TOP


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measure:
    """One quantity of a measurement with its interval."""

    title: str
    of: Callable[[Measurement], tuple[float, float, float]]


_MEASURES = (
    _Measure(
        title="Throughput, rows per second",
        of=lambda item: tuple(item.batch_size * 1e6 / us for us in (item.p50_us, item.high_us, item.low_us)),  # type: ignore[arg-type,return-value]
    ),
    _Measure(
        title="Latency of one run, milliseconds (median)",
        of=lambda item: (item.p50_us / 1e3, item.low_us / 1e3, item.high_us / 1e3),
    ),
)


def to_html(artifact: Artifact, model: str) -> str:
    """A page that needs nothing but itself.

    Args:
        artifact: Its evidence must have a tuning.
        model: Name of the model.

    Raises:
        UsageError: If nothing was measured.
    """
    evidence = artifact.evidence
    if evidence is None or evidence.tuning is None:
        raise UsageError(f"model {model!r} was not tuned, so there is nothing to report")
    tuning = evidence.tuning
    shapes = dict.fromkeys(item.shape for item in tuning.measurements)
    sections = [
        {
            "shape": shape,
            "charts": [_chart(measure, _of_shape(tuning, shape), _order(tuning)) for measure in _MEASURES],
            "rows": [_cells(item) for item in _of_shape(tuning, shape)],
        }
        for shape in shapes
    ]
    return render_template(
        "tuning.html.j2",
        model=model,
        artifact=artifact,
        tuning=tuning,
        sections=sections,
        reasons=dict(tuning.rejected),
        provenance=evidence.provenance,
        notes=evidence.notes,
        version=__version__,
    )


def _order(tuning: Tuning) -> list[str]:
    listed = [tried.name for tried in tuning.candidates]
    return list(dict.fromkeys([*listed, *(item.candidate for item in tuning.measurements)]))


def _of_shape(tuning: Tuning, shape: str) -> list[Measurement]:
    return [item for item in tuning.measurements if item.shape == shape]


def _cells(item: Measurement) -> tuple[str, ...]:
    late = "unknown" if item.p95_us is None else f"{item.p95_us / 1e3:.3f}"
    interval = f"{item.low_us / 1e3:.3f} to {item.high_us / 1e3:.3f}"
    numbers = (f"{item.throughput_per_s:.1f}", f"{item.p50_us / 1e3:.3f}", interval, late, str(item.runs))
    return (item.candidate, str(item.batch_size), *numbers)


def _chart(measure: _Measure, items: Sequence[Measurement], order: Sequence[str]) -> _Chart:
    """Lines over the logarithm of the batch, values from zero to the largest."""
    batches = sorted({item.batch_size for item in items})
    spread = math.log2(batches[-1] / batches[0]) or 1.0
    step = _step(max(max(measure.of(item)) for item in items))
    most = step * _TICKS

    def across(batch: int) -> float:
        share = 0.5 if len(batches) == 1 else math.log2(batch / batches[0]) / spread
        return round(_LEFT + 20 + share * (_WIDTH - _LEFT - _RIGHT - 40), 1)

    def up(value: float) -> float:
        return round(_BASE - (_BASE - _TOP) * value / most, 1)

    lines = []
    for index, name in enumerate(order):
        mine = sorted((item for item in items if item.candidate == name), key=lambda item: item.batch_size)
        points = []
        for item in mine:
            middle, low, high = measure.of(item)
            title = f"{name}, batch {item.batch_size}: {middle:.4g} ({low:.4g} to {high:.4g})"
            points.append(_Point(x=across(item.batch_size), y=up(middle), low=up(low), high=up(high), title=title))
        if points:
            path = " ".join(f"{point.x},{point.y}" for point in points)
            lines.append(_Line(name=name, color=index % _COLORS, path=path, points=tuple(points)))
    return _Chart(
        title=measure.title,
        lines=tuple(lines),
        batches=tuple(_Tick(place=across(batch), label=str(batch)) for batch in _apart(batches, across)),
        values=tuple(_Tick(place=up(step * index), label=f"{step * index:g}") for index in range(_TICKS + 1)),
    )


def _apart(batches: Sequence[int], across: Callable[[int], float]) -> list[int]:
    """Batches whose labels do not touch."""
    shown: list[int] = []
    for batch in batches:
        if not shown or across(batch) - across(shown[-1]) >= 26:
            shown.append(batch)
    return shown


def _step(largest: float) -> float:
    """A round distance of the ticks: 1, 2, 2.5 or 5 times a power of ten.

    >>> _step(37.0), _step(0.9)
    (10.0, 0.25)
    """
    rough = max(largest, 1e-9) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= rough * 0.999)
