"""TensorRT plans: header, release, profiles and marks, from the record beside them."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest

from aitune.errors import UnavailableError
from aitune.records import DType, TensorRTPlanArtifact, TunedTensorSpec
from aitune.records.artifact import Companion
from aitune.records.codec import Document, dumps_document
from aitune.records.interface import Interface, Port
from aitune.records.plans import PlanFacts, PlanTensor, PlanVariant, Profile, ProfileRange
from aitune.triton.check import Finding

from .conftest import Repository

CONFIG = """platform: "tensorrt_plan"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
instance_group { kind: KIND_GPU count: 1 profile: [ "0" ] }
"""
SHAPES = """platform: "tensorrt_plan"
input { name: "size" data_type: TYPE_INT32 dims: [ 2 ] is_shape_tensor: true }
output { name: "y" data_type: TYPE_INT64 dims: [ 2 ] is_shape_tensor: true }
"""
X = TunedTensorSpec("x", DType.FLOAT32, ("batch", "n"), (1, 4), (8, 32), 0)
Y = TunedTensorSpec("y", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4), 0)


def plan_bytes(version: tuple[int, ...] = (10, 5, 0, 18), magic: bytes = b"ftrt") -> bytes:
    """A plan's header and some bytes."""
    return magic + bytes(20) + bytes(version) + bytes(64)


def profile(low: int = 1, high: int = 8, top: int = 32) -> Profile:
    """Batches and lengths that a plan of ``x`` holds."""
    return Profile(inputs=(ProfileRange(name="x", min=(low, 4), opt=(high, 4), max=(high, top)),))


FACTS = PlanFacts(
    builder="tensorrt",
    version="10.5.0.18",
    compute_capability="8.9",
    profiles=(profile(),),
    tensors=(PlanTensor(name="x"), PlanTensor(name="y")),
)


def write(
    repository: Repository, *, config: str = CONFIG, content: bytes = plan_bytes(), facts: Any = FACTS, **other: Any
) -> None:
    """One model with the record of its plan."""
    path = repository.file("m/1/model.plan", content)
    artifact = TensorRTPlanArtifact(
        fingerprint=hashlib.sha256(content).hexdigest(),
        **{"path": path, "inputs": (X,), "outputs": (Y,), "plan": facts, **other},
    )
    repository.file("m/1/aitune.json", dumps_document(Document(artifact=artifact)))
    repository.file("m/config.pbtxt", config)


def told(repository: Repository, **options: Any) -> list[Finding]:
    """What is found on a host with a GPU."""
    return list(repository.check(**{"target": "gpu", "read_interface": None, **options}))


def rules(repository: Repository, **options: Any) -> list[tuple[str, str]]:
    """Severity and rule of it."""
    return [(one.severity, one.rule) for one in told(repository, **options)]


def test_a_plan_of_the_release_with_fitting_profiles_is_fine(repository: Repository) -> None:
    """Nothing to say."""
    write(repository)
    assert rules(repository) == []


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "git-lfs"),
        (b"\n<!DOCTYPE html><html>", "HTML page"),
        (b"<html>404", "HTML page"),
        (b"PK\x03\x04", "zip archive"),
        (b"ptrt\0\0\0\0", "TensorRT 7"),
        (b"\x08\x08onnx", "no TensorRT plan"),
    ],
)
def test_what_is_no_plan_is_named(repository: Repository, content: bytes, word: str) -> None:
    """B38: garbage, pages and pointers stop the model; R252 says what they are."""
    repository.model(CONFIG, files={"1/model.plan": content})
    (finding,) = [one for one in told(repository) if one.rule == "R252"]
    assert finding.severity == "error"
    assert word in finding.message


def test_a_plan_of_another_library_is_refused_and_told_where_it_loads(repository: Repository) -> None:
    """B38: the header names the TensorRT, the table of releases the images."""
    write(repository)
    (finding,) = told(repository, triton="24.09")
    assert (finding.severity, finding.rule) == ("error", "R252")
    assert "24.09 has TensorRT 10.4.0.26, the plan is of 10.5.0.18" in finding.message
    assert "24.10" in finding.fix


def test_a_foreign_plan_is_judged_by_its_header_alone(repository: Repository) -> None:
    """No record is needed for that."""
    repository.model(CONFIG, files={"1/model.plan": plan_bytes((10, 3, 0, 26))})
    assert ("error", "R252") in rules(repository)
    assert ("error", "R252") not in rules(repository, triton="24.08")


def test_a_release_that_nothing_confirms_refuses_no_plan(repository: Repository) -> None:
    """R252 is a warning where the table of images may be wrong, and says where the plan does load."""
    write(repository)
    (finding,) = told(repository, triton="25.05")
    assert (finding.severity, finding.rule) == ("warning", "R252")
    assert "nothing confirms what 25.05 has" in finding.message
    assert finding.fix == "it loads in 24.10"


def test_a_version_compatible_plan_needs_an_option(repository: Repository) -> None:
    """R253: a later server loads it when it is told to."""
    facts = dataclasses.replace(FACTS, version="10.3.0.26", version_compatible=True)
    write(repository, facts=facts, content=plan_bytes((10, 3, 0, 26)))
    (finding,) = told(repository)
    assert (finding.severity, finding.rule) == ("warning", "R253")
    assert "--backend-config=tensorrt,version-compatible=true" in finding.message


def test_a_plan_of_tensorrt_rtx_is_an_error_unless_its_record_says_so(repository: Repository) -> None:
    """It never loads; whoever recorded it as a stand-in knows that."""
    content = plan_bytes((1, 7, 1, 116), magic=b"vtrt")
    repository.model(CONFIG, files={"1/model.plan": content})
    assert ("error", "R252") in rules(repository)
    write(repository, content=content, facts=dataclasses.replace(FACTS, builder="tensorrt_rtx", version="1.7.1.116"))
    (finding,) = told(repository)
    assert (finding.severity, finding.rule) == ("warning", "R252")
    assert "stands in" in finding.message


def test_every_plan_of_every_gpu_is_looked_at(repository: Repository) -> None:
    """cc_model_filenames: one of another library is found."""
    other = plan_bytes((10, 4, 0, 26))
    variants = (
        PlanVariant(compute_capability="8.9", file="", version="10.5.0.18"),
        PlanVariant(compute_capability="9.0", file="h.plan", version="10.4.0.26"),
    )
    companion = Companion(name="h.plan", fingerprint=hashlib.sha256(other).hexdigest())
    repository.file("m/1/h.plan", other)
    config = CONFIG + 'cc_model_filenames { key: "8.9" value: "model.plan" }\n'
    config += 'cc_model_filenames { key: "9.0" value: "h.plan" }\n'
    write(repository, config=config, facts=dataclasses.replace(FACTS, variants=variants), companions=(companion,))
    (finding,) = told(repository)
    assert (finding.rule, finding.file) == ("R252", "m/1/h.plan")


@pytest.mark.parametrize(("size", "expected"), [(4, []), (8, [("error", "R199")])])
def test_the_batch_is_the_one_that_the_profile_holds(
    repository: Repository, size: int, expected: list[tuple[str, str]]
) -> None:
    """B36: max_batch_size above the profile's largest batch."""
    write(
        repository,
        config=CONFIG.replace("size: 8", f"size: {size}"),
        facts=dataclasses.replace(FACTS, profiles=(profile(high=4),)),
    )
    assert rules(repository) == expected


def test_in_strict_mode_the_batch_is_not_compared(repository: Repository) -> None:
    """R278: larger batches fail request by request."""
    write(repository, facts=dataclasses.replace(FACTS, profiles=(profile(high=4),)))
    assert ("error", "R199") not in rules(repository, strict=True)


def test_a_profile_that_takes_no_single_row_is_told(repository: Repository) -> None:
    """B36: an engine of fixed batch 8 with max_batch_size 8 fails for one row."""
    write(repository, facts=dataclasses.replace(FACTS, profiles=(profile(low=8),)))
    assert rules(repository) == [("warning", "R294")]


def test_fixed_sizes_lie_within_every_selected_profile(repository: Repository) -> None:
    """B37: 33 where the profile holds 4 to 32."""
    write(repository, config=CONFIG.replace("[ -1 ]", "[ 33 ]"))
    (finding,) = [one for one in told(repository) if one.rule == "R268"]
    assert "33 must be between 4 and 32 (profile 0)" in finding.message
    assert finding.fix == "dims: [ -1 ]"


def test_only_selected_profiles_count(repository: Repository) -> None:
    """B37: without a choice Triton takes profile 0 and no other."""
    two = dataclasses.replace(FACTS, profiles=(profile(top=16), profile(top=32)))
    config = CONFIG.replace("[ -1 ]", "[ 32 ]")
    write(repository, config=config, facts=two)
    assert ("error", "R268") in rules(repository)
    write(repository, config=config.replace('"0"', '"1"'), facts=two)
    assert ("error", "R268") not in rules(repository)
    write(repository, config=config.replace(' profile: [ "0" ]', ""), facts=two)
    assert ("error", "R268") in rules(repository)


def test_a_profile_that_the_plan_lacks_is_refused(repository: Repository) -> None:
    """R280: numbered from 0."""
    write(repository, config=CONFIG.replace('"0"', '"0", "7"'))
    (finding,) = told(repository)
    assert (finding.rule, finding.severity) == ("R280", "error")


def shapes(repository: Repository, config: str, **other: Any) -> None:
    """A plan of which input and output are shape tensors."""
    size = TunedTensorSpec("size", DType.INT32, (2,), (2,), (2,))
    y = TunedTensorSpec("y", DType.INT64, (2,), (2,), (2,))
    facts = PlanFacts(
        builder="tensorrt",
        version="10.5.0.18",
        profiles=(Profile(inputs=(ProfileRange(name="size", min=(1, 1), opt=(2, 2), max=(4, 4), values=True),)),),
        tensors=(PlanTensor(name="size", shape_tensor=True), PlanTensor(name="y", shape_tensor=True)),
    )
    write(repository, config=config, facts=facts, **{"inputs": (size,), "outputs": (y,), **other})


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        ("R264", " is_shape_tensor: true }\noutput", " }\noutput"),
        ("R270", "TYPE_INT32", "TYPE_INT64"),
        ("R271", "TYPE_INT64", "TYPE_INT32"),
        ("R272", "dims: [ 2 ]", "dims: [ 3 ]"),
    ],
)
def test_shape_tensors_are_said_as_they_are(repository: Repository, rule: str, old: str, new: str) -> None:
    """The mark, the type and the size."""
    shapes(repository, SHAPES)
    assert rules(repository) == []
    shapes(repository, SHAPES.replace(old, new, 1))
    assert ("error", rule) in rules(repository)


def test_a_plain_tensor_is_no_shape_tensor(repository: Repository) -> None:
    """R264 the other way round."""
    write(repository, config=CONFIG.replace("[ -1 ]", "[ -1 ] is_shape_tensor: true"))
    assert ("error", "R264") in rules(repository)


@pytest.mark.parametrize(
    ("format_", "mark", "expected"),
    [("CHW32", "", True), ("CHW32", " is_non_linear_format_io: true", False),
     ("LINEAR", " is_non_linear_format_io: true", True)],
)  # fmt: skip
def test_layouts_are_said_as_they_are(repository: Repository, format_: str, mark: str, expected: bool) -> None:
    """R265, where the release knows the field."""
    x = TunedTensorSpec("x", DType.FLOAT32, ("batch", 4, 2, 2), (1, 4, 2, 2), (8, 4, 2, 2), 0)
    facts = dataclasses.replace(FACTS, profiles=(), tensors=(PlanTensor(name="x", format=format_),))
    write(repository, config=CONFIG.replace("[ -1 ]", f"[ 4, 2, 2 ]{mark}"), facts=facts, inputs=(x,))
    assert (("error", "R265") in rules(repository)) is expected


def test_without_a_record_the_engine_is_asked(repository: Repository) -> None:
    """Where something here can load it; otherwise a warning says that nothing was compared."""

    def read(path: Path) -> Interface:
        ports = [Port(name=name, dtype=DType.FLOAT32, shape=(None, 4)) for name in ("x", "z")]
        return Interface(format="tensorrt_plan", inputs=(ports[0],), outputs=(ports[1],), source="tensorrt")

    def refuse(path: Path) -> Interface:
        raise UnavailableError("no GPU can be used here: there is no GPU")

    repository.model(CONFIG, files={"1/model.plan": plan_bytes()})
    assert ("error", "R193") in rules(repository, read_interface=read)
    (finding,) = told(repository, read_interface=refuse)
    assert (finding.severity, finding.rule) == ("warning", "A1")
    assert "there is no GPU" in finding.message


@pytest.mark.parametrize("kind", ["KIND_GPU", "KIND_AUTO", "KIND_CPU"])
def test_no_advice_makes_a_plan_run_on_the_cpu(repository: Repository, kind: str) -> None:
    """R111 and R250 on a host without a GPU: only another host helps; KIND_AUTO would become KIND_CPU."""
    write(repository, config=CONFIG.replace("KIND_GPU", kind))
    (finding,) = [one for one in told(repository, target="cpu") if one.rule in ("R111", "R250")]
    assert finding.rule == ("R111" if kind == "KIND_GPU" else "R250")
    assert (finding.fix, finding.edits) == ("serve it on a host with a GPU", ())


def test_a_plan_for_the_cpu_on_a_host_with_a_gpu_is_mended(repository: Repository) -> None:
    """R250: there the kind is what is wrong."""
    write(repository, config=CONFIG.replace("KIND_GPU", "KIND_CPU"))
    (finding,) = [one for one in told(repository) if one.rule == "R250"]
    assert finding.fix == "kind: KIND_GPU"
    (edit,) = finding.edits
    text = CONFIG.replace("KIND_GPU", "KIND_CPU")
    assert text[: edit.start] + edit.text + text[edit.end :] == CONFIG


def test_another_backend_may_run_where_there_is_no_gpu(repository: Repository) -> None:
    """R111 of an ONNX model: the server decides where it runs."""
    repository.model('backend: "onnxruntime" instance_group { kind: KIND_GPU }')
    (finding,) = [one for one in repository.check(target="cpu") if one.rule == "R111"]
    assert finding.fix == "kind: KIND_AUTO"
