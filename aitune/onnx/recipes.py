"""Other files for the same model: fused, or computing in fewer bits. Made by ONNX Runtime's own tools.

``python -m aitune.onnx.recipes KIND SOURCE TARGET [CALIBRATION.npz]`` makes one; tuning starts that, so that a tool
that crashes or takes all the memory costs one candidate. The packages that the tools need are loaded when one is used.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from aitune.errors import AituneError, SourceError
from aitune.numerics.dtypes import Array
from aitune.onnx.opening import opened
from aitune.onnx.reading import read_interface
from aitune.onnx.runtime import telling_line
from aitune.onnx.samples import read_npz
from aitune.onnx.session import OnnxRunner

__all__ = ["KINDS", "main", "make"]

Tensors = Mapping[str, Array]

_FUSIONS = (
    "Attention",
    "MultiHeadAttention",
    "EmbedLayerNormalization",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
    "RotaryEmbedding",
)
"""What the transformer tool fuses and a session does not do by itself in every such graph."""
_MOST_REQUESTS = 16
"""So many requests show which products lose most."""
_OPSET_OF_AXES = 13
"""Since this opset ``DequantizeLinear`` has an axis, so that each channel can have a scale of its own."""


def make(kind: str, source: Path, target: Path, calibration: Path | None = None) -> None:
    """Make the file, and make sure that it has the source's contract.

    Args:
        kind: One of :data:`KINDS`.
        source: The model, in one file.
        target: Where to.
        calibration: Requests for static and mixed quantisation, see :mod:`aitune.onnx.samples`.

    Raises:
        SourceError: If the tool cannot make it, finds nothing to do, or changes the contract.
    """
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "model.onnx"
        try:
            KINDS[kind](source, made, calibration)
        except AituneError:
            raise
        except Exception as error:  # the boundary to foreign tools: their errors have no common base
            raise SourceError(f"cannot be made: {type(error).__name__}: {telling_line(str(error))}"[:300]) from error
        _check_contract(source, made)
        made.replace(target)


def main(argv: Sequence[str]) -> int:
    """Make what the arguments say; an error is its message on stdout and status 2."""
    kind, source, target, *rest = argv
    logging.disable(logging.WARNING)
    try:
        make(kind, Path(source), Path(target), Path(rest[0]) if rest else None)
    except AituneError as error:
        sys.stdout.write(error.message + "\n")
        return 2
    return 0


def _fuse(source: Path, target: Path, calibration: Path | None) -> None:
    from onnxruntime.transformers.optimizer import optimize_model

    model = optimize_model(str(source), model_type="bert", num_heads=0, hidden_size=0, opt_level=0, use_gpu=False)
    found = model.get_fused_operator_statistics()
    if not any(found.get(operator) for operator in _FUSIONS):
        raise SourceError("the graph has no transformer block of a form that ONNX Runtime's fusions know")
    model.save_model_to_file(str(target))


def _quantize_dynamic(source: Path, target: Path, calibration: Path | None) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _prepared(source) as prepared:
        quantize_dynamic(prepared, target, weight_type=QuantType.QInt8, per_channel=True, reduce_range=not _has_vnni())


def _quantize_mixed(source: Path, target: Path, calibration: Path | None) -> None:
    import onnx

    from aitune.onnx.mixed import agrees, fewest_left_out, products, worst_first

    if calibration is None:
        raise SourceError("finding the products that lose most needs requests of numbers")
    answers = _answered(source, read_npz(calibration)[:_MOST_REQUESTS])
    with _prepared(source) as prepared:
        model = onnx.load(prepared)
        found = products(model)
        if len(found) < 2:
            raise SourceError("the graph has no two products of float32 with constant matrices")
        needless = False
        with suppress(SourceError):  # a file that ONNX Runtime refuses is no better
            _quantize_dynamic(source, target, None)
            needless = agrees(target, answers)
        if needless:
            raise SourceError("int8-dynamic answers well enough: no product has to be left as it is")
        worst = worst_first(model, found, [request for request, _ in answers])
        del found  # it holds every matrix once more
        made = -1

        def good(left_out: int) -> bool:
            nonlocal made
            made = left_out
            _quantize_products(model, target, worst[left_out:])
            return agrees(target, answers)

        least = fewest_left_out(len(worst), good)
        if least is None:
            raise SourceError(f"answers differently even with half of its {len(worst)} products left as they are")
        if made != least:
            _quantize_products(model, target, worst[least:])


def _quantize_products(model: Any, target: Path, names: Sequence[str]) -> None:
    """These products in eight bits; a Gemm is a MatMul by then, and called so."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    copy = onnx.ModelProto()
    copy.CopyFrom(model)  # the tool changes what it is given
    quantize_dynamic(
        copy,
        target,
        op_types_to_quantize=["MatMul", "Gemm"],
        nodes_to_quantize=[name for product in names for name in (product, f"{product}_MatMul")],
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=not _has_vnni(),
    )


def _answered(source: Path, requests: Sequence[Mapping[str, Array]]) -> list[tuple[Tensors, Tensors]]:
    """The requests that the model answers, with its answers."""
    answers: list[tuple[Tensors, Tensors]] = []
    with closing(OnnxRunner(source)) as runner:
        for request in requests:
            with suppress(SourceError):  # made-up values may be refused
                answers.append((request, runner.run(request)))
    if not answers:
        raise SourceError("the model answers none of the requests")
    return answers


def _quantize_static(source: Path, target: Path, calibration: Path | None) -> None:
    if calibration is None:
        raise SourceError("static quantisation needs samples to see what values occur", hint="give --samples")
    with opened(source) as (_, outline):
        opset = dict(outline.opset_imports).get("", 0)
    with _prepared(source) as prepared:
        if opset >= _OPSET_OF_AXES:
            with suppress(ValueError):  # a bias with two axes trips onnxruntime 1.32 where every channel has a scale
                _quantize_statically(prepared, target, calibration, per_channel=True)
                return
        _quantize_statically(prepared, target, calibration, per_channel=False)


def _quantize_statically(prepared: Path, target: Path, calibration: Path, *, per_channel: bool) -> None:
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    quantize_static(
        prepared,
        target,
        _Reader(calibration),
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        reduce_range=not _has_vnni(),
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def _halve(source: Path, target: Path, calibration: Path | None) -> None:
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


KINDS: dict[str, Callable[[Path, Path, Path | None], None]] = {
    "fused": _fuse,
    "int8-dynamic": _quantize_dynamic,
    "int8-mixed": _quantize_mixed,
    "int8-static": _quantize_static,
    "fp16": _halve,
}
"""What can be made, by name."""


class _Reader:
    """Samples one by one, as ONNX Runtime's calibration asks for them."""

    def __init__(self, path: Path) -> None:
        self._samples: Iterator[dict[str, Array]] = iter(read_npz(path))

    def get_next(self) -> dict[str, Array] | None:
        """The next sample, None after the last."""
        return next(self._samples, None)


@contextmanager
def _prepared(source: Path) -> Iterator[Path]:
    """The model with its shapes inferred, as the quantiser wants it; as it is where they cannot be."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "prepared.onnx"
        try:
            quant_pre_process(str(source), str(target), skip_symbolic_shape=True)
        except Exception:  # the boundary to foreign tools: shapes help, and the model goes without them
            yield source
            return
        yield target


def _has_vnni() -> bool:
    """Whether the processor multiplies bytes without overflow in between, so that all eight bits can be used."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return any(flag in text for flag in ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp"))


def _check_contract(source: Path, made: Path) -> None:
    """Same names in the same order, same element types, same shapes."""
    before, after = (read_interface(path, prefer=("onnxruntime",)) for path in (source, made))
    for side in ("inputs", "outputs"):
        pairs = zip(getattr(before, side), getattr(after, side), strict=False)
        wrong = [old.name for old, new in pairs if _port(old) != _port(new)]
        if wrong or len(getattr(before, side)) != len(getattr(after, side)):
            raise SourceError(f"the contract changes: {side[:-1]} {wrong[0] if wrong else 'count'!r} is not the same")


def _port(port: Any) -> tuple[object, ...]:
    """What must stay: a dynamic axis may get another symbol, which nothing that is served shows."""
    shape = port.shape
    return port.name, port.dtype, shape and tuple(size if isinstance(size, int) else None for size in shape)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
