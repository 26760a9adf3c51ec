"""An execution provider among the settings of a candidate: text that a record carries and a config is written from.

Most settings are ``parameters`` of Triton's backend. Two have a field of their own in the config and therefore a key
that names it: ``optimization.graph.level``, a number, and this one: the provider, and what its engines compute in.

>>> GpuAccelerator.read("tensorrt:fp16")
GpuAccelerator(name='tensorrt', precision='fp16')
>>> str(GpuAccelerator(name="tensorrt"))
'tensorrt:fp32'
"""

from __future__ import annotations

from dataclasses import dataclass

from aitune.errors import RecordError

__all__ = ["ACCELERATORS", "GPU_ACCELERATOR", "PRECISIONS", "SHAPE_SEPARATORS", "GpuAccelerator"]

GPU_ACCELERATOR = "optimization.execution_accelerators.gpu_execution_accelerator"
"""Key of the setting; its value is the text of a :class:`GpuAccelerator`."""
ACCELERATORS = ("tensorrt",)
"""What a GPU accelerator may be called."""
PRECISIONS = ("fp32", "fp16", "bf16")
"""What its engines may compute in."""
SHAPE_SEPARATORS = frozenset(":,")
"""With one of them in its name, an input cannot be named among the provider's shapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAccelerator:
    """What speeds an ONNX model up on a GPU.

    Attributes:
        name: ``"tensorrt"``.
        precision: What it may compute in: ``"fp32"``, ``"fp16"`` or ``"bf16"``.

    Raises:
        RecordError: If there is no such accelerator or precision.
    """

    name: str
    precision: str = "fp32"

    def __post_init__(self) -> None:
        if self.name not in ACCELERATORS or self.precision not in PRECISIONS:
            raise RecordError(
                f"setting {GPU_ACCELERATOR!r} cannot be {str(self)!r}",
                hint=f"it is NAME:PRECISION, of {', '.join(ACCELERATORS)} and {', '.join(PRECISIONS)}",
            )

    def __str__(self) -> str:
        return f"{self.name}:{self.precision}"

    @classmethod
    def read(cls, text: str) -> GpuAccelerator:
        """The accelerator that a text names; the inverse of ``str``.

        Raises:
            RecordError: If it names none.
        """
        name, separator, precision = text.partition(":")
        if not separator:
            raise RecordError(f"setting {GPU_ACCELERATOR!r} cannot be {text!r}", hint="it is NAME:PRECISION")
        return cls(name=name, precision=precision)
