"""A repository of small models, each for one behaviour, and one server that serves them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton
from onnx import TensorProto, helper, numpy_helper

from aitune.triton.server import LocalServer

Value = tuple[str, int, Sequence[int | str] | None]

COMMON = 'backend: "onnxruntime" instance_group { kind: KIND_CPU count: 1 }\n'
WAIT = "dynamic_batching { max_queue_delay_microseconds: 300000 preferred_batch_size: 4 }\n"
TYPES = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
}


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    constants: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> onnx.ModelProto:
    """A model of a few nodes."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write(root: Path, name: str, config: str | None, graph: onnx.ModelProto, *, file: str = "model.onnx") -> Path:
    """Put a model into a repository; the directory of the model."""
    folder = root / name
    path = folder / "1" / file
    path.parent.mkdir(parents=True)
    onnx.save(graph, path)
    if config is not None:
        (folder / "config.pbtxt").write_text(COMMON + config)
    return folder


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
    """One node."""
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


F, I32, I64, S = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.STRING


def _double(root: Path) -> None:
    graph = model([node("Add", ["x", "x"], ["y"])], [("x", F, ["n", 4])], [("y", F, ["n", 4])])
    config = "max_batch_size: 8 input { name: 'x' data_type: TYPE_FP32 dims: 4 } "
    config += "output { name: 'y' data_type: TYPE_FP32 dims: 4 } "
    write(root, "double", config + WAIT, graph)
    zeros = "inputs { key: 'x' value { data_type: TYPE_FP32 dims: 4 zero_data: true } }"
    warm = "".join(f"model_warmup {{ name: 'w' batch_size: {size} {zeros} }} " for size in (1, 8))
    write(root, "warm", config + warm, graph)
    write(root, "folder", config, graph, file="model.onnx/model.onnx")
    write(root, "decoupled", config + "model_transaction_policy { decoupled: true }", graph)
    write(root, "bare", None, graph)


def _lookup(root: Path) -> None:
    graph = model(
        [node("Gather", ["table", "ids"], ["row"])],
        [("ids", I64, ["n", 1])],
        [("row", F, ["n", 1, 2])],
        {"table": np.arange(10, dtype=np.float32).reshape(5, 2)},
    )
    config = "max_batch_size: 8 input { name: 'ids' data_type: TYPE_INT64 dims: 1 } "
    write(root, "lookup", config + "output { name: 'row' data_type: TYPE_FP32 dims: [1, 2] } " + WAIT, graph)


def _scalars(root: Path) -> None:
    graph = model([node("Add", ["t", "t"], ["m"])], [("t", F, [])], [("m", F, [])])
    config = "input { name: 't' data_type: TYPE_FP32 dims: 1 } output { name: 'm' data_type: TYPE_FP32 dims: 1 }"
    write(root, "scalar", config, graph)
    graph = model([node("ReduceSum", ["x"], ["m"], keepdims=0)], [("x", F, ["n", 4])], [("m", F, [])])
    config = "max_batch_size: 8 input { name: 'x' data_type: TYPE_FP32 dims: 4 } "
    write(root, "total", config + "output { name: 'm' data_type: TYPE_FP32 dims: 1 }", graph)
    graph = model([node("Mul", ["x", "t"], ["y"])], [("x", F, ["n", 4]), ("t", F, [])], [("y", F, ["n", 4])])
    config += "input { name: 't' data_type: TYPE_FP32 dims: 1 reshape { } } "
    write(root, "scaled", config + "output { name: 'y' data_type: TYPE_FP32 dims: 4 } " + WAIT, graph)


def _texts(root: Path) -> None:
    graph = model([node("Identity", ["x"], ["y"])], [("x", S, ["n", 2])], [("y", S, ["n", 2])])
    config = "max_batch_size: 8 input { name: 'x' data_type: TYPE_STRING dims: 2 } "
    write(root, "texts", config + "output { name: 'y' data_type: TYPE_STRING dims: 2 }", graph)


def _types(root: Path) -> None:
    names = list(TYPES)
    graph = model(
        [node("Identity", [f"i{name}"], [f"o{name}"]) for name in names],
        [(f"i{name}", TYPES[name], ["n", 3]) for name in names],
        [(f"o{name}", TYPES[name], ["n", 3]) for name in names],
    )
    config = "max_batch_size: 4 "
    for name in names:
        config += f"input {{ name: 'i{name}' data_type: TYPE_{name} dims: 3 }} "
        config += f"output {{ name: 'o{name}' data_type: TYPE_{name} dims: 3 }} "
    write(root, "types", config, graph)


def _free(root: Path) -> None:
    graph = model([node("Add", ["x", "x"], ["y"])], [("x", F, ["n", 4])], [("y", F, ["n", 4])])
    config = "input { name: 'x' data_type: TYPE_FP32 dims: [-1, 4] } "
    write(root, "rows", config + "output { name: 'y' data_type: TYPE_FP32 dims: [-1, 4] }", graph)
    nodes = [node("Add", ["x", "x"], ["a"]), node("Neg", ["x"], ["b"])]
    graph = model(nodes, [("x", F, ["n", 4])], [("a", F, ["n", 4]), ("b", F, ["n", 4])])
    config = "max_batch_size: 8 input { name: 'x' data_type: TYPE_FP32 dims: 4 } "
    config += "output { name: 'a' data_type: TYPE_FP32 dims: 4 } output { name: 'b' data_type: TYPE_FP32 dims: 4 } "
    write(root, "pair", config + WAIT, graph)


def _shrinking(root: Path) -> None:
    """Drops the rows that start with zero: the output has too few rows for the last request of such a batch."""
    nodes = [
        node("Gather", ["x", "first"], ["heads"], axis=1),
        node("Cast", ["heads"], ["kept"], to=TensorProto.BOOL),
        node("Compress", ["x", "kept"], ["y"], axis=0),
    ]
    graph = model(nodes, [("x", F, ["n", 4])], [("y", F, ["m", 4])], {"first": np.array(0, dtype=np.int64)})
    config = "max_batch_size: 8 input { name: 'x' data_type: TYPE_FP32 dims: 4 } "
    write(root, "shrinking", config + "output { name: 'y' data_type: TYPE_FP32 dims: 4 } " + WAIT, graph)


def _optional(root: Path) -> None:
    graph = model(
        [node("Add", ["x", "w"], ["y"])],
        [("x", F, ["n", 2]), ("w", F, [2])],
        [("y", F, ["n", 2])],
        {"w": np.array([10, 20], dtype=np.float32)},
    )
    config = "input { name: 'x' data_type: TYPE_FP32 dims: [-1, 2] } "
    config += "input { name: 'w' data_type: TYPE_FP32 dims: 2 optional: true } "
    write(root, "optional", config + "output { name: 'y' data_type: TYPE_FP32 dims: [-1, 2] }", graph)


def _ragged(root: Path) -> None:
    """The sum of each request's own numbers, which lie end to end, and the doubled numbers cut apart again."""
    nodes = [
        node("CumSum", ["x", "axis"], ["sums"]),
        node("Concat", ["zero", "sums"], ["all"], axis=0),
        node("Cast", ["bounds"], ["b"], to=I64),
        node("Slice", ["b", "from0", "to_last"], ["starts"]),
        node("Slice", ["b", "from1", "to_end"], ["ends"]),
        node("Gather", ["all", "ends"], ["upto_end"]),
        node("Gather", ["all", "starts"], ["upto_start"]),
        node("Sub", ["upto_end", "upto_start"], ["sum"]),
        node("Add", ["x", "x"], ["twice"]),
    ]
    constants = {
        "axis": np.array(0, dtype=np.int64),
        "zero": np.zeros(1, dtype=np.float32),
        "from0": np.array([0], dtype=np.int64),
        "from1": np.array([1], dtype=np.int64),
        "to_last": np.array([-1], dtype=np.int64),
        "to_end": np.array([2**31], dtype=np.int64),
    }
    graph = model(nodes, [("x", F, ["k"]), ("bounds", I32, ["m"])], [("sum", F, ["n"]), ("twice", F, ["k"])], constants)
    config = """max_batch_size: 8
    input { name: 'x' data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true }
    batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: 'bounds' data_type: TYPE_INT32
                  source_input: 'x' }
    output { name: 'sum' data_type: TYPE_FP32 dims: 1 reshape { } }
    output { name: 'twice' data_type: TYPE_FP32 dims: -1 }
    batch_output { target_name: 'twice' kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: 'x' }
    """
    write(root, "ragged", config + WAIT, graph)


def _sequence(root: Path) -> None:
    """Adds up the numbers of a sequence; START is a control the model ignores but for its shape."""
    nodes = [
        node("Add", ["x", "sum_in"], ["sum_out"]),
        node("Mul", ["START", "zero"], ["nothing"]),
        node("Add", ["sum_out", "nothing"], ["y"]),
    ]
    graph = model(
        nodes,
        [("x", F, ["n", 1]), ("sum_in", F, ["n", 1]), ("START", F, ["n", 1])],
        [("y", F, ["n", 1]), ("sum_out", F, ["n", 1])],
        {"zero": np.zeros(1, dtype=np.float32)},
    )
    config = """max_batch_size: 4
    input { name: 'x' data_type: TYPE_FP32 dims: 1 }
    output { name: 'y' data_type: TYPE_FP32 dims: 1 }
    sequence_batching {
      control_input { name: 'START' control { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] } }
      state { input_name: 'sum_in' output_name: 'sum_out' data_type: TYPE_FP32 dims: 1
              initial_state { name: 'hundred' data_type: TYPE_FP32 dims: 1 data_file: 'hundred' } }
    }
    """
    folder = write(root, "sequence", config, graph)
    (folder / "initial_state").mkdir()
    (folder / "initial_state" / "hundred").write_bytes(np.array([100], dtype=np.float32).tobytes())


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository."""
    root = tmp_path_factory.mktemp("models")
    for build in (_double, _lookup, _scalars, _texts, _types, _free, _shrinking, _optional, _ragged, _sequence):
        build(root)
    return root


@pytest.fixture(scope="session")
def server(models: Path) -> Iterator[LocalServer]:
    """A server with all of them."""
    with LocalServer(models) as running:
        yield running


@pytest.fixture
def client(server: LocalServer) -> Iterator[triton.InferenceServerClient]:
    """A gRPC client of that server."""
    with triton.InferenceServerClient(server.grpc) as connected:
        yield connected


Arrays = dict[str, np.ndarray[Any, Any]]
Ask = Callable[..., Arrays]


def tensor(name: str, array: np.ndarray[Any, Any], datatype: str | None = None) -> triton.InferInput:
    """An input of a request."""
    kind = datatype or {"O": "BYTES", "b": "BOOL"}.get(array.dtype.kind) or _wire_name(array.dtype)
    made = triton.InferInput(name, list(array.shape), kind)
    made.set_data_from_numpy(array)
    return made


def _wire_name(dtype: np.dtype[Any]) -> str:
    return {"f": "FP", "i": "INT", "u": "UINT"}[dtype.kind] + str(dtype.itemsize * 8)


@pytest.fixture
def ask(client: triton.InferenceServerClient) -> Ask:
    """One request, its answer by output name."""

    def call(model: str, outputs: Sequence[str] = (), /, **inputs: np.ndarray[Any, Any]) -> Arrays:
        wanted = [triton.InferRequestedOutput(name) for name in outputs] or None
        answer = client.infer(model, [tensor(name, array) for name, array in inputs.items()], outputs=wanted)
        return {row.name: answer.as_numpy(row.name) for row in answer.get_response().outputs}

    return call


@pytest.fixture
def ask_together(client: triton.InferenceServerClient) -> Callable[..., list[Arrays | str]]:
    """Several requests at once, so that the batcher joins them; for each its answer or the text of its error."""

    def call(model: str, requests: Sequence[Arrays], outputs: Sequence[Sequence[str]] = ()) -> list[Arrays | str]:
        answers: list[Future[Any]] = [Future() for _ in requests]
        for index, (inputs, answer) in enumerate(zip(requests, answers, strict=True)):
            client.async_infer(
                model,
                [tensor(name, array) for name, array in inputs.items()],
                callback=_into(answer),
                outputs=[triton.InferRequestedOutput(name) for name in outputs[index]] if outputs else None,
            )
        return [answer.result(timeout=20) for answer in answers]

    return call


def _into(answer: Future[Any]) -> Callable[[Any, Any], None]:
    """A callback that keeps what came: arrays by name, or the text of the error."""

    def done(result: Any, error: Any) -> None:
        rows = [] if error else result.get_response().outputs
        answer.set_result(str(error) if error else {row.name: result.as_numpy(row.name) for row in rows})

    return done
