"""Files that a config names beside the model: labels, batching libraries (section 2.4)."""

from __future__ import annotations

import os
from collections.abc import Iterator

from aitune.triton.check.finding import Finding
from aitune.triton.check.folder import DIRECTORY, FILE, inside, joined, kind_of
from aitune.triton.check.model import Model, Version

__all__ = ["batch_library", "labels"]


def labels(model: Model, version: Version) -> Iterator[Finding]:
    """R48: label files can be read."""
    for node in version.config.messages("output"):
        name = node.text("label_filename")
        if not name:
            continue
        path = joined(model.folder.path, name)
        if not inside(model.root, path):
            yield model.warning(
                "R48", node, "label_filename", f"label file {name!r} lies outside the repository: not read"
            )
        elif kind_of(path) == DIRECTORY:
            message = f"label file {name!r} is a folder, which makes the server abort"
            yield model.error("R48", node, "label_filename", message, "name a file")
        elif kind_of(path) != FILE:
            message = f"failed to open text file for read: there is no label file {name!r} in the model directory"
            yield model.error("R48", node, "label_filename", message)
        elif not os.access(path, os.R_OK):
            message = f"failed to open text file for read: label file {name!r} may not be read"
            yield model.error("R48", node, "label_filename", message)
        elif model.has("label_path_confined") and not inside(model.folder.path, path):
            message = f"label file {name!r} is outside model directory"
            yield model.error("R48", node, "label_filename", message)


def batch_library(model: Model, version: Version) -> Iterator[Finding]:
    """R51: a custom batching library is there, and sequences have none."""
    entry = version.config.map("parameters").get("TRITON_BATCH_STRATEGY_PATH")
    if entry is None:
        return
    holder = entry.message("value")
    path = holder.text("string_value") if holder is not None else ""
    if version.config.message("sequence_batching") is not None:
        message = "TRITON_BATCH_STRATEGY_PATH cannot be specified with sequence batcher"
        yield model.error("R51", entry, "key", message, "remove the parameter")
    elif model.has("batch_library_confined") and not inside(model.folder.path, model.folder.path / path):
        yield model.error("R51", holder or entry, "string_value", f"batching library {path!r} escapes model repository")
    elif path.startswith("/"):
        message = f"batching library {path!r} is a file of the server's host: whether it loads is not checked"
        yield model.warning("R51", holder or entry, "string_value", message)
    else:
        message = f"Batching library path not found: {path!r}"
        yield model.error("R51", holder or entry, "string_value", message, "give an absolute path")
