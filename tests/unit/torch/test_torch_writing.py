"""Files whose weights were written one by one are files like any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from aitune.errors import SourceError
from aitune.torch.writing import LARGE_BYTES, write_model

ROWS = LARGE_BYTES // 4 // 16


def model() -> ir.Model:
    """A product with a large matrix, a sum with a small vector, and a large matrix of 16 bits beside it."""
    x = ir.Value(name="x", shape=ir.Shape(["batch", ROWS]), type=ir.TensorType(ir.DataType.FLOAT))
    large = np.arange(ROWS * 16, dtype=np.float32).reshape(ROWS, 16) / ROWS
    brain = ir.tensor(np.full((LARGE_BYTES, 2), 0x3F80, np.uint16), dtype=ir.DataType.BFLOAT16)
    weights = [ir.tensor(large, name="large"), ir.tensor(np.ones(16, np.float32), name="small")]
    values = [ir.Value(name=tensor.name, const_value=tensor) for tensor in weights]
    values.append(ir.Value(name="brain", const_value=brain))
    product = ir.node("MatMul", inputs=[x, values[0]])
    total = ir.node("Add", inputs=[product.outputs[0], values[1]])
    shape = ir.node("Shape", inputs=[values[2]])
    total.outputs[0].name, shape.outputs[0].name = "y", "s"
    for node, kind in ((total, ir.DataType.FLOAT), (shape, ir.DataType.INT64)):
        node.outputs[0].type = ir.TensorType(kind)
    graph = ir.Graph(
        [x],
        [total.outputs[0], shape.outputs[0]],
        nodes=[product, total, shape],
        initializers=values,
        opset_imports={"": 20},
        name="graph",
    )
    return ir.Model(graph, ir_version=10)


def test_the_file_is_the_one_that_is_written_in_one_piece(tmp_path: Path) -> None:
    """Every field, every value; only the order of the weights may differ."""
    write_model(model(), tmp_path / "a.onnx")
    ir.save(model(), tmp_path / "b.onnx")
    one, other = (onnx.load(tmp_path / name) for name in ("a.onnx", "b.onnx"))
    for loaded in (one, other):
        loaded.graph.initializer.sort(key=lambda tensor: tensor.name)
    assert one == other
    assert [tensor.name for tensor in one.graph.initializer] == ["brain", "large", "small"]


def test_the_runtime_reads_it(tmp_path: Path) -> None:
    """It loads, and the large weights have their values."""
    write_model(model(), tmp_path / "a.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "a.onnx")
    y, s = session.run(None, {"x": np.eye(2, ROWS, dtype=np.float32)})
    assert np.allclose(y, np.arange(32).reshape(2, 16) / ROWS + 1)
    assert s.tolist() == [LARGE_BYTES, 2]


def test_the_model_is_as_it_was(tmp_path: Path) -> None:
    """The weights are back in their order afterwards."""
    made = model()
    write_model(made, tmp_path / "a.onnx")
    assert list(made.graph.initializers) == ["large", "small", "brain"]


def test_a_tensor_of_another_size_is_refused(tmp_path: Path) -> None:
    """A file that lies about its lengths is not written unnoticed."""

    class Short(ir.Tensor):
        def tofile(self, file: object) -> None:
            """Writes nothing."""

    made = model()
    made.graph.initializers["large"].const_value = Short(np.zeros((ROWS, 16), np.float32), name="large")
    with pytest.raises(SourceError, match=f"weight 'large' has 0 bytes, {LARGE_BYTES} were announced"):
        write_model(made, tmp_path / "a.onnx")
