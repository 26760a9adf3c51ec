"""Where PyTorch's compiler puts its files while a module is exported."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["scratch_folder"]

_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


@contextmanager
def scratch_folder() -> Iterator[None]:
    """A folder for the compiler that goes when the block ends, however it ends.

    PyTorch makes ``torchinductor_<user>`` in the folder for temporary files as soon as a module is exported, and leaves
    it there. A place that the user chose is left alone.
    """
    if _VARIABLE in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="aitune-compiler-", ignore_cleanup_errors=True) as folder:
        os.environ[_VARIABLE] = folder
        try:
            yield
        finally:
            os.environ.pop(_VARIABLE, None)
