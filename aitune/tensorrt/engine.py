"""A plan deserialised: what the engine itself says of its tensors, formats and profiles. Takes a GPU."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from aitune.errors import SourceError
from aitune.records.interface import Interface, Port
from aitune.records.plans import PlanFacts, PlanHeader, PlanTensor, Profile, ProfileRange
from aitune.tensorrt.dtypes import dtype_of
from aitune.tensorrt.library import package_of
from aitune.tensorrt.messages import listening, logger_of

__all__ = ["engine_facts", "engine_interface", "inspect_engine", "open_engine"]


def open_engine(trt: ModuleType, data: bytes, name: str) -> Any:
    """The engine of a plan.

    Args:
        trt: The library.
        data: The plan.
        name: What to call it in an error.

    Raises:
        SourceError: If the library does not load it: another version, another GPU, or a plugin that is missing.
    """
    with listening(trt) as heard:
        engine = trt.Runtime(logger_of(trt)).deserialize_cuda_engine(data)
    if engine is None:
        raise SourceError(
            f"{package_of(trt)} {trt.__version__} does not load plan {name!r}: {heard.last()}",
            hint="load it with the library and on the kind of GPU it was built for, or build it again here",
        )
    return engine


def engine_interface(trt: ModuleType, engine: Any) -> Interface:
    """What the engine declares at its boundary; sizes that are free have no name in an engine."""
    names = _names(engine)
    inputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
    return Interface(
        format="tensorrt_plan",
        inputs=tuple(_port(trt, engine, name) for name in inputs),
        outputs=tuple(_port(trt, engine, name) for name in names if name not in inputs),
        producer=f"{package_of(trt)} {trt.__version__}",
        source="tensorrt",
    )


def engine_facts(trt: ModuleType, engine: Any, header: PlanHeader, capability: str) -> PlanFacts:
    """What a record holds of the engine.

    Args:
        trt: The library.
        engine: The engine.
        header: The header of its plan.
        capability: Compute capability of the GPU that loaded it.
    """
    level = str(engine.hardware_compatibility_level).rpartition(".")[2].lower()
    return PlanFacts(
        builder=header.builder,
        version=header.version or str(trt.__version__),
        compute_capability=capability,
        hardware_compatibility=level,
        profiles=tuple(_profile(trt, engine, index) for index in range(engine.num_optimization_profiles)),
        tensors=tuple(
            PlanTensor(
                name=name,
                format=str(engine.get_tensor_format(name)).rpartition(".")[2],
                shape_tensor=bool(engine.is_shape_inference_io(name)),
            )
            for name in _names(engine)
        ),
    )


def inspect_engine(trt: ModuleType, engine: Any) -> str:
    """The library's own description of every layer, as JSON."""
    return str(engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON))


def _names(engine: Any) -> list[str]:
    return [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]


def _port(trt: ModuleType, engine: Any, name: str) -> Port:
    value = engine.get_tensor_dtype(name)
    dims = tuple(size if size >= 0 else None for size in engine.get_tensor_shape(name))
    return Port(name=name, element_type=str(value).rpartition(".")[2], dtype=dtype_of(trt, value), shape=dims)


def _profile(trt: ModuleType, engine: Any, index: int) -> Profile:
    inputs = [name for name in _names(engine) if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
    return Profile(inputs=tuple(_range(engine, index, name) for name in inputs))


def _range(engine: Any, index: int, name: str) -> ProfileRange:
    values = engine.get_tensor_profile_values(index, name) if engine.is_shape_inference_io(name) else None
    triple = values or engine.get_tensor_profile_shape(name, index)
    low, typical, high = (tuple(int(size) for size in part) for part in triple)
    return ProfileRange(name=name, min=low, opt=typical, max=high, values=bool(values))
