"""Small models with records, published into a repository of their own, and the same models gone wrong."""

from __future__ import annotations

import http.client
import http.server
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from aitune.numerics import make_probe, observe_domains, synthetic_inputs, write_samples
from aitune.numerics.samples import SAMPLE_FILE_NAME, Request
from aitune.records import DType, ONNXArtifact, TunedTensorSpec
from aitune.records.evidence import Batching, Evidence
from aitune.records.fingerprints import fingerprint_file
from aitune.triton.plan import PlanOptions
from aitune.triton.publication import publish

KINDS = {
    DType.FLOAT32: TensorProto.FLOAT,
    DType.FLOAT16: TensorProto.FLOAT16,
    DType.FLOAT64: TensorProto.DOUBLE,
    DType.INT64: TensorProto.INT64,
    DType.INT32: TensorProto.INT32,
    DType.BOOL: TensorProto.BOOL,
    DType.STRING: TensorProto.STRING,
}
Rows = dict[str, np.ndarray]
_NAMES = ("Content-Type", "Inference-Header-Content-Length")


def run_onnx(path: Path) -> Callable[[Rows], Rows]:
    """Something that runs a file with ONNX Runtime itself."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: Rows) -> Rows:
        fed = {name: array.astype(str) if array.dtype == object else array for name, array in inputs.items()}
        found = session.run(names, fed)
        return {
            name: np.vectorize(lambda item: item.encode(), otypes=[object])(array) if array.dtype == object else array
            for name, array in zip(names, found, strict=True)
        }

    return run


def graph(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[TunedTensorSpec],
    outputs: Sequence[TunedTensorSpec],
    weights: dict[str, np.ndarray] | None = None,
) -> Path:
    """An ONNX file with these nodes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ends = [
        [helper.make_tensor_value_info(s.name, KINDS[s.dtype], list(s.shape)) for s in side]
        for side in (inputs, outputs)
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    model = helper.make_model(
        helper.make_graph(list(nodes), "g", *ends, initializer=tensors),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    onnx.save(model, str(path))
    return path


def tuned(name: str, dtype: DType, shape: tuple, low: tuple, high: tuple, axis: int | None = 0) -> TunedTensorSpec:
    """Short for a contract."""
    return TunedTensorSpec(name, dtype, shape, low, high, axis)


X = tuned("x", DType.FLOAT32, ("batch", 4), (1, 4), (8, 4))
Y = tuned("y", DType.FLOAT32, ("batch", 3), (1, 3), (8, 3))
LINEAR = [helper.make_node("MatMul", ["x", "w"], ["y"])]
REDUCE = [helper.make_node("ReduceSum", ["x", "axis"], ["y"], keepdims=1)]


def linear_to(output: str) -> list[onnx.NodeProto]:
    """The linear model with another name for its result."""
    return [helper.make_node("MatMul", ["x", "w"], [output])]


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    """The weights of the linear model."""
    return {"w": np.random.default_rng(seed).normal(size=(4, 3)).astype(np.float32)}


@dataclass
class Bench:
    """A place to make models in.

    Attributes:
        folder: Where files go.
        repository: Where they are published.
    """

    folder: Path
    options: PlanOptions = field(default_factory=lambda: PlanOptions(instance_count=1))

    x = X
    y = Y
    tools = None  # this module, for tests that cannot import it

    @property
    def repository(self) -> Path:
        """Root of the model repository."""
        return self.folder / "repository"

    def record(
        self,
        path: Path,
        inputs: Sequence[TunedTensorSpec],
        outputs: Sequence[TunedTensorSpec],
        typical: dict[str, tuple[int, ...]] | None = None,
        *,
        samples: bool = True,
    ) -> ONNXArtifact:
        """The record of a file, by running it."""
        run = run_onnx(path)
        typical = {spec.name: spec.min_shape for spec in inputs} | (typical or {})
        domains = observe_domains(inputs, typical)
        batched = all(spec.batch_axis == 0 for spec in (*inputs, *outputs))
        verdict = Batching(verdict="batched" if batched else "unbatched", reason="made in a test")
        evidence = Evidence(batching=verdict, inputs=domains, probe=make_probe(run, inputs, outputs, domains))
        if samples:
            shapes = {
                "smallest": {spec.name: spec.min_shape for spec in inputs},
                "typical": typical,
                "largest": {spec.name: spec.max_shape for spec in inputs},
            }
            requests = []
            for label, sizes in shapes.items():
                asked = synthetic_inputs(inputs, domains, sizes, 5)
                requests.append(Request(label=label, origin="synthetic", inputs=asked, outputs=run(asked)))
            kept = write_samples(path.parent, SAMPLE_FILE_NAME, requests, inputs=inputs, outputs=outputs)
            evidence = replace(evidence, samples=kept)
        return ONNXArtifact(
            path=path,
            fingerprint=fingerprint_file(path),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            evidence=evidence,
        )

    def linear(self, seed: int = 0, **kwargs: bool) -> ONNXArtifact:
        """``y = x @ w``, batches up to 8."""
        path = graph(self.folder / f"linear{seed}" / "model.onnx", LINEAR, [X], [Y], weights(seed))
        return self.record(path, [X], [Y], {"x": (1, 4)}, **kwargs)

    def free_axis(self) -> tuple[TunedTensorSpec, TunedTensorSpec]:
        """Contracts of a model that sums over an axis of 2 to 8."""
        x = tuned("x", DType.FLOAT32, ("batch", "length"), (1, 2), (4, 8))
        return x, tuned("y", DType.FLOAT32, ("batch", 1), (1, 1), (4, 1))

    def without_probe(self, artifact: ONNXArtifact) -> ONNXArtifact:
        """The same record, without the golden probe."""
        return replace(artifact, evidence=replace(artifact.evidence, probe=None))

    def publish(self, artifact: ONNXArtifact, name: str = "linear", **kwargs: str) -> Path:
        """Publish, and give the folder of the version back."""
        return publish(artifact, self.repository, model_name=name, options=self.options, **kwargs).path


@contextmanager
def standing(server: str, gateway: Any) -> Iterator[str]:
    """The address of a gateway before a server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kept = {name: self.headers[name] for name in _NAMES if self.headers.get(name)}
            upstream = http.client.HTTPConnection(server, timeout=30)
            upstream.request(self.command, self.path, gateway.request(self.path, body), kept)
            reply = upstream.getresponse()
            status, data = gateway.answer(self.path, reply.status, reply.read())
            upstream.close()
            self.send_response(status)
            found = {name: reply.headers[name] for name in _NAMES if reply.headers.get(name)}
            for name, value in {**found, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            with suppress(BrokenPipeError):  # the client did not wait for us
                self.end_headers()
                self.wfile.write(data)

        do_GET = do_POST = pass_on

        def log_message(self, *args: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 128

    httpd = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
    finally:
        httpd.shutdown()
        httpd.server_close()


@pytest.fixture(scope="session")
def stand_before() -> Callable[[str, object], AbstractContextManager[str]]:
    """Something that puts a gateway (with ``request`` and ``answer``) before the HTTP port of a server."""
    return standing


@pytest.fixture(scope="session")
def make_bench() -> Callable[[Path], Bench]:
    """Something that makes benches, for fixtures that outlive a test."""

    def make(folder: Path) -> Bench:
        bench = Bench(folder)
        bench.tools = sys.modules[__name__]
        return bench

    return make


@pytest.fixture
def bench(make_bench: Callable[[Path], Bench], tmp_path: Path) -> Bench:
    """A fresh place to make models in."""
    return make_bench(tmp_path)
