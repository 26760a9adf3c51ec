"""ONNX Runtime sessions: opened silently, with Triton's parameter names, and refusals told in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnxruntime

from aitune.errors import SourceError, UnavailableError, UsageError
from aitune.onnx.providers import PROVIDER_KEYS, open_with, providers_for

__all__ = [
    "SETTING_KEYS",
    "Values",
    "open_session",
    "reading_options",
    "refusal",
    "session_options",
    "session_values",
]

onnxruntime.set_default_logger_severity(4)  # what it has to say arrives as an exception

_LEVELS = {
    -1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
_MODES = {0: onnxruntime.ExecutionMode.ORT_SEQUENTIAL, 1: onnxruntime.ExecutionMode.ORT_PARALLEL}
_TRUE, _FALSE = ("true", "on", "1"), ("false", "off", "0")

Values = dict[str, tuple[str, tuple[int | str | None, ...]]]
"""Name to ONNX Runtime's type text and shape."""


def session_options(settings: Mapping[str, str]) -> Any:
    """Options of a session for Triton's ``parameters``, with the meaning Triton's backend gives them.

    Args:
        settings: Any of :data:`SETTING_KEYS`, as strings. ``optimization.graph.level`` is Triton's own numbering: -1 is
            basic, 1 extended, 2 none, everything else all. Those about a provider are for :func:`open_session`.

    Returns:
        ``onnxruntime.SessionOptions`` that log nothing.

    Raises:
        UsageError: If a key is not one of them or a value is not one it can have.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for key, value in settings.items():
        if key in PROVIDER_KEYS:
            continue
        apply = _SETTERS.get(key)
        if apply is None:
            raise UsageError(f"{key!r} is no session setting", hint=f"known are: {', '.join(SETTING_KEYS)}")
        apply(options, key, value)
    return options


def _set_intra(options: Any, key: str, value: str) -> None:
    options.intra_op_num_threads = max(_integer(key, value), 0)


def _set_inter(options: Any, key: str, value: str) -> None:
    options.inter_op_num_threads = max(_integer(key, value), 0)


def _set_mode(options: Any, key: str, value: str) -> None:
    mode = _MODES.get(_integer(key, value))
    if mode is None:
        raise UsageError(f"{key} must be 0 (sequential) or 1 (parallel), got {value!r}")
    options.execution_mode = mode


def _set_arena(options: Any, key: str, value: str) -> None:
    options.enable_cpu_mem_arena = _boolean(key, value)


def _set_pattern(options: Any, key: str, value: str) -> None:
    options.enable_mem_pattern = _boolean(key, value)


def _set_level(options: Any, key: str, value: str) -> None:
    full = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.graph_optimization_level = _LEVELS.get(_integer(key, value), full)


_SETTERS: dict[str, Callable[[Any, str, str], None]] = {
    "intra_op_thread_count": _set_intra,
    "inter_op_thread_count": _set_inter,
    "execution_mode": _set_mode,
    "enable_mem_arena": _set_arena,
    "enable_mem_pattern": _set_pattern,
    "optimization.graph.level": _set_level,
}
SETTING_KEYS = (*_SETTERS, *PROVIDER_KEYS)
"""The settings that a candidate can have."""


def _integer(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise UsageError(f"{key} must be a whole number, got {value!r}") from error


def _boolean(key: str, value: str) -> bool:
    word = value.lower()
    if word not in _TRUE + _FALSE:
        raise UsageError(f"{key} must be true or false, got {value!r}")
    return word in _TRUE


def reading_options() -> Any:
    """Options of a session that is only looked at: nothing is optimised, no weight is rearranged, one thread."""
    options = session_options({"optimization.graph.level": "2", "intra_op_thread_count": "1"})
    options.add_session_config_entry("session.disable_prepacking", "1")
    return options


def open_session(
    path: Path,
    source: bytes | None = None,
    options: Any = None,
    *,
    device: str = "cpu",
    settings: Mapping[str, str] | None = None,
) -> Any:
    """A session.

    Args:
        path: The model file; errors name it.
        source: Bytes to load instead of the file.
        options: What :func:`session_options` made; by default those of :func:`reading_options`.
        device: ``"cpu"`` or ``"cuda"``, where what has no kernel there runs on the CPU.
        settings: Settings of a candidate, of which those about a provider count here.

    Returns:
        ``onnxruntime.InferenceSession``.

    Raises:
        SourceError: If ONNX Runtime refuses the model.
        UnavailableError: If this ONNX Runtime has no such device or provider, or it does not start.
        UsageError: If a setting has a bad value.
    """
    providers = providers_for(device, settings or {})
    options = options or reading_options()
    if source is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
    model = str(path) if source is None else source
    try:
        return open_with(model, options, providers)
    except UnavailableError:
        raise
    except Exception as error:  # the boundary to a foreign session: its errors have no common base
        raise refusal(path, str(error)) from error


def session_values(session: Any) -> tuple[Values, Values, Values]:
    """Inputs, outputs and overridable initializers as the session has them."""

    def read(nodes: Any) -> Values:
        return {node.name: (node.type, tuple(node.shape)) for node in nodes}

    return read(session.get_inputs()), read(session.get_outputs()), read(session.get_overridable_initializers())


def refusal(path: Path, text: str) -> SourceError:
    """ONNX Runtime's refusal as one line, with the numbers and the advice where the reason is known."""
    line = telling_line(text)
    for pattern, message, hint in _KNOWN:
        if match := re.search(pattern, line):
            return SourceError(f"model {str(path)!r} {message.format(*match.groups())}", hint=hint)
    return SourceError(f"ONNX Runtime {onnxruntime.__version__} refuses model {str(path)!r}: {line}")


def telling_line(text: str) -> str:
    """The first line of an ONNX Runtime error without its codes, source positions and function signatures.

    >>> telling_line("[ONNXRuntimeError] : 1 : FAIL : Load model from m.onnx failed:/src/a.cc:25 void f(int) Bad thing")
    'Bad thing'
    """
    lines = [part.strip() for part in text.splitlines() if part.strip()] or ["no reason given"]
    line = " ".join(lines[:2]) if lines[0].endswith("following indices") else lines[0]
    line = re.sub(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ", "", line)
    line = re.sub(r"^(Load model from .*? failed|Exception during (initialization|loading)): ?", "", line)
    line = re.sub(r"(^|(?<= ))/\S+\.(cc|h):\d+ .*?(\) const|\)|<lambda\(\S*\)>)(?= [A-Za-z!\[]) ?", "", line)
    line = re.sub(
        r"Non-zero status code returned while running (\w+) node\. Name:('.*?') Status Message: ", r"\1 \2: ", line
    )
    line = line.removesuffix("Please fix either the inputs/outputs or the model.")
    line = re.sub(r"^(This is an invalid model\. )?(Error|Fatal error): ", "", line)
    return line.strip().rstrip(".") or "no reason given"


_NEWER = "export it with a lower opset_version, or install a newer onnxruntime"
_KNOWN = (
    (
        r"Unsupported model IR version: (\d+), max supported IR version: (\d+)",
        f"has IR version {{}}, and ONNX Runtime {onnxruntime.__version__} reads up to {{}}",
        "save it with a lower ir_version, or install a newer onnxruntime",
    ),
    (
        r"Opset (\d+) is under development.*for domain (\S+) is till opset (\d+)",
        f"uses opset {{0}} of domain {{1}}, and ONNX Runtime {onnxruntime.__version__} supports up to {{2}}",
        _NEWER,
    ),
    (
        r"^(\S+:\S+?)\(-?\d+\) is not a registered function/op",
        "uses the operator {}, which ONNX Runtime does not have",
        "it needs a custom-operator library; export it with standard operators",
    ),
    (
        r"No opset import for domain '(\S*)'",
        "uses operators of the domain {!r}, which it does not import",
        "export it again; it is not a valid model",
    ),
    (
        r"No Op registered for (\S+) with domain_version of (\d+)",
        "uses the operator {}, which opset {} does not have",
        "it needs another opset or a custom-operator library; export it with standard operators",
    ),
    (
        r"(?:Could not find an implementation|Failed to find kernel) for (\w+)\((\d+)\)",
        f"uses the operator {{}} of opset {{}} with types ONNX Runtime {onnxruntime.__version__} cannot run on a CPU",
        "cast to other types before exporting, or export with a lower opset_version",
    ),
    (
        r"Duplicate definition of name \((.*)\)",
        "defines the name {!r} twice",
        "two values have one name; export it with other output names",
    ),
    (
        r"MLDataType for: tensor\((\w+)\) is not currently",
        "has values of type {}, which ONNX Runtime does not support",
        "cast to another type before exporting",
    ),
)
