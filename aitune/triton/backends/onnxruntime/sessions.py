"""From a model's directory to an ONNX Runtime session."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import onnxruntime

from .accelerators import providers_for
from .failures import LoadError
from .settings import Settings

__all__ = ["message_of", "model_file", "open_session"]

_CODED = re.compile(r"\[ONNXRuntimeError\] : (\d+) : \w+ : (.*)", re.DOTALL)


def model_file(version: str, config: Mapping[str, Any]) -> str:
    """The file to load; what the config names may also be a directory that holds a ``model.onnx``.

    Args:
        version: The version's directory.
        config: The model's config.

    Raises:
        LoadError: If it is not there.
    """
    path = f"{version}/{config.get('default_model_filename') or 'model.onnx'}"
    if not os.path.exists(_encoded(path)):
        raise LoadError(f"failed to stat file {path}")
    if not os.path.isdir(_encoded(path)):
        return path
    if not os.path.exists(_encoded(f"{path}/model.onnx")):
        raise LoadError(f"unable to find '{path}/model.onnx' for model instance '{config['name']}'")
    return f"{path}/model.onnx"


def _encoded(path: str) -> bytes:
    """A path as the system has it: the Python inside a stub takes the system's names for ASCII, whatever the locale."""
    return path.encode("utf-8", errors="surrogateescape")


def open_session(
    path: str, config: Mapping[str, Any], settings: Settings, *, kind: str = "CPU", device_id: int = 0
) -> Any:
    """A session for a model, with the config's custom operators.

    Args:
        path: The model's file.
        config: The model's config.
        settings: What :func:`read_settings` made of it.
        kind: Where the instance runs: ``"CPU"``, ``"GPU"`` or ``"MODEL"``.
        device_id: The GPU of a GPU instance.

    Raises:
        LoadError: If an accelerator is refused, or in ONNX Runtime's words.
    """
    available = tuple(onnxruntime.get_available_providers())
    providers = providers_for(config, kind=kind, device_id=device_id, available=available)
    libraries = (config.get("model_operations") or {}).get("op_library_filename", ())
    try:
        for library in libraries:
            settings.options.register_custom_ops_library(library)
        return onnxruntime.InferenceSession(path, settings.options, providers=providers)
    except Exception as error:  # ONNX Runtime's errors have no base of their own; each means that there is no session
        raise LoadError(message_of(error)) from error


def message_of(error: Exception) -> str:
    """An ONNX Runtime error in the words of the C++ backend.

    >>> message_of(RuntimeError("[ONNXRuntimeError] : 1 : FAIL : no such file"))
    'onnx runtime error 1: no such file'
    """
    found = _CODED.fullmatch(str(error))
    return f"onnx runtime error {found[1]}: {found[2]}" if found else f"onnx runtime error: {error}"
