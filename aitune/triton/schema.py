"""Triton's protobuf classes for ``config.pbtxt``, without importing a client.

``from tritonclient.grpc import model_config_pb2`` pulls in grpc and numpy (0.3 s). The generated file needs only
protobuf, so it is loaded by its path (0.07 s). Protobuf keeps one class per message in its pool: whoever imports
tritonclient later gets the very same classes.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from aitune.errors import MissingDependencyError

__all__ = ["model_config", "parse_config"]

_CANONICAL = "tritonclient.grpc.model_config_pb2"
_PRIVATE = "aitune.triton._model_config_pb2"


@functools.cache
def model_config() -> ModuleType:
    """The generated module with ``ModelConfig``, ``ModelInput``, ``DataType`` and the rest.

    Raises:
        MissingDependencyError: If tritonclient (or protobuf under it) is not installed.

    >>> model_config().ModelConfig(name="m", max_batch_size=8).max_batch_size
    8
    """
    loaded = sys.modules.get(_CANONICAL)
    return loaded if loaded is not None else _load(_generated_file())


def parse_config(text: str) -> object:
    """A ``ModelConfig`` message from its text form, as protobuf itself reads it.

    Raises:
        google.protobuf.text_format.ParseError: If the text is not a ``ModelConfig``.
    """
    from google.protobuf import text_format  # only who parses with protobuf pays for it

    message: object = text_format.Parse(text, model_config().ModelConfig())
    return message


def _generated_file() -> Path:
    spec = importlib.util.find_spec("tritonclient")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder, "grpc", "model_config_pb2.py")
        if path.is_file():
            return path
    raise MissingDependencyError("tritonclient", extra="all")


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_PRIVATE, path)
    if spec is None or spec.loader is None:
        raise MissingDependencyError("tritonclient", extra="all")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "google":
            raise
        raise MissingDependencyError("protobuf", extra="all") from error
    sys.modules[_PRIVATE] = module
    return module
