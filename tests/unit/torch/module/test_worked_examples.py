"""250 worked examples of an earlier implementation, and every difference from its answers.

`worked_examples.json` holds, by group and id, the statements and the answer that implementation gave: the repr of the
last expression, or the type of the error. `worked_differences.json` lists each id whose answer is another one here, the
defect it mends (or the public name that asks for it), why, and the answer here. Nothing else may differ, and an entry
whose answer no longer differs has to go.
"""

from __future__ import annotations

import ast
import collections
import copy
import dataclasses
import hashlib
import json
import math
import os
import pathlib
import pickle
import re
import tempfile
import types
from collections import OrderedDict, UserDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch

import aitune.records
from aitune.global_context import BATCH_SIZE_KEY, global_context
from aitune.torch.module.locator import Locator, ObjectType
from aitune.torch.module.sample_metadata import SampleMetadata, batch_tensor
from aitune.torch.module.tensor_spec import InfoLevel, TensorSpec

HERE = pathlib.Path(__file__).parent
NAN = math.nan
EXAMPLES: dict[str, dict[str, tuple[str, str]]] = json.loads((HERE / "worked_examples.json").read_text("utf-8"))
DIFFERENCES: dict[str, dict[str, str]] = json.loads((HERE / "worked_differences.json").read_text("utf-8"))
CASES = [(group, name, *case) for group, cases in EXAMPLES.items() for name, case in cases.items()]
ALLOWED_REASONS = re.compile(r"D([1-9]|[12][0-9]|3[0-6])|public names")


@dataclasses.dataclass
class DC:
    """A dataclass that can change."""

    t: object
    n: object = 7


@dataclasses.dataclass(frozen=True)
class FDC:
    """A frozen dataclass."""

    t: object


class NT(NamedTuple):
    """A named tuple."""

    a: object
    b: object


class Obj:
    """An object without an equality of its own."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


class Cache:
    """An object with data attributes of every sort."""

    kind = "static"

    def __init__(self) -> None:
        self.z = torch.zeros(2, 3)
        self.a = torch.zeros(2)
        self._p = torch.zeros(9)
        self.n = 4

    @property
    def prop(self) -> torch.Tensor:
        """Computed, so not data."""
        return torch.zeros(1)

    def method(self) -> int:
        """Callable, so not data."""
        return 1


def zeros(*shape: int, **options: Any) -> torch.Tensor:
    """A tensor of zeros."""
    return torch.zeros(shape, **options)


def counting(*shape: int) -> torch.Tensor:
    """A tensor whose elements count up."""
    return torch.arange(math.prod(shape)).reshape(shape)


def spec(*seen: tuple[tuple[int, ...], int | None]) -> TensorSpec:
    """A spec that saw shapes, each with a batch size, in order."""
    first, *rest = [TensorSpec.from_tensor(zeros(*shape), NAN if batch is None else batch) for shape, batch in seen]
    for other in rest:
        first.update_shapes_seen(other)
    return first


def learn(*seen: tuple[object, int | None], strict: bool = False) -> SampleMetadata:
    """Metadata that saw inputs, each with a batch size, in order."""
    first, *rest = [SampleMetadata.from_inputs(inputs, strict=strict, batch_size=batch) for inputs, batch in seen]
    for other in rest:
        first.update_shapes_seen(other)
    return first


def leaves(data: object, **options: bool) -> list[tuple[str, object]]:
    """Display path and leaf, tensors by their shape."""
    return [(place.display_path, tshape(leaf)) for place, leaf in Locator.find_leaves(data, **options)]


def tshape(data: Any) -> Any:
    """Data with each tensor replaced by its shape."""
    if torch.is_tensor(data):
        return f"T{list(data.shape)}"
    if type(data) is dict:
        return {key: tshape(part) for key, part in data.items()}
    return type(data)(tshape(part) for part in data) if type(data) in (tuple, list) else data


NAMES: dict[str, object] = {
    "collections": collections, "dataclasses": dataclasses, "hashlib": hashlib, "json": json, "math": math,
    "copy": copy, "os": os, "pathlib": pathlib, "pickle": pickle, "tempfile": tempfile, "types": types, "torch": torch,
    "OrderedDict": OrderedDict, "UserDict": UserDict, "DC": DC, "FDC": FDC, "NT": NT, "Obj": Obj, "Cache": Cache,
    "BATCH_SIZE_KEY": BATCH_SIZE_KEY, "global_context": global_context, "Locator": Locator, "ObjectType": ObjectType,
    "SampleMetadata": SampleMetadata, "SM": SampleMetadata, "TensorSpec": TensorSpec, "TS": TensorSpec, "NAN": NAN,
    "InfoLevel": InfoLevel, "batch_tensor": batch_tensor, "T": zeros, "A": counting, "spec": spec, "learn": learn,
    "leaves": leaves, "tshape": tshape,
    "show": lambda s: (s.shape, s.min_shape, s.max_shape, s.get_batch_axis_multipliers()),
    "shapes": lambda m: {place.display_path: seen.shape for place, seen in m.tensor_data},
    "paths": lambda m: [place.display_path for place, _ in m.tensor_data],
    "others": lambda m: {place.display_path: value for place, value in m.other_data},
    "same": lambda a, b: (a == b, b == a, hash(a) == hash(b)),
}  # fmt: skip
RECORD_NAMES = {name: getattr(aitune.records, name) for name in aitune.records.__all__}


@pytest.fixture(autouse=True)
def _a_known_mask_for_new_files() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def run(group: str, statements: str) -> str:
    """What the statements show: the repr of the last expression, or the type of the error."""
    space = {**NAMES, **(RECORD_NAMES if group == "records" else {}), "__name__": __name__}
    tree = ast.parse(statements)
    shown = tree.body[-1]
    if isinstance(shown, ast.Expr):
        tree.body.pop()
    else:
        shown = ast.fix_missing_locations(ast.Expr(ast.Constant(None)))
    try:
        exec(compile(tree, "example", "exec"), space)
        return _stable(repr(eval(compile(ast.Expression(shown.value), "example", "eval"), space)))
    except Exception as error:
        kinds = ("builtins", "dataclasses", "pickle", "_pickle")
        names = [
            k.__name__ for k in type(error).__mro__ if k.__module__ in kinds or k.__name__.endswith("IntegrityError")
        ]
        return f"raises {names[0]}"


def _stable(text: str) -> str:
    """Text without what changes from run to run."""
    text = text.replace(f"{__name__}:", "here:")
    return re.sub(r"'detail': '[0-9a-f]{16}'", "'detail': '(digest)'", text)


@pytest.mark.filterwarnings("ignore::aitune.torch.module.unwalked.HiddenTensorWarning")
@pytest.mark.parametrize(("group", "name", "statements", "answer"), CASES, ids=[case[1] for case in CASES])
def test_an_example_answers_as_before_or_as_the_list_of_differences_says(
    group: str, name: str, statements: str, answer: str
) -> None:
    """Every example gives the earlier answer, or differs in the way and for the reason that is written down."""
    expected = DIFFERENCES[name]["answer"] if name in DIFFERENCES else answer
    observed = run(group, statements)
    assert re.fullmatch(r"-?\d+", observed) if expected == "(an int)" else observed == expected


def test_every_difference_is_real_and_names_a_defect() -> None:
    """The list of differences names known examples and reasons, and holds no entry that is no difference."""
    answers = {name: answer for _, name, _, answer in CASES}
    assert len(answers) == 250
    for name, difference in DIFFERENCES.items():
        assert answers[name] != difference["answer"], name
        assert all(ALLOWED_REASONS.fullmatch(part) for part in difference["defect"].split(", ")), name
        assert difference["why"], name
