"""Every kind of tensor that a config can say is published, loaded with its warm-up, and answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import handmade
import numpy as np
import pytest
from handmade import rows, whole

from aitune.numerics.dtypes import numpy_dtype
from aitune.records import Artifact, DType, TunedTensorSpec
from aitune.triton import LocalServer, PlanOptions, Repository, publish
from aitune.triton.client import Client, connect
from aitune.triton.endpoint import Endpoint
from aitune.triton.normalisation import differences

pytestmark = pytest.mark.server

SERVED = [dtype for dtype in DType if dtype is not DType.BFLOAT16]  # 24.10 cannot (§5.2)
NASTY = ['say "x"', "it's", "new\nline", "# no comment", "back\\slash", "é", "tab\there", "{ name: 1 }", "\x01"]


def echo(folder: Path, specs: list[TunedTensorSpec]) -> Artifact:
    """The artifact of a model that gives its inputs back."""
    folder.mkdir()
    path = handmade.identity_file(folder / "echo.onnx", specs)
    return handmade.of_file(path, specs, [dataclasses.replace(spec, name=f"{spec.name}_out") for spec in specs])


def made(folder: Path) -> dict[str, Artifact]:
    """One model for each kind of shape, each with every element type, and one with names that look like syntax."""
    return {
        "rows": echo(folder / "rows", [rows(f"t_{dtype.value}", dtype, "width", 2) for dtype in SERVED]),
        "singles": echo(folder / "singles", [rows(f"t_{dtype.value}", dtype) for dtype in SERVED]),
        "scalars": echo(folder / "scalars", [whole(f"t_{dtype.value}", dtype) for dtype in SERVED]),
        "fixed": echo(folder / "fixed", [whole(f"t_{dtype.value}", dtype, 2, "width") for dtype in SERVED]),
        "nasty": echo(folder / "nasty", [rows(name, DType.FLOAT32, 2) for name in NASTY]),
    }


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them published."""
    folder = tmp_path_factory.mktemp("tensors")
    for name, artifact in made(folder).items():
        publish(artifact, folder / "root", model_name=name, options=PlanOptions(instance_count=1))
    return folder / "root"


@pytest.fixture(scope="module")
def client(repository: Path) -> Iterator[Client]:
    """A client of a server that has loaded them."""
    with LocalServer(repository, strict=True) as server:
        states = {model.name: model.reason or model.state for model in server.models()}
        assert set(states.values()) == {"READY"}, states
        with connect(Endpoint.parse(f"grpc://{server.grpc}")) as client:
            yield client


def value(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """An array whose elements differ where the type allows."""
    count = int(np.prod(shape))
    if dtype is DType.STRING:
        return np.array([f"wört {i}".encode() for i in range(count)], object).reshape(shape)
    return np.arange(count).reshape(shape).astype(numpy_dtype(dtype))


@pytest.mark.parametrize(
    ("model", "shape"), [("rows", (3, 5, 2)), ("singles", (3, 1)), ("scalars", (1,)), ("fixed", (2, 7))]
)
def test_every_element_type_goes_in_and_out(client: Client, model: str, shape: tuple[int, ...]) -> None:
    """Every element type of this release, with rows, of rank 1 and 0, and without a batch, comes back as sent."""
    inputs = {f"t_{dtype.value}": (value(dtype, shape), dtype) for dtype in SERVED}
    answer = client.infer(model, "", inputs)
    for name, (array, _) in inputs.items():
        assert answer[f"{name}_out"].shape == shape
        assert (answer[f"{name}_out"] == array).all()


def test_no_tensor_name_breaks_the_config(client: Client) -> None:
    """Quotes, newlines, comment marks, control characters and UTF-8 in names arrive at the server as they are."""
    inputs = {name: (np.full((1, 2), index, np.float32), DType.FLOAT32) for index, name in enumerate(NASTY)}
    answer = client.infer("nasty", "", inputs)
    assert {name: float(answer[f"{name}_out"][0, 0]) for name in NASTY} == {n: float(i) for i, n in enumerate(NASTY)}


@pytest.mark.parametrize("model", ["rows", "singles", "scalars", "fixed", "nasty"])
def test_what_is_served_is_what_was_published(client: Client, repository: Path, model: str) -> None:
    """With everything written out, a server has nothing to add but what every server adds."""
    assert differences(Repository(repository).model(model).config, client.config(model)) == ()


def test_every_model_was_warmed_up(repository: Path) -> None:
    """The configs that loaded do carry warm-up requests, for one row and for the largest batch."""
    sizes = {
        model.name: [sample.batch_size for sample in model.config.model_warmup]
        for model in Repository(repository).models()
    }
    assert sizes == {"rows": [1, 8], "singles": [1, 8], "scalars": [1], "fixed": [1], "nasty": [1, 8]}
