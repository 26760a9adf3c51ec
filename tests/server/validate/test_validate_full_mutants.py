"""Models whose fault only time brings out, each caught by the check of the full level that is there for it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aitune.triton import validation
from aitune.triton.checks_live import CHECKS, THOROUGH, life
from aitune.triton.validation import validate

pytestmark = pytest.mark.server
AXIS = np.array([1])
MODEL = """
import os, numpy as np, triton_python_backend_utils as pb
class TritonPythonModel:
    def initialize(self, args):
        self.kept, self.last, self.off = [], 0, 0
        mark = f"{args['model_repository']}.{args['model_version']}"
        INIT
    def answer(self, x):
        y = x.sum(1, keepdims=True) + np.float32(self.off)
        ANSWER
        return y
    def execute(self, requests):
        xs = [pb.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb.InferenceResponse([pb.Tensor("y", self.answer(x))]) for x in xs]
"""
MUTANTS: dict[str, tuple[Callable, str, str]] = {}


def mutant(check: str, detail: str) -> Callable:
    """Register a way to go wrong, with the only check that says so and what it must say."""

    def register(make: Callable) -> Callable:
        MUTANTS[make.__name__] = (make, check, detail)
        return make

    return register


def published(bench, *, init: str = "pass", answer: str = "pass") -> Path:
    """The sum over a free axis, as a Python model with these lines in it."""
    x, y = bench.free_axis()
    path = bench.tools.graph(bench.folder / "model" / "model.onnx", bench.tools.REDUCE, [x], [y], {"axis": AXIS})
    folder = bench.publish(bench.record(path, [x], [y], {"x": (1, 4)}), "m")
    config = folder.parent / "config.pbtxt"
    text = config.read_text().replace('backend: "onnxruntime"', 'backend: "python"')
    config.write_text(text.replace('"model.onnx"', '"model.py"'))
    source = MODEL.replace("INIT", textwrap.indent(init, " " * 8).lstrip())
    (folder / "model.py").write_text(source.replace("ANSWER", textwrap.indent(answer, " " * 8).lstrip()))
    return folder


@mutant("endurance", "memory grows: 2000 requests")
def keeps_everything(bench) -> None:
    """64 KB a request are never given back."""
    published(bench, answer="self.kept.append(np.ones(8192))")


@mutant("batches", "batch of 2, largest shape: row 0: output 'y'")
def wrong_for_two_long_rows(bench) -> None:
    """Not for one, not for four, not for short ones."""
    published(bench, answer="y = y + np.float32(x.shape == (2, 8))")


@mutant("mixed", "among requests of other shapes: output 'y'")
def remembers_the_last_shape(bench) -> None:
    """A buffer of the longer request before it is not cleared."""
    published(bench, answer="y, self.last = y + np.float32(x.shape[1] == 4 and self.last == 8), x.shape[1]")


@mutant("life", "a fresh server answers differently: output 'y'")
def ages(bench) -> None:
    """It keeps something on the disk, and reads it in its next life."""
    published(bench, init="self.off = os.path.exists(mark)\nopen(mark, 'w').close()")


@mutant("life", "the warm-up did not run: 0 executions before the first request, 1 requests in the config")
def is_never_warm(bench) -> None:
    """A warm-up with no rows is one that Triton leaves out."""
    folder = published(bench)
    with (folder.parent / "config.pbtxt").open("a") as config:
        config.write(
            'model_warmup [{ name: "none" batch_size: 0 inputs { key: "x" '
            "value { data_type: TYPE_FP32 dims: [4] zero_data: true } } }]\n"
        )


@mutant("reload", "a second version was not served within")
def cannot_be_followed(bench) -> None:
    """Something in it knows its own number."""
    published(bench, init="assert args['model_version'] == '1', 'this is version 1'")


@pytest.mark.parametrize("name", [*MUTANTS, "healthy"])
def test_a_fault_that_takes_time_is_caught_by_one_check(name: str, bench, monkeypatch) -> None:
    """And by no other; the same model without a fault passes. Slow checks are left out where they tell nothing."""
    make, check, detail = MUTANTS.get(name, (published, "", ""))
    further = {"life": ("life",), "reload": ("life", "reload"), "": ("life", "reload")}
    wanted = {key: THOROUGH[key] for key in further.get(check, ("batches", "mixed", "endurance"))}
    monkeypatch.setattr(validation, "checks_of", lambda level: {**CHECKS, **wanted})
    monkeypatch.setattr(life, "_PATIENCE_S", 6.0)
    make(bench)
    (report,) = validate(bench.repository, level="full").models
    bad = {result.name: result.detail for result in report.checks if result.status == "fail"}
    assert set(bad) == ({check} if check else set()), bad
    assert re.search(detail, bad.get(check, ""))
