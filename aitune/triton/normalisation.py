"""Is what a server serves what was published? Yes, after what Triton itself fills in (rules §4.2 to §4.4).

A running Triton gives its config back with names, platform, preferred batch sizes and pinned memory filled in, and with
KIND_AUTO turned into what the host has. :func:`differences` knows all of that, so that whatever it returns is a real
difference. Messages are compared, not JSON: gRPC's JSON form drops ``max_batch_size: 0``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aitune.triton.schema import model_config

__all__ = ["compare", "differences", "normalised"]

_PLATFORMS = {
    "onnxruntime": "onnxruntime_onnx",
    "tensorrt": "tensorrt_plan",
    "pytorch": "pytorch_libtorch",
    "ensemble": "ensemble",
}
_FILENAMES = {"onnxruntime": "model.onnx", "tensorrt": "model.plan", "pytorch": "model.pt", "python": "model.py"}
_TWO_CPU_INSTANCES = ("onnxruntime", "tensorflow")
_ABSENT = object()


def differences(published: Any, served: Any) -> tuple[str, ...]:
    """Where a served config is not the published one.

    Args:
        published: ``ModelConfig`` of the repository.
        served: ``ModelConfig`` as a running Triton returns it, from any host.

    Returns:
        One line per difference, e.g. ``"max_batch_size: published 0, served 4"``; empty when they agree.
    """
    left, right = normalised(published), normalised(served)
    if not published.runtime:  # R106: the server notes how it found the backend
        right.ClearField("runtime")
    _settle_instances(left, right)
    return tuple(
        f"{path}: published {_show(mine)}, served {_show(theirs)}" for path, mine, theirs in _walk(left, right)
    )


def compare(found: Any, expected: Any) -> tuple[str, ...]:
    """Where two messages differ, as they stand: ``"dims[0]: 4, expected -1"``."""
    return tuple(f"{path}: {_show(mine)}, expected {_show(theirs)}" for path, mine, theirs in _walk(found, expected))


def normalised(config: Any) -> Any:
    """A copy with what Triton fills in on every host: R166 to R170, R175 to R178, R180."""
    full = model_config().ModelConfig()
    full.CopyFrom(config)
    ensemble = full.HasField("ensemble_scheduling")
    if not full.platform:
        full.platform = "ensemble" if ensemble else _PLATFORMS.get(full.backend, "")
    if not full.default_model_filename:
        full.default_model_filename = _FILENAMES.get(full.backend, "")
    if full.version_policy.WhichOneof("policy_choice") is None:
        if full.HasField("version_policy"):
            full.version_policy.all.SetInParent()  # R42
        else:
            full.version_policy.latest.num_versions = 1
    _fill_schedulers(full)
    if not ensemble:
        for field in ("input_pinned_memory", "output_pinned_memory"):
            if not full.optimization.HasField(field):
                getattr(full.optimization, field).enable = True
        for index, group in enumerate(full.instance_group):
            group.name = group.name or f"{full.name}_{index}"
    if not full.model_transaction_policy.decoupled:
        full.ClearField("model_transaction_policy")
    return full


def _fill_schedulers(full: Any) -> None:
    scheduler = full.WhichOneof("scheduling_choice")
    if scheduler == "dynamic_batching":
        _fill_preferred(full.dynamic_batching, full.max_batch_size)
    elif scheduler == "sequence_batching":
        sequences = full.sequence_batching
        sequences.max_sequence_idle_microseconds = sequences.max_sequence_idle_microseconds or 1_000_000
        if sequences.HasField("oldest"):
            _fill_preferred(sequences.oldest, full.max_batch_size)


def _fill_preferred(batcher: Any, max_batch_size: int) -> None:
    if not batcher.preferred_batch_size and max_batch_size > 0:
        batcher.preferred_batch_size.append(max_batch_size)


def _settle_instances(left: Any, right: Any) -> None:
    """Accept the kind, the GPUs and the count that this host made of an open choice (R107, R179, R181 to R183)."""
    if not left.instance_group and len(right.instance_group) == 1 and right.instance_group[0].count >= 1:
        # A default group is named after the model; its kind and count are the host's and the backend's choice.
        left.instance_group.add().CopyFrom(right.instance_group[0])
        return
    for mine, theirs in zip(left.instance_group, right.instance_group, strict=False):
        kinds = mine.Kind
        if mine.kind == kinds.Value("KIND_AUTO") and theirs.kind in (kinds.Value("KIND_CPU"), kinds.Value("KIND_GPU")):
            mine.kind = theirs.kind
        if mine.kind == kinds.Value("KIND_GPU") and not mine.gpus:
            del theirs.gpus[:]
        if mine.count < 1:
            twice = left.backend in _TWO_CPU_INSTANCES and mine.kind == kinds.Value("KIND_CPU")
            mine.count = 2 if twice else 1


def _walk(left: Any, right: Any) -> Iterator[tuple[str, object, object]]:
    from google.protobuf.json_format import MessageToDict  # only who compares pays for it

    def plain(message: Any) -> object:
        return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)

    return _differing(plain(left), plain(right), "")


def _differing(left: object, right: object, path: str) -> Iterator[tuple[str, object, object]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in dict.fromkeys((*left, *right)):
            yield from _differing(left.get(key, _ABSENT), right.get(key, _ABSENT), f"{path}.{key}" if path else key)
    elif isinstance(left, list) and isinstance(right, list):
        if len(left) == len(right):
            for index, (mine, theirs) in enumerate(zip(left, right, strict=True)):
                yield from _differing(mine, theirs, f"{path}[{index}]")
        else:
            yield path, left, right
    elif left != right:
        yield path, left, right


def _show(value: object) -> str:
    if value is _ABSENT:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
