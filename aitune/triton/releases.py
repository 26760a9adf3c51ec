"""What differs between Triton releases, as data.

A release has two names (container ``24.10``, server ``2.51.0``); both are understood. The tables say which ONNX
Runtime the container carries, which opset and IR version that one accepts, when a field of ``config.pbtxt`` appeared
(an older server refuses the whole file), and when a behaviour began.

>>> release("24.10") is release("2.51.0")
True
>>> release("24.10").has("onnx_bf16"), release("26.03").has("onnx_bf16")
(False, True)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from aitune.errors import UsageError
from aitune.triton.images import IMAGES

__all__ = ["BEHAVIOURS", "DEFAULT_RELEASE", "FIELDS", "RELEASES", "Release", "release"]

DEFAULT_RELEASE = "24.10"
_MAJOR = 2
"""First number of every server version; another one would be another server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One Triton release and the ONNX Runtime inside it.

    Attributes:
        name: Year and month of the container, e.g. ``"24.10"``.
        server: Version that the server reports, e.g. ``"2.51.0"``.
        onnxruntime: ONNX Runtime of the container's backend, e.g. ``"1.19.2"``.
        max_opset: Newest ``ai.onnx`` opset that ONNX Runtime loads.
        max_ml_opset: Newest ``ai.onnx.ml`` opset that it loads.
        max_ir_version: Newest ONNX IR version that it loads.
        tensorrt: TensorRT of the container, as precisely as is known, e.g. ``"10.5.0.18"``.
        tensorrt_confirmed: Whether a source was read that says so.
        cuda: CUDA of the container, as precisely as is known.
    """

    name: str
    server: str
    onnxruntime: str
    max_opset: int
    max_ml_opset: int
    max_ir_version: int
    tensorrt: str
    tensorrt_confirmed: bool
    cuda: str

    def at_least(self, name: str) -> bool:
        """Whether this release is ``name`` (``"YY.MM"``) or newer."""
        return _order(self.name) >= _order(name)

    def has(self, behaviour: str) -> bool:
        """Whether ``behaviour``, a key of `BEHAVIOURS`, holds in this release."""
        return self.at_least(BEHAVIOURS[behaviour])

    def knows_field(self, key: str) -> bool:
        """Whether the server parses ``Message.field`` or ``Enum.VALUE``; what `FIELDS` does not list is old."""
        return self.at_least(FIELDS.get(key, "0.0"))


FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "ModelConfig.response_cache": "21.10",
        "ModelConfig.runtime": "24.01",
        "ModelConfig.model_metrics": "24.11",
        "ModelInstanceGroup.passive": "21.06",
        "ModelInstanceGroup.host_policy": "21.06",
        "ModelInstanceGroup.secondary_devices": "21.06",
        "ModelInput.optional": "22.01",
        "ModelInput.is_non_linear_format_io": "24.08",
        "ModelOutput.is_non_linear_format_io": "24.08",
        "ModelSequenceBatching.state": "21.11",
        "ModelSequenceBatching.iterative_sequence": "23.11",
        "ModelSequenceBatching.Control.bool_false_true": "21.09",
        "ModelSequenceBatching.State.initial_state": "22.01",
        "ModelSequenceBatching.State.use_same_buffer_for_input_output": "23.11",
        "ModelSequenceBatching.State.use_growable_memory": "23.11",
        "ModelSequenceBatching.StrategyOldest.preserve_ordering": "23.08",
        "ModelEnsembling.Step.model_namespace": "23.03",
        "ModelEnsembling.max_inflight_requests": "25.11",
        "ModelWarmup.count": "22.07",
        "BatchInput.Kind.BATCH_ITEM_SHAPE": "22.03",
        "BatchInput.Kind.BATCH_ITEM_SHAPE_FLATTEN": "22.03",
        "DataType.TYPE_BF16": "22.05",
    }
)
"""First release that parses a field (``Message.field``) or an enum value (``Enum.VALUE``)."""

BEHAVIOURS: Mapping[str, str] = MappingProxyType(
    {
        "default_max_batch_size": "22.05",
        "onnx_default_max_batch_size": "22.06",
        "disable_auto_complete": "22.07",
        "onnx_two_cpu_instances": "22.07",
        "cache_refused_for_sequence_and_decoupled": "22.07",
        "backend_from_dotted_name": "22.08",
        "tensorrt_uint8": "22.09",
        "config_must_be_provided": "22.11",
        "tensorrt_rank_hints": "22.11",
        "onnx_optional_inputs": "23.04",
        "priority_uint64": "23.07",
        "tensorrt_version_compatible": "23.09",
        "python_based_backends": "23.10",
        "onnx_scalar_check": "23.10",
        "python_decoupled_autocomplete": "23.11",
        "ensemble_optional_unmapped": "23.12",
        "ensemble_decoupled_origin_check": "23.12",
        "onnx_tensorrt_ep_context": "24.04",
        "model_config_name": "24.05",
        "tensorrt_int64": "24.05",
        "tensorrt_explicit_batch_only": "24.05",
        "onnx_cuda_accelerator": "24.06",
        "tensorrt_bf16": "24.06",
        "request_byte_size_check": "24.06",
        "tensorrt_int64_shape_input": "24.07",
        "tensorrt_non_linear_io": "24.08",
        "correlation_id_type_check": "25.01",
        "onnx_device_allocator_for_initializers": "25.02",
        "tensorflow_removed": "25.03",
        "tensorrt_allocation_strategy": "25.05",
        "http_max_input_size": "25.06",
        "label_path_confined": "26.02",
        "onnx_tensorrt_bf16": "26.02",
        "onnx_external_data_confined": "26.02",
        "onnx_bf16": "26.03",
        "shape_overflow_check": "26.03",
        "load_name_check": "26.03",
        "torch_aoti": "26.03",
        "pytorch_file_name_by_platform": "26.04",
        "duplicate_requested_outputs_refused": "26.05",
        "tensorrt_multi_device": "26.06",
        "batch_library_confined": "26.06",
    }
)
"""First release in which a behaviour holds."""

# ONNX Runtime minor version -> (ai.onnx opset, ai.onnx.ml opset, IR version) of the newest model it loads.
_ONNX_CEILINGS: Mapping[str, tuple[int, int, int]] = {
    "1.9": (15, 2, 8),
    "1.10": (15, 2, 8),
    "1.11": (16, 2, 8),
    "1.12": (17, 3, 8),
    "1.13": (17, 3, 8),
    "1.14": (18, 3, 8),
    "1.15": (19, 3, 9),
    "1.16": (19, 3, 9),
    "1.17": (20, 4, 9),
    "1.18": (21, 5, 10),
    "1.19": (21, 5, 10),
    "1.20": (21, 5, 10),
    "1.21": (22, 5, 10),
    "1.22": (22, 5, 10),
    "1.23": (23, 5, 11),
    "1.24": (25, 5, 13),
    "1.27": (26, 5, 13),
    "1.28": (26, 5, 13),
}

# Container, server, ONNX Runtime: what the build of each release pins.
_BUILDS = """
21.10 2.15.0 1.9.0    21.11 2.16.0 1.9.0    21.12 2.17.0 1.10.0   22.01 2.18.0 1.10.0   22.02 2.19.0 1.10.0
22.03 2.20.0 1.10.0   22.04 2.21.0 1.10.0   22.05 2.22.0 1.11.1   22.06 2.23.0 1.11.1   22.07 2.24.0 1.12.0
22.08 2.25.0 1.12.0   22.09 2.26.0 1.12.1   22.10 2.27.0 1.13.1   22.11 2.28.0 1.13.1   22.12 2.29.0 1.13.1
23.01 2.30.0 1.13.1   23.02 2.31.0 1.13.1   23.03 2.32.0 1.14.1   23.04 2.33.0 1.14.1   23.05 2.34.0 1.15.0
23.06 2.35.0 1.15.0   23.07 2.36.0 1.15.1   23.08 2.37.0 1.15.1   23.09 2.38.0 1.16.0   23.10 2.39.0 1.16.0
23.11 2.40.0 1.16.3   23.12 2.41.0 1.16.3   24.01 2.42.0 1.16.3   24.02 2.43.0 1.16.3   24.03 2.44.0 1.17.2
24.04 2.45.0 1.17.3   24.05 2.46.0 1.18.0   24.06 2.47.0 1.18.0   24.07 2.48.0 1.18.1   24.08 2.49.0 1.19.0
24.09 2.50.0 1.19.2   24.10 2.51.0 1.19.2   24.11 2.52.0 1.19.2   24.12 2.53.0 1.20.1   25.01 2.54.0 1.20.1
25.02 2.55.0 1.20.1   25.03 2.56.0 1.21.0   25.04 2.57.0 1.21.0   25.05 2.58.0 1.22.0   25.06 2.59.0 1.22.0
25.07 2.59.1 1.22.0   25.08 2.60.0 1.23.0   25.09 2.61.0 1.23.0   25.10 2.62.0 1.23.1   25.11 2.63.0 1.23.2
25.12 2.64.0 1.23.2   26.01 2.65.0 1.23.2   26.02 2.66.0 1.24.1   26.03 2.67.0 1.24.2   26.04 2.68.0 1.24.4
26.05 2.69.0 1.24.4   26.06 2.70.0 1.24.4   26.07 2.71.0 1.27.0   26.08 2.72.0 1.28.0
"""


def _order(name: str) -> tuple[int, int]:
    year, _, month = name.partition(".")
    return int(year), int(month)


def _read_builds() -> tuple[Release, ...]:
    words = _BUILDS.split()
    releases = []
    for name, server, runtime in zip(words[::3], words[1::3], words[2::3], strict=True):
        opset, ml_opset, ir_version = _ONNX_CEILINGS[runtime.rpartition(".")[0]]
        releases.append(
            Release(
                name=name,
                server=server,
                onnxruntime=runtime,
                max_opset=opset,
                max_ml_opset=ml_opset,
                max_ir_version=ir_version,
                tensorrt=IMAGES[name].tensorrt,
                tensorrt_confirmed=IMAGES[name].tensorrt_confirmed,
                cuda=IMAGES[name].cuda,
            )
        )
    return tuple(releases)


RELEASES: tuple[Release, ...] = _read_builds()
"""Every release known here, oldest first."""

_BY_NAME: Mapping[str, Release] = {
    **{known.server.rpartition(".")[0]: known for known in reversed(RELEASES)},
    **{known.server: known for known in RELEASES},
    **{known.name: known for known in RELEASES},
}


def _is_newer(word: str) -> bool:
    """Whether a word is the name of a release, by its form, that came after the last one of the table."""
    parts = word.split(".")
    if not all(part.isdecimal() for part in parts) or len(parts) not in (2, 3):
        return False
    numbers, last = tuple(map(int, parts)), RELEASES[-1]
    if len(parts) == 2 and 1 <= numbers[1] <= 12 and len(parts[0]) == len(parts[1]) == 2:
        return numbers > _order(last.name)
    return numbers[0] == _MAJOR and numbers[:2] > tuple(map(int, last.server.split(".")))[:2]


def release(text: str) -> Release:
    """The release of that name: ``"24.10"``, ``"r24.10"``, ``"24.10-py3"``, ``"2.51.0"``, ``"2.51"``, ``"latest"``.

    Raises:
        UsageError: If no known release has that name.
    """
    word = text.strip().lower().removeprefix("r").removeprefix("v").partition("-")[0]
    if word == "latest":
        return RELEASES[-1]
    found = _BY_NAME.get(word)
    if found is None:
        first, last = RELEASES[0], RELEASES[-1]
        if _is_newer(word):
            raise UsageError(
                f"Triton {text!r} is newer than every release known here, the last of which is {last.name} "
                f"({last.server})",
                hint=f"name {last.name}: what that one serves, a later one is expected to serve, too",
            )
        raise UsageError(
            f"no Triton release is called {text!r}",
            hint=f"name one from {first.name} ({first.server}) to {last.name} ({last.server})",
        )
    return found
