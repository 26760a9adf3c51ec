"""The ways of running an ONNX file that are worth measuring."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from aitune.errors import SourceError, UsageError
from aitune.numerics.dtypes import Array
from aitune.onnx.external import companions
from aitune.onnx.providers import CONV_SEARCH, has_tensorrt
from aitune.onnx.session import OnnxRunner
from aitune.records.accelerators import GPU_ACCELERATOR, SHAPE_SEPARATORS, GpuAccelerator

__all__ = ["DEVICES", "PRECISIONS", "OnnxCandidate", "Recipe", "candidates", "discard_losers"]

PRECISIONS = ("fp32", "fp16", "int8")
"""What a candidate may compute in; ``"fp32"`` stands for the model's own numbers and is always tried."""
DEVICES = ("cpu", "cuda")
_PACKAGES = Path(__file__).resolve().parents[2]
_MAKING_TIMEOUT_S = 900.0
_HEAVY = ("Conv", "ConvTranspose", "Gemm", "GRU", "LSTM", "MatMul")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a candidate's own file is made; see :mod:`aitune.onnx.recipes`.

    Attributes:
        kind: What is done.
        source: The model file that it is made of.
        calibration: Samples that it is made with.
    """

    kind: str
    source: Path
    calibration: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxCandidate:
    """One way to run an ONNX model.

    Attributes:
        name: Short and unique, e.g. ``"default"``.
        path: The model file that is run.
        settings: What Triton must carry in ``parameters`` to run it the same way.
        precision: What it computes in.
        device: ``"cpu"`` or ``"cuda"``.
        recipe: How the file is made; None for the model as it is.
    """

    name: str
    path: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    precision: str = "fp32"
    device: str = "cpu"
    recipe: Recipe | None = None

    @property
    def model_file(self) -> Path | None:
        """The file, where it is one of its own."""
        return self.path if self.recipe is not None else None

    def prepare(self) -> None:
        """Make the file in a process of its own, unless it is there.

        Raises:
            SourceError: If it cannot be made.
        """
        recipe = self.recipe
        if recipe is None or self.path.exists():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        search = os.pathsep.join([str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])])
        calibration = () if recipe.calibration is None else (str(recipe.calibration),)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "aitune.onnx.recipes", recipe.kind, str(recipe.source), str(self.path),
                 *calibration],
                env={**os.environ, "PYTHONPATH": search},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_MAKING_TIMEOUT_S,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise SourceError(f"it was not made within {_MAKING_TIMEOUT_S:g} s") from error
        if done.returncode:
            told = done.stdout if done.returncode == 2 else done.stderr
            lines = told.strip().splitlines() or [f"what makes it ended with status {done.returncode}"]
            raise SourceError(lines[-1].strip()[:300])

    def open(self) -> OnnxRunner:
        """A new session with these settings.

        Raises:
            SourceError: If the file cannot be made, or ONNX Runtime refuses it.
        """
        self.prepare()
        return OnnxRunner(self.path, self.settings, device=self.device)


def candidates(
    path: Path,
    *,
    precision: Collection[str] = ("fp32",),
    device: str = "cpu",
    cores: int | None = None,
    samples: Sequence[Mapping[str, Array]] = (),
    made_up: Sequence[Mapping[str, Array]] = (),
) -> tuple[OnnxCandidate, ...]:
    """The ways of running a file that are worth measuring, simplest first.

    The first is what ONNX Runtime does by itself: all cores, all optimisations, or all of a GPU. Files of
    their own are made when a candidate is opened, in a folder ``candidates`` beside the model; models with external
    data have none.

    Args:
        path: The model file.
        precision: What may be computed in, of :data:`PRECISIONS`; by default numbers never change.
        device: ``"cpu"`` or ``"cuda"``.
        cores: Number of cores to plan for; those this process may use by default.
        samples: Recorded requests, for static and mixed quantisation.
        made_up: Further requests like those that answers are compared on, for the mixed one.

    Raises:
        UsageError: If there is no such precision or device.
    """
    _demand_known("precision", precision, PRECISIONS)
    _demand_known("device", (device,), DEVICES)
    graph = onnx.load(path, load_external_data=False).graph
    operators = Counter(node.op_type for node in graph.node)
    available = cores if cores is not None else len(os.sched_getaffinity(0))
    ways = _on_cpu(operators, available) if device == "cpu" else _on_gpu(operators)
    found = [OnnxCandidate(name=name, path=path, settings=chosen, device=device) for name, chosen in ways.items()]
    if device != "cpu" and has_tensorrt() and not any(SHAPE_SEPARATORS & set(port.name) for port in graph.input):
        found += _through_tensorrt(path, precision, device)
    if companions(path):
        return tuple(found)
    return (*found, *_of_their_own(path, operators, precision, device, samples, made_up))


def discard_losers(path: Path, winner: Path) -> None:
    """Delete the files of candidates that did not win.

    Args:
        path: The model file that the candidates were made of.
        winner: The file that won.
    """
    for made in (path.parent / "candidates").glob("*"):
        if made.is_file() and made.name != winner.name and made.suffix in (".onnx", ".npz"):
            made.unlink()


def _on_cpu(operators: Mapping[str, int], cores: int) -> dict[str, dict[str, str]]:
    """Settings of a session on the processor, by name."""
    ways: dict[str, dict[str, str]] = {"default": {}}
    if cores >= 2:
        ways["one-thread"] = {"intra_op_thread_count": "1"}
    if cores >= 4:
        ways[f"threads-{cores // 2}"] = {"intra_op_thread_count": str(cores // 2)}
    ways["graph-extended"] = {"optimization.graph.level": "1"}
    ways["no-arena"] = {"enable_mem_arena": "false"}
    if cores >= 2 and sum(operators.get(name, 0) for name in _HEAVY) >= 2:
        ways["parallel"] = {"execution_mode": "1", "inter_op_thread_count": str(cores), "intra_op_thread_count": "1"}
    return ways


def _on_gpu(operators: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """Settings of a session on CUDA, by name: those of the processor decide little there."""
    ways: dict[str, dict[str, str]] = {"default": {}}
    if operators.get("Conv", 0) + operators.get("ConvTranspose", 0):
        ways["conv-heuristic"] = {CONV_SEARCH: "1"}
    return ways


def _through_tensorrt(path: Path, precision: Collection[str], device: str) -> list[OnnxCandidate]:
    """The same file, its graph handed to TensorRT."""
    found = {"tensorrt": "fp32"} | ({"tensorrt-fp16": "fp16"} if "fp16" in precision else {})
    return [
        OnnxCandidate(
            name=name,
            path=path,
            settings={GPU_ACCELERATOR: str(GpuAccelerator(name="tensorrt", precision=computes_in))},
            precision=computes_in,
            device=device,
        )
        for name, computes_in in found.items()
    ]


def _of_their_own(
    path: Path,
    operators: Mapping[str, int],
    precision: Collection[str],
    device: str,
    samples: Sequence[Mapping[str, Array]],
    made_up: Sequence[Mapping[str, Array]],
) -> list[OnnxCandidate]:
    """Candidates with a file of their own."""
    folder = path.parent / "candidates"
    kinds: dict[str, tuple[str, Path | None]] = {}
    if operators.get("Softmax", 0) >= 1 and operators.get("LayerNormalization", 0) + operators.get("ReduceMean", 0) > 1:
        kinds["fused"] = "fp32", None
    if "fp16" in precision:
        kinds["fp16"] = "fp16", None
    if "int8" in precision:
        kinds["int8-dynamic"] = "int8", None
        if operators.get("MatMul", 0) + operators.get("Gemm", 0) >= 2 and (samples or made_up):
            kinds["int8-mixed"] = "int8", _write_calibration(folder, "requests.npz", (*made_up, *samples))
        if samples:
            kinds["int8-static"] = "int8", _write_calibration(folder, "calibration.npz", samples)
    return [
        OnnxCandidate(
            name=kind,
            path=folder / f"{kind}.onnx",
            precision=computes_in,
            device=device,
            recipe=Recipe(kind=kind, source=path, calibration=calibration),
        )
        for kind, (computes_in, calibration) in kinds.items()
    ]


def _write_calibration(folder: Path, name: str, requests: Sequence[Mapping[str, Array]]) -> Path | None:
    """Requests as a file, None where they are not numbers."""
    arrays = {f"{name}#{number}": array for number, request in enumerate(requests) for name, array in request.items()}
    if any(array.dtype == object for array in arrays.values()):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    np.savez(path, **arrays)
    return path


def _demand_known(what: str, given: Collection[str], known: Sequence[str]) -> None:
    wrong = [value for value in given if value not in known]
    if wrong:
        raise UsageError(f"{what} {wrong[0]!r} is not known", hint=f"known are: {', '.join(known)}")
