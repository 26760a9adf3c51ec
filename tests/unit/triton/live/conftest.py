"""A Triton in memory: speaks our Transport, merges requests that arrive together, and can be told to go wrong."""

from __future__ import annotations

import copy
import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np
import pytest

from aitune.numerics import from_wire, make_probe, observe_domains, to_wire
from aitune.numerics.samples import SAMPLE_FILE_NAME, Request, write_samples
from aitune.records import DType, ONNXArtifact, TunedTensorSpec
from aitune.records.evidence import Batching, Evidence
from aitune.triton.checks_live.context import Context
from aitune.triton.client import Client
from aitune.triton.client_errors import InferenceRefused
from aitune.triton.client_json import json_request
from aitune.triton.client_records import (
    IndexEntry,
    ModelMetadata,
    ModelStatistics,
    ServerInfo,
    TensorMetadata,
    WireTensor,
)
from aitune.triton.datatypes import dtype_of_wire, wire_type
from aitune.triton.endpoint import Endpoint
from aitune.triton.plan import plan
from aitune.triton.rendering import message
from aitune.triton.subjects import Published, Subject, make_request, subject_of
from aitune.triton.tensor_views import tensor_views

Rows = Mapping[str, np.ndarray]
W = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
X = TunedTensorSpec("x", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4), 0)
Y = TunedTensorSpec("y", DType.FLOAT32, ("batch", 3), (1, 3), (8, 3), 0)


def linear(inputs: Rows) -> dict[str, np.ndarray]:
    """The model of most tests."""
    return {"y": inputs["x"] @ W}


@dataclass
class FakeTriton:
    """One version of one model.

    Attributes:
        config: The served config.
        model: What it computes, on the shapes of clients.
        version: Served version.
        merging: Whether requests that arrive together are one execution.
        change: Called with an answer before it is sent, to make it wrong.
        lenient: Whether malformed requests are accepted.
        metadata_change: Called with the metadata before it is sent.
        ready_answer: What it says about being ready.
        sent: Requests answered.
        executions: Runs of the model they took.
        regions: Shared memory it knows.
        said: Called with the rows of a JSON answer, to make them wrong.
        written: Called with the bytes that it writes to shared memory, to make them wrong.
    """

    config: object
    model: Callable[[Rows], Rows] = linear
    version: str = "1"
    merging: bool = True
    change: Callable[[dict[str, np.ndarray], Rows], dict[str, np.ndarray]] = lambda answer, inputs: answer
    lenient: bool = False
    metadata_change: Callable[[ModelMetadata], ModelMetadata] = lambda metadata: metadata
    ready_answer: bool = True
    sent: int = 0
    executions: int = 0
    regions: dict[str, SharedMemory] = field(default_factory=dict)
    said: Callable[[list], list] = lambda rows: rows
    written: Callable[[bytes], bytes] = lambda data: data
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _inside: int = 0

    def live(self) -> bool:
        """Alive."""
        return True

    def ready(self) -> bool:
        """Ready."""
        return True

    def model_ready(self, name: str, version: str) -> bool:
        """Ready, unless told otherwise."""
        return self.ready_answer and version == self.version

    def server(self) -> ServerInfo:
        """A Triton."""
        return ServerInfo(name="triton", version="2.51.0", extensions=())

    def config_(self) -> object:
        """A copy of the config."""
        return copy.deepcopy(self.config)

    def metadata(self, name: str, version: str) -> ModelMetadata:
        """What the config says."""
        rows = {
            side: tuple(
                TensorMetadata(name=view.name, datatype=wire_type(view.dtype), shape=view.client_dims)
                for view in tensor_views(self.config, side).values()
            )
            for side in ("input", "output")
        }
        found = ModelMetadata(name=name, versions=(self.version,), inputs=rows["input"], outputs=rows["output"])
        return self.metadata_change(found)

    def statistics(self, name: str, version: str) -> tuple[ModelStatistics, ...]:
        """Counters."""
        return (
            ModelStatistics(
                version=self.version,
                inferences=self.sent,
                executions=self.executions,
                succeeded=self.sent,
                failed=0,
                batches=((2, self.executions),),
            ),
        )

    def index(self) -> tuple[IndexEntry, ...]:
        """One row."""
        return (IndexEntry(name="m", version=self.version, state="READY", reason=""),)

    def infer_json(self, name: str, version: str, body: bytes, timeout_s: float) -> bytes:
        """Read JSON, answer JSON."""
        rows = [
            _wire(row["name"], np.array(row["data"], np.float32).reshape(row["shape"]))
            for row in json.loads(body)["inputs"]
        ]
        answers = {
            tensor.name: (from_wire(tensor.data, dtype_of_wire(tensor.datatype), tensor.shape), DType.FLOAT32)
            for tensor in self.infer(name, version, rows, (), timeout_s)
        }
        said = json.loads(json_request(answers))["inputs"]
        return json.dumps({"outputs": self.said(said)}).encode()

    def share(self, region: str, key: str, nbytes: int) -> None:
        """Open the memory."""
        self.regions[region] = SharedMemory(key.removeprefix("/"))

    def unshare(self, region: str) -> None:
        """Forget it."""
        self.regions.pop(region).close()

    def infer_shared(
        self, name: str, version: str, inputs: Sequence, outputs: Sequence, timeout_s: float
    ) -> tuple[TensorMetadata, ...]:
        """Read there, answer there."""
        asked = [
            WireTensor(
                name=tensor.name,
                datatype=tensor.datatype,
                shape=tensor.shape,
                data=bytes(self.regions[tensor.region].buf[tensor.offset : tensor.offset + tensor.nbytes]),
            )
            for tensor in inputs
        ]
        answers = {tensor.name: tensor for tensor in self.infer(name, version, asked, (), timeout_s)}
        for place in outputs:
            buf, data = self.regions[place.region].buf, self.written(answers[place.name].data)
            buf[place.offset : place.offset + len(data)] = data
        return tuple(TensorMetadata(name=t.name, datatype=t.datatype, shape=t.shape) for t in answers.values())

    def load(self, name: str, config: str | None) -> None:
        """Nothing."""

    def unload(self, name: str) -> None:
        """Nothing."""

    def infer(
        self, name: str, version: str, inputs: Sequence[WireTensor], outputs: Sequence[str], timeout_s: float
    ) -> tuple[WireTensor, ...]:
        """Check as Triton does, run, answer."""
        try:
            self.check(inputs)
        except InferenceRefused:
            if self.lenient:
                return (_wire("y", np.zeros((1, 3), np.float32)),)
            raise
        known = tensor_views(self.config, "input")
        arrays = {
            tensor.name: from_wire(tensor.data, dtype_of_wire(tensor.datatype), tensor.shape)
            for tensor in inputs
            if tensor.name in known
        }
        answer = self.change(dict(self._run(arrays)), arrays)
        return tuple(
            WireTensor(
                name=key, datatype=wire_type(_dtype(array)), shape=array.shape, data=to_wire(array, _dtype(array))
            )
            for key, array in answer.items()
        )

    def close(self) -> None:
        """Nothing."""

    def _run(self, arrays: Rows) -> Rows:
        with self._lock:
            self.sent += 1
            self._inside += 1
        time.sleep(0.001)
        with self._lock:
            self.executions += 0 if self.merging and self._inside > 1 else 1
            self._inside -= 1
        return self.model(arrays)

    def check(self, inputs: Sequence[WireTensor]) -> None:
        """Refuse what Triton's core refuses."""
        views = tensor_views(self.config, "input")
        if {tensor.name for tensor in inputs} != set(views) or len(inputs) != len(views):
            raise InferenceRefused("unexpected inference inputs")
        for tensor in inputs:
            view = views[tensor.name]
            fits = len(tensor.shape) == len(view.client_dims) and all(
                want in (-1, got) for want, got in zip(view.client_dims, tensor.shape, strict=True)
            )
            if tensor.datatype != wire_type(view.dtype) or not fits:
                raise InferenceRefused(f"unexpected type or shape for input {tensor.name!r}")
            if view.batched and tensor.shape[0] > self.config.max_batch_size:
                raise InferenceRefused("inference request batch-size must be <= max_batch_size")
            if math.prod(tensor.shape) == 0:
                raise InferenceRefused("empty")


def _wire(name: str, array: np.ndarray) -> WireTensor:
    dtype = _dtype(array)
    return WireTensor(name=name, datatype=wire_type(dtype), shape=array.shape, data=to_wire(array, dtype))


def _dtype(array: np.ndarray) -> DType:
    return DType.STRING if array.dtype == object else DType(str(array.dtype))


FakeTriton.__hash__ = None


class _Transport:
    """The fake behind the protocol's own method names (a dataclass field is called ``config``)."""

    def __init__(self, fake: FakeTriton) -> None:
        self._fake = fake

    def __getattr__(self, name: str) -> object:
        return getattr(self._fake, name)

    def config(self, name: str, version: str) -> object:
        """The served config."""
        return self._fake.config_()


@dataclass
class Stage:
    """Everything a check needs, to be spoilt by a test."""

    artifact: ONNXArtifact
    fake: FakeTriton
    published: Published | None
    own: bool = True
    options: dict = field(default_factory=dict)

    def client(self, protocol: str = "grpc") -> Client:
        """A client of the fake."""
        endpoint = Endpoint(protocol=protocol, host="localhost", port=1)
        return Client(_Transport(self.fake), endpoint, 5.0)

    def keep_samples(self, folder: Path) -> None:
        """Record samples of all three labels."""
        requests = []
        for label in ("smallest", "typical", "largest"):
            inputs = make_request(self.subject(), label, seed=1)
            requests.append(Request(label=label, origin="synthetic", inputs=inputs, outputs=self.fake.model(inputs)))
        specs = {"inputs": self.artifact.inputs, "outputs": self.artifact.outputs}
        kept = write_samples(folder, SAMPLE_FILE_NAME, requests, **specs)
        self.artifact = replace(self.artifact, evidence=replace(self.artifact.evidence, samples=kept))
        self.published = replace(self.published, artifact=self.artifact)

    def subject(self) -> Subject:
        """What the session would make of it."""
        return subject_of("m", self.fake.version, self.fake.config_(), self.published)

    def context(self) -> Context:
        """What a check is given."""
        clients = {"grpc": self.client("grpc"), "http": self.client("http")}
        return Context(subject=self.subject(), clients=clients, own=self.own, **self.options)


def record(
    folder: Path,
    model: Callable[[Rows], Rows] = linear,
    inputs: Sequence[TunedTensorSpec] = (X,),
    outputs: Sequence[TunedTensorSpec] = (Y,),
    typical: Mapping[str, tuple[int, ...]] | None = None,
) -> ONNXArtifact:
    """A record of a model that is a Python function."""
    domains = observe_domains(inputs, typical or {spec.name: spec.min_shape for spec in inputs})
    batched = all(spec.batch_axis == 0 for spec in (*inputs, *outputs))
    return ONNXArtifact(
        path=folder / "model.onnx",
        fingerprint="a" * 64,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        evidence=Evidence(
            batching=Batching(verdict="batched" if batched else "unbatched", reason="in a test"),
            inputs=domains,
            probe=make_probe(model, inputs, outputs, domains),
        ),
    )


def stage_of(artifact: ONNXArtifact, model: Callable[[Rows], Rows] = linear) -> Stage:
    """The artifact, published and served as it should be."""
    config = message(plan(artifact, model_name="m"))
    fake = FakeTriton(config=copy.deepcopy(config), model=model)
    published = Published(config=config, artifact=artifact, siblings={"1": artifact})
    return Stage(artifact=artifact, fake=fake, published=published)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A linear model that is served as it should be."""
    return stage_of(record(tmp_path))


@pytest.fixture
def make_stage(tmp_path: Path) -> Callable[..., Stage]:
    """A stage for another model: its function, contracts and typical shapes."""

    def make(
        model: Callable[[Rows], Rows], inputs: Sequence, outputs: Sequence, typical: Mapping | None = None
    ) -> Stage:
        return stage_of(record(tmp_path, model, inputs, outputs, typical), model)

    return make


@pytest.fixture
def retold() -> Callable[..., ONNXArtifact]:
    """An artifact with another field in its evidence."""

    def change(artifact: ONNXArtifact, **fields: object) -> ONNXArtifact:
        return replace(artifact, evidence=replace(artifact.evidence, **fields))

    return change


@pytest.fixture
def free_stage(make_stage: Callable[..., Stage]) -> Callable[[], Stage]:
    """A model with a free axis of 2 to 8."""

    def make() -> Stage:
        x = TunedTensorSpec("x", DType.FLOAT32, ("batch", "length"), (1, 2), (4, 8), 0)
        y = TunedTensorSpec("y", DType.FLOAT32, ("batch", 1), (1, 1), (4, 1), 0)
        return make_stage(lambda inputs: {"y": inputs["x"].sum(1, keepdims=True)}, (x,), (y,), {"x": (1, 4)})

    return make
