"""What ONNX Runtime says about a file, as an `Interface`: stands in for the frontend, which this room may not import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx import TensorProto

from aitune.errors import SourceError
from aitune.records.dtypes import DType
from aitune.records.interface import Interface, Port

_ELEMENTS = {
    "float": DType.FLOAT32, "double": DType.FLOAT64, "float16": DType.FLOAT16, "bfloat16": DType.BFLOAT16,
    "string": DType.STRING, "bool": DType.BOOL,
    **{name: DType(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}  # fmt: skip


def read_interface(path: Path) -> Interface:
    """The interface of an ONNX file; `SourceError` when ONNX Runtime refuses it."""
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:
        raise SourceError(f"not ONNX: {error}") from error
    locations = tuple(dict.fromkeys(_locations(model)))
    try:
        session = _session(path, model, locations)
    except Exception as error:
        raise SourceError(str(error).splitlines()[0]) from error
    return Interface(
        format="onnx",
        inputs=tuple(_port(one) for one in session.get_inputs()),
        outputs=tuple(_port(one) for one in session.get_outputs()),
        initializers=tuple(_port(one) for one in session.get_overridable_initializers()),
        opset_imports=tuple((one.domain, one.version) for one in model.opset_import),
        ir_version=model.ir_version,
        companions=locations,
        source="onnxruntime",
    )


def _session(path: Path, model: onnx.ModelProto, locations: tuple[str, ...]) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    source: str | bytes = str(path)
    climbing = [name for name in locations if ".." in Path(name).parts and (path.parent / name).is_file()]
    if climbing:  # this ONNX Runtime refuses what the one in 24.10 reads: give it the bytes
        _embed(model, path.parent)
        source = model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _embed(model: onnx.ModelProto, folder: Path) -> None:
    for tensor in _tensors(model):
        info = {entry.key: entry.value for entry in tensor.external_data}
        if "location" in info:
            data = (folder / info["location"]).read_bytes()[int(info.get("offset", 0)) :]
            tensor.raw_data = data[: int(info["length"])] if "length" in info else data
            del tensor.external_data[:]
            tensor.data_location = TensorProto.DEFAULT


def _tensors(model: onnx.ModelProto) -> Any:
    yield from model.graph.initializer
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t


def _locations(model: onnx.ModelProto) -> Any:
    for tensor in _tensors(model):
        for entry in tensor.external_data:
            if entry.key == "location" and tensor.data_location == TensorProto.EXTERNAL:
                yield entry.value


def _port(one: Any) -> Port:
    kind, _, element = one.type.partition("(")
    element = element.rstrip(")")
    kinds = {"seq": "sequence", "map": "map", "optional": "optional", "sparse_tensor": "sparse_tensor"}
    shape = tuple(one.shape) if kind == "tensor" else None
    return Port(
        name=one.name,
        kind=kinds.get(kind, "tensor"),
        element_type=element,
        dtype=_ELEMENTS.get(element),
        shape=shape,
    )
