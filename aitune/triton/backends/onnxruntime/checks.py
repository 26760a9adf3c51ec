"""Config against model, before the first request: what the C++ backend refuses at load is refused here.

The texts follow the C++ backend's, so that a message from either leads to the same advice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .failures import LoadError
from .signature import Signature, Tensor

__all__ = ["check", "dims_of"]

Config = Mapping[str, Any]

_CONTROL_LISTS = (
    ("int32_false_true", "TYPE_INT32"),
    ("fp32_false_true", "TYPE_FP32"),
    ("bool_false_true", "TYPE_BOOL"),
)
_CONTROL_KINDS = (
    "CONTROL_SEQUENCE_START",
    "CONTROL_SEQUENCE_END",
    "CONTROL_SEQUENCE_READY",
    "CONTROL_SEQUENCE_CORRID",
)


def check(config: Config, signature: Signature) -> None:
    """Refuse a config that does not fit the model.

    Args:
        config: The complete config, as Triton hands it to an instance.
        signature: The model's tensors.

    Raises:
        LoadError: At the first thing that does not fit.
    """
    controls = list(_controls(config))
    for name, data_type in controls:
        _check_control(config, signature, name, data_type)
    _check_count(config, signature, len(controls))
    for entry in config.get("input") or ():
        _check_input(config, signature, entry)
    scattered = {name for entry in config.get("batch_output") or () for name in entry.get("target_name", ())}
    for entry in config.get("output") or ():
        _check_output(config, signature, entry, scattered=entry["name"] in scattered)


def dims_of(entry: Config) -> tuple[int, ...]:
    """The dims that reach the backend: those of ``reshape`` where there is one.

    >>> dims_of({"dims": [1], "reshape": {"shape": []}})
    ()
    """
    reshape = entry.get("reshape")
    dims = entry.get("dims", ()) if reshape is None else reshape.get("shape") or ()
    return tuple(int(size) for size in dims)


def _controls(config: Config) -> Iterator[tuple[str, str]]:
    """Name and data type of each sequence control."""
    for entry in (config.get("sequence_batching") or {}).get("control_input", ()):
        for control in entry.get("control", ()):
            if control.get("kind", _CONTROL_KINDS[0]) in _CONTROL_KINDS:
                yield entry["name"], _control_type(control)


def _control_type(control: Config) -> str:
    for key, data_type in _CONTROL_LISTS:
        if control.get(key):
            return data_type
    return str(control.get("data_type", "TYPE_INVALID"))


def _check_control(config: Config, signature: Signature, name: str, data_type: str) -> None:
    model = f"unable to load model '{config['name']}', sequence control '{name}'"
    tensor = signature.inputs.get(name)
    if tensor is None:
        raise LoadError(f"configuration specified sequence control '{name}', but model does not provide that input")
    dims = tensor.shape[1:] if config.get("max_batch_size", 0) > 0 else tensor.shape
    if dims != (1,):
        raise LoadError(f"{model}, the model has dims {_text(dims)} but dims [1] is expected")
    if tensor.data_type != data_type:
        provided = _name(tensor).removeprefix("TYPE_")
        raise LoadError(
            f"{model}, the model expects data-type {provided} but the model configuration specifies "
            f"data-type {data_type}"
        )


def _check_count(config: Config, signature: Signature, controls: int) -> None:
    required = sum(not entry.get("optional", False) for entry in config.get("input") or ())
    states = len((config.get("sequence_batching") or {}).get("state", ()))
    expected = required + len(config.get("batch_input") or ()) + controls + states
    if expected != len(signature.inputs):
        raise LoadError(
            f"unable to load model '{config['name']}', configuration expects {expected} inputs, "
            f"model provides {len(signature.inputs)}"
        )


def _check_input(config: Config, signature: Signature, entry: Config) -> None:
    name = entry["name"]
    tensor = signature.inputs.get(name) or signature.initializers.get(name)
    if tensor is None:
        raise LoadError(f"unexpected inference input '{name}', allowed inputs are: {_list(signature.inputs)}")
    optional, ragged = entry.get("optional", False), entry.get("allow_ragged_batch", False)
    if optional and config.get("max_batch_size", 0) > 0:
        raise LoadError(
            f"unable to load model '{config['name']}', optional input '{name}' is not supported for models "
            "that support batching"
        )
    if optional and ragged:
        raise LoadError(
            f"unable to load model '{config['name']}', 'allow_ragged_batch' is not supported for optional "
            f"input '{name}'"
        )
    _check_type(config, entry, tensor, "input")
    if ragged:
        if tensor.shape != (-1,):
            raise LoadError(
                f"unable to load model '{config['name']}', configuration expects model provides input with "
                f"shape [-1] for ragged input '{name}', model provides {_text(tensor.shape)}"
            )
    else:
        _check_shape(config, entry, tensor, is_output=False)


def _check_output(config: Config, signature: Signature, entry: Config, *, scattered: bool) -> None:
    name = entry["name"]
    tensor = signature.outputs.get(name)
    if tensor is None:
        raise LoadError(f"unexpected inference output '{name}', allowed outputs are: {_list(signature.outputs)}")
    _check_type(config, entry, tensor, "output")
    if not scattered:
        _check_shape(config, entry, tensor, is_output=True)


def _check_type(config: Config, entry: Config, tensor: Tensor, role: str) -> None:
    data_type = entry.get("data_type", "TYPE_INVALID")
    if data_type == "TYPE_BF16":
        raise LoadError(f"unsupported datatype {data_type} for {role} '{entry['name']}' for model '{config['name']}'")
    if data_type != tensor.data_type:
        raise LoadError(
            f"unable to load model '{config['name']}', configuration expects datatype {data_type} for {role} "
            f"'{entry['name']}', model provides {_name(tensor)}"
        )


def _check_shape(config: Config, entry: Config, tensor: Tensor, *, is_output: bool) -> None:
    dims = dims_of(entry)
    if not tensor.shape:
        if any(size != 1 for size in dims):
            raise LoadError(
                f"unable to load model '{config['name']}', scalar tensor '{entry['name']}', should only provide 1 "
                f"in the model configuration when the model doesn't support batching. Model configuration "
                f"provided: {_text(dims)}."
            )
        return
    subject = f"model '{config['name']}', tensor '{entry['name']}'"
    batching = config.get("max_batch_size", 0) > 0
    if batching and tensor.shape[0] != -1:
        raise LoadError(
            f"{subject}: for the model to support batching the shape should have at least 1 dimension and the "
            f"first dimension must be -1; but shape expected by the model is {_text(tensor.shape)}"
        )
    full = (-1, *dims) if batching else dims
    if len(full) != len(tensor.shape) or not all(
        _fits(have, want, is_output=is_output) for have, want in zip(tensor.shape, full, strict=True)
    ):
        explained = (
            "an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making "
            f"complete shape {_text(full)}"
        )
        raise LoadError(
            f"{subject}: the model expects {len(tensor.shape)} dimensions (shape {_text(tensor.shape)}) but the "
            f"model configuration specifies {len(full)} dimensions "
            f"({explained if batching else f'shape {_text(full)}'})"
        )


def _fits(have: int, want: int, *, is_output: bool) -> bool:
    """Whether a config's size may stand for a model's: an input may be narrowed, an output must be repeated."""
    return have == want or (have == -1 and not is_output)


def _name(tensor: Tensor) -> str:
    return tensor.data_type or "TYPE_<invalid>"


def _text(dims: Sequence[int]) -> str:
    return "[" + ",".join(str(size) for size in dims) + "]"


def _list(tensors: Mapping[str, Tensor]) -> str:
    return ", ".join(sorted(tensors))
