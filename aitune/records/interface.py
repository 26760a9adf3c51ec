"""What a model file declares at its boundary, as the runtime sees it, before anything was proved or tuned."""

from __future__ import annotations

from dataclasses import dataclass

from aitune.errors import RecordError
from aitune.records.dtypes import DType
from aitune.records.shapes import Dim

__all__ = ["Interface", "Port"]

KINDS = ("tensor", "sparse_tensor", "sequence", "map", "optional")


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One value at the boundary of a model file.

    A port is a statement about a file, not a contract: it may have a type or a shape that no contract can have.

    Attributes:
        name: The file's name for it.
        kind: ``"tensor"``, ``"sparse_tensor"``, ``"sequence"``, ``"map"`` or ``"optional"``; only tensors are served.
        element_type: The file's own word for the element type, e.g. ``"FLOAT8E4M3FN"``; for messages.
        dtype: The matching element type, None where there is none.
        shape: Declared sizes; unlike a contract's they may be 0. None when not even the rank is known.
    """

    name: str
    kind: str = "tensor"
    element_type: str = ""
    dtype: DType | None = None
    shape: tuple[Dim, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise RecordError(f"kind of port {self.name!r} must be one of {', '.join(KINDS)}, got {self.kind!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """Inputs and outputs of a model file, in the file's own order.

    Attributes:
        format: ``"onnx"`` or ``"tensorrt_plan"``.
        inputs: What a caller must give; graph inputs that have an initializer are not among them.
        outputs: What comes back.
        initializers: Graph inputs with an initializer: a caller may override them.
        opset_imports: (domain, version) pairs, the default domain as ``""``; empty for a plan.
        ir_version: ONNX IR version, 0 for a plan.
        companions: Relative names of further files the model cannot be loaded without.
        producer: Name and version of the program that wrote the file, ``""`` when it does not say.
        source: Who says so: ``"onnxruntime"``, ``"shape_inference"``, ``"declared"``, ``"record"`` or ``"tensorrt"``.
    """

    format: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    initializers: tuple[Port, ...] = ()
    opset_imports: tuple[tuple[str, int], ...] = ()
    ir_version: int = 0
    companions: tuple[str, ...] = ()
    producer: str = ""
    source: str = "declared"
