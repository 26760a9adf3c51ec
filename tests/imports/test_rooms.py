"""Rooms import what the table of the design allows, and nothing heavy before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

FRAMEWORKS = ("torch", "onnx", "onnxruntime", "tensorrt", "transformers")
SLOW = (*FRAMEWORKS, "numpy", "grpc", "jinja2", "rich", "tritonclient", "google.protobuf")


def imported_by(statement: str, names: tuple[str, ...]) -> str:
    """Which of ``names`` a fresh interpreter has loaded after the statement."""
    code = f"import sys\n{statement}\nprint(*[n for n in {names!r} if n in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    "room",
    ["errors", "records", "records.codec", "process", "global_context", "cli", "functions", "pipeline", "plan_source"],
)
def test_the_light_rooms_import_the_standard_library_only(room: str) -> None:
    """Records can be read on any machine, and the command line answers in a blink."""
    assert imported_by(f"import aitune.{room}", SLOW) == ""


@pytest.mark.parametrize("door", ["torch", "onnx", "tensorrt", "triton", "tuning", "numerics"])
def test_a_door_is_lazy(door: str) -> None:
    """Importing a room's door pays for no framework (PEP 562)."""
    assert imported_by(f"import aitune.{door}", FRAMEWORKS) == ""


@pytest.mark.parametrize(
    "module",
    ["plan", "rendering", "publication", "repository", "validation", "perf", "check", "server", "contract"],
)
def test_publishing_never_loads_a_framework(module: str) -> None:
    """A machine without torch, onnxruntime and tensorrt can publish, check and validate."""
    assert imported_by(f"import aitune.triton.{module}", FRAMEWORKS) == ""


def test_checking_never_loads_what_it_does_not_need() -> None:
    """The checker starts in a blink."""
    assert imported_by("import aitune.triton.check", (*FRAMEWORKS, "numpy", "grpc", "rich", "jinja2")) == ""


def test_records_import_nothing_third_party() -> None:
    """Every module that comes in is of the standard library or of this package."""
    code = (
        "import sys; before = set(sys.modules); import aitune.records, aitune.records.codec\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new - set(sys.stdlib_module_names) - {'aitune'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == ""


def test_the_names_of_the_records_room_are_exactly_the_given_ones() -> None:
    """The public names are fixed by the design."""
    import aitune.records

    assert sorted(aitune.records.__all__) == [
        "Artifact",
        "ArtifactIntegrityError",
        "DType",
        "ONNXArtifact",
        "TensorRTPlanArtifact",
        "TensorSpec",
        "TunedTensorSpec",
    ]
