"""Values as plain JSON for people and reports; nothing reads it back."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Set
from datetime import date, time
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeAlias, cast

from aitune.torch.module.leaf_values import is_array_scalar, type_name
from aitune.torch.module.locator import Locator
from aitune.torch.module.tensor_spec import TensorSpec

__all__ = ["Json", "json_value", "other_summary", "tensor_summary"]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")


def json_value(value: object) -> Json:
    """A value in JSON: numbers that are not finite as text, sets sorted, classes and functions by name."""
    if value is None or isinstance(value, (bool, str)):
        return str(value.value) if isinstance(value, Enum) else value
    if isinstance(value, Enum):
        return json_value(value.value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _not_finite(value)
    if is_array_scalar(value):
        item = cast("Any", value).item()
        return str(value) if is_array_scalar(item) else json_value(item)
    if isinstance(value, type):
        return type_name(value)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    return _container(value)


def _container(value: object) -> Json:
    if isinstance(value, Mapping):
        return {str(key): json_value(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(part) for part in value]
    if isinstance(value, Set):
        return sorted((json_value(part) for part in value), key=lambda part: (type(part).__name__, str(part)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
        return {name: json_value(getattr(value, name)) for name in names}
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{getattr(value, '__module__', None)}:{value.__qualname__}"
    text = str(value)
    return f"<{type_name(type(value))}>" if _ADDRESS.search(text) else text


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def tensor_summary(locator: Locator, spec: TensorSpec) -> dict[str, Json]:
    """One tensor of a report."""
    return {
        **_place(locator),
        "shape": list(spec.shape),
        "min_shape": list(spec.min_shape),
        "max_shape": list(spec.max_shape),
        "dtype": str(spec.dtype),
    }


def other_summary(locator: Locator, value: object) -> dict[str, Json]:
    """One leaf of a report that is no tensor."""
    return {**_place(locator), "value": json_value(value)}


def _place(locator: Locator) -> dict[str, Json]:
    return {"access_path": locator.display_path, "semantic_path": json_value(locator.path)}
