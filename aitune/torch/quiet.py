"""Silence around exporters, which print, warn and log about things that the checks afterwards decide."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

__all__ = ["quiet"]

_TALKATIVE = ("torch.onnx", "torch.export", "torch._export", "torch._dynamo", "torch.fx", "onnxscript", "onnx_ir")


class _Mute(logging.Filter):
    """Lets nothing through."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Never."""
        return False


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nothing that Python code prints to stdout, warns or logs inside gets out; exceptions do."""
    mute = _Mute()
    handlers = [handler for name in ("torch", "", *_TALKATIVE) for handler in logging.getLogger(name).handlers]
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    for target in (*handlers, *loggers):
        target.addFilter(mute)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for target in (*handlers, *loggers):
            target.removeFilter(mute)
